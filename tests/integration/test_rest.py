"""REST, the event stream and the page, through ASGI, over a federation that is made up."""

import asyncio
import contextlib
import csv
import io
import json
import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pyarrow import parquet

from domo.api.measured import MetricPoint
from domo.api.schema import (
    Resources,
    SiloStatus,
)
from domo.errors import ConfigError, CoordinatorUnavailableError, StateError, TaskError
from domo.methods import METHODS, PRESETS
from domo.model.card_text import markdown
from domo.run_config import RunConfig
from domo.tasks import TASKS
from domo_server.coordinator.submission import Submissions
from domo_server.dashboard import DashboardServer, create_app
from domo_server.dashboard import openapi_examples as examples
from domo_server.dashboard.app import STATIC
from domo_server.dashboard.errors import faults_by_field
from domo_server.dashboard.stream import EventTail, StreamHub, parse_event_id
from domo_server.dashboard_config import PageNames
from domo_server.events.notifier import Changes
from domo_server.store.database import open_database
from domo_server.store.rows import EventRow
from domo_server.store.store import Store
from domo_server.view.rows import event_of
from tests.support.played.made_up import Federation
from tests.support.played.people import BEARER, TOKEN, made_people, session_of

PEOPLE = made_people()
COOKIE = {"domo": session_of(PEOPLE, "anna", "admin")}
HOST = "127.0.0.1:8080"
MODEL = b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "


@pytest.fixture
def federation() -> Federation:
    return Federation()


@pytest.fixture
def app(federation: Federation) -> FastAPI:
    async def metrics() -> bytes:
        return b"domo_silo_up 1.0\n"

    return create_app(federation, federation, PEOPLE, metrics=metrics, open_to=lambda _: True)


def ask(app: FastAPI, method: str, path: str, **kwargs: Any) -> httpx.Response:
    """One request; a bug in the application becomes its 500 answer."""
    cookies = kwargs.pop("cookies", None)

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        base = f"http://{HOST}"
        async with httpx.AsyncClient(transport=transport, base_url=base, cookies=cookies) as client:
            return await client.request(method, path, **kwargs)

    return asyncio.run(go())


def get(app: FastAPI, path: str, **kwargs: Any) -> httpx.Response:
    return ask(app, "GET", f"/api/v1{path}", **kwargs)


def refused(
    answer: httpx.Response, status: int, code: str, *words: str, cause: str | None = None
) -> None:
    """The answer has the one error shape and says these words."""
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    with_fields = {"fields"} if code == "invalid_config" else set()
    with_cause = set() if cause is None else {"cause"}
    assert set(body["error"]) == {"code", "message", "status"} | with_fields | with_cause
    assert body["error"].get("cause") == cause
    assert body["error"]["code"] == code
    assert body["error"]["status"] == status
    for word in words:
        assert word in body["error"]["message"]


# ---- reading


def test_status_silos_and_a_loss_that_is_not_a_number(app: FastAPI) -> None:
    status = get(app, "/status").json()
    assert status["num_silos_online"] == 1
    assert status["current_run"] is None
    assert status["silos"] == get(app, "/silos").json()
    assert status["silos"][0]["loss"] is None


def test_runs(app: FastAPI) -> None:
    (summary,) = get(app, "/runs").json()
    assert summary["run_id"] == "1-fedavg"
    assert "config" not in summary
    run = get(app, "/runs/1-fedavg").json()
    assert run["metrics"][0]["metrics"] == {"accuracy": 0.5}
    (record,) = get(app, "/runs/1-fedavg/rounds").json()
    assert record["participants"][0]["num_steps"] == 12


def test_events_by_page(app: FastAPI) -> None:
    def ids(query: str) -> list[int]:
        return [event["event_id"] for event in get(app, f"/events{query}").json()]

    assert ids("") == [1, 2, 3]
    assert ids("?after=1&limit=1") == [3]
    assert ids("?after=3") == []


def test_events_of_a_run_a_silo_and_a_kind(app: FastAPI, federation: Federation) -> None:
    facts = [
        ("refused", "1-fedavg", "site-a"),
        ("silo-failed", "1-fedavg", "site-b"),
        ("refused", "2-domo", "site-b"),
        ("joined", None, "site-b"),
    ]
    federation.event_list += [
        event_of(EventRow(i, "2026-01-05T09:00:00Z", kind, "t", run_id, silo_id))
        for i, (kind, run_id, silo_id) in enumerate(facts, 10)
    ]

    def ids(query: str) -> list[int]:
        return [event["event_id"] for event in get(app, f"/events?{query}").json()]

    assert ids("run_id=1-fedavg") == [10, 11]
    assert ids("silo_id=site-b") == [11, 12, 13]
    assert ids("kind=refused") == [10, 12]
    assert ids("kind=refused&kind=joined&silo_id=site-b") == [12, 13]
    assert ids("kind=refused&run_id=2-domo&silo_id=site-a") == []
    assert ids("silo_id=site-b&limit=1") == [13]
    assert ids("silo_id=site-b&after=12") == [13]
    assert ids("level=problem") == [10, 11, 12]
    assert ids("level=problem&silo_id=site-b") == [11, 12]
    assert ids("level=info&silo_id=site-b") == [13]
    refused(get(app, "/events?level=bad"), 422, "invalid_request", "level")
    refusal = get(app, "/events?kind=refused").json()[0]
    assert (refusal["run_id"], refusal["silo_id"], refusal["text"]) == ("1-fedavg", "site-a", "t")


def test_a_silo_with_its_rounds_and_events(app: FastAPI, federation: Federation) -> None:
    federation.silo_list.append(SiloStatus(silo_id="site-b", dropped="on holiday"))
    federation.silo_list.append(SiloStatus(silo_id="site-c"))
    first = federation.event_list[0]
    federation.event_list += [
        first.model_copy(update={"event_id": i, "silo_id": "site-b"}) for i in range(10, 70)
    ]
    silo = get(app, "/silos/site-b").json()
    assert (silo["silo_id"], silo["dropped"]) == ("site-b", "on holiday")
    assert [event["event_id"] for event in silo["events"]] == list(range(20, 70))
    assert silo["rounds_run_id"] == "1-fedavg"
    (record,) = silo["rounds"]
    assert (record["took_part"], record["left_out"]) == (False, "no update in time")
    (record,) = get(app, "/silos/site-a").json()["rounds"]
    assert (record["took_part"], record["left_out"], record["num_steps"]) == (True, None, 12)
    assert get(app, "/silos/site-c").json()["rounds"] == []  # it was not sampled
    refused(get(app, "/silos/site-x"), 404, "not_found", "site-x", "/api/v1/silos")
    one, many = federation.round_list[0], {"rounds_done": 400}
    federation.round_list = [one.model_copy(update={"round_index": i}) for i in range(401)]
    federation.run_list[0] = federation.run_list[0].model_copy(update=many)
    rounds = get(app, "/silos/site-a").json()["rounds"]  # the last 300, and one that closes
    assert [record["round_index"] for record in rounds] == list(range(100, 401))
    federation.run_list.clear()
    silo = get(app, "/silos/site-b").json()
    assert (silo["rounds_run_id"], silo["rounds"]) == (None, [])


def test_resources_are_asked_for_and_not_streamed(app: FastAPI, federation: Federation) -> None:
    said = Resources(disk_free_bytes=7)
    federation.silo_list[0] = federation.silo_list[0].model_copy(update={"resources": said})
    federation.silo_list.append(SiloStatus(silo_id="site-b"))
    assert get(app, "/silos/site-a/resources").json() == said.model_dump()
    assert set(get(app, "/silos/site-b/resources").json().values()) == {None}
    assert get(app, "/silos").json()[0]["resources"]["disk_free_bytes"] == 7
    refused(get(app, "/silos/site-x/resources"), 404, "not_found", "site-x")
    streams = app.state.streams

    async def first() -> Any:
        async with contextlib.aclosing(streams.messages()) as messages:
            texts = [await anext(messages), await anext(messages)]
        return json.loads(texts[1].partition("data: ")[2])

    assert asyncio.run(first())["status"]["silos"][0]["resources"] is None


def test_the_log_that_a_silo_shares(app: FastAPI) -> None:
    log = get(app, "/silos/site-a/log").json()
    assert log["shared"] is True
    assert [line["text"] for line in log["lines"]] == ["line 1", "line 2", "line 3"]
    assert [x["number"] for x in get(app, "/silos/site-a/log?after=2").json()["lines"]] == [3]
    refused(get(app, "/silos/site-x/log"), 404, "not_found", "site-x")
    refused(get(app, "/silos/site-a/log?after=-1"), 422, "invalid_request", "after")


def test_the_rounds_of_a_silo_are_of_the_current_run(app: FastAPI, federation: Federation) -> None:
    paused = {"run_id": "0-older", "state": "PAUSED"}
    federation.run_list.append(federation.run_list[0].model_copy(update=paused))
    assert get(app, "/silos/site-a").json()["rounds_run_id"] == "0-older"


def test_history_is_a_download(app: FastAPI) -> None:
    answer = get(app, "/runs/1-fedavg/history.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="1-fedavg-history.json"'
    body = answer.json()
    assert body["format_version"] == 1
    assert body["run"]["run_id"] == "1-fedavg"
    assert body["rounds"][0]["train_loss"] == 2.0


def test_history_is_a_table_too(app: FastAPI, federation: Federation) -> None:
    federation.run_list[0] = federation.run_list[0].model_copy(
        update={
            "metrics": [
                MetricPoint(model_index=i, metrics={"accuracy": a}, num_silos=1, num_samples=9)
                for i, a in enumerate((0.1, 0.5))
            ]
        }
    )
    left_out = {"site-b": "=SUM(A1)"}
    federation.round_list[0] = federation.round_list[0].model_copy(update={"left_out": left_out})
    answer = get(app, "/runs/1-fedavg/history.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "1-fedavg-history.csv" in answer.headers["content-disposition"]
    start, first, second = csv.DictReader(io.StringIO(answer.text))
    assert (start["model_index"], start["test_accuracy"], start["silo_id"]) == ("0", "0.1", "")
    assert (first["silo_id"], first["took_part"], first["num_steps"]) == ("site-a", "yes", "12")
    assert (first["model_index"], first["test_accuracy"], first["update_norm"]) == ("1", "0.5", "")
    assert (second["silo_id"], second["took_part"]) == ("site-b", "no")
    assert second["left_out"] == "'=SUM(A1)"  # no formula for a spreadsheet


def test_history_is_parquet_too_with_types(app: FastAPI, federation: Federation) -> None:
    first = federation.round_list[0]
    times = {"opened_at": "2026-01-05T09:00:00.250Z", "duration_s": 2.5}
    federation.round_list[0] = first.model_copy(update=times)
    answer = get(app, "/runs/1-fedavg/history.parquet")
    assert "1-fedavg-history.parquet" in answer.headers["content-disposition"]
    table = parquet.read_table(io.BytesIO(answer.content))
    text = csv.DictReader(io.StringIO(get(app, "/runs/1-fedavg/history.csv").text))
    assert table.column_names == text.fieldnames
    one, two = table.to_pylist()
    assert (one["took_part"], one["num_steps"], one["train_loss"]) == (True, 12, 2.0)
    assert (two["took_part"], two["num_steps"]) == (False, None)
    assert two["left_out"] == "no update in time"
    assert one["opened_at"] == datetime(2026, 1, 5, 9, 0, 0, 250_000, UTC)
    assert table.schema.field("closed_at").type == table.schema.field("opened_at").type
    assert json.loads(table.schema.metadata[b"domo_run"])["config"] == {"method": "FedAvg"}


def test_without_pyarrow_parquet_is_refused_and_csv_is_not(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(get(app, "/runs/1-fedavg/history.parquet"), 501, "not_installed", "[parquet]' there")
    assert get(app, "/runs/1-fedavg/history.csv").status_code == 200
    monkeypatch.undo()
    assert get(app, "/runs/1-fedavg/history.parquet").content[:4] == b"PAR1"


def test_the_card_of_a_model(app: FastAPI, federation: Federation, tmp_path: Path) -> None:
    refused(get(app, "/runs/1-fedavg/card"), 404, "no_model", "has no model yet")
    federation.model_path = tmp_path
    answer = get(app, "/runs/1-fedavg/card")
    assert answer.headers["content-type"].startswith("text/markdown")
    assert "README.md" in answer.headers["content-disposition"]
    assert answer.text == markdown(examples.CARD)
    refused(get(app, "/runs/7-x/card"), 404, "not_found")


def test_rounds_from_one_on(app: FastAPI, federation: Federation) -> None:
    first = federation.round_list[0]
    federation.round_list += [first.model_copy(update={"round_index": i}) for i in (1, 2)]
    rounds = get(app, "/runs/1-fedavg/rounds?after=0").json()
    assert [record["round_index"] for record in rounds] == [1, 2]
    assert len(get(app, "/runs/1-fedavg/rounds").json()) == 3
    refused(get(app, "/runs/1-fedavg/rounds?after=-2"), 422, "invalid_request", "after")
    two = get(app, "/runs/1-fedavg/rounds?after=-1&limit=2").json()
    assert [record["round_index"] for record in two] == [0, 1]
    refused(get(app, "/runs/1-fedavg/rounds?limit=0"), 422, "invalid_request", "limit")
    refused(get(app, "/runs/1-fedavg/tests?limit=1001"), 422, "invalid_request", "limit")


def test_the_options_of_a_run_are_those_of_the_code(app: FastAPI) -> None:
    options = get(app, "/run-options").json()
    assert options["config_schema"] == json.loads(json.dumps(RunConfig.model_json_schema()))
    assert [method["name"] for method in options["methods"]] == [*METHODS, *PRESETS]
    assert [task["name"] for task in options["tasks"]] == list(TASKS)
    unused = {method["name"]: method["unused"] for method in options["methods"]}
    adaptive = ["adaptive_lr", "adaptive_beta2", "adaptive_tau"]
    assert unused["DOMO"] == adaptive
    assert unused["FedAvg"] == ["server_momentum", "local_momentum", "fusion_coef", *adaptive]
    assert unused["FedACG"] == ["local_momentum", "fusion_coef", "server_lr", *adaptive]
    assert unused["FedAdam"] == ["local_momentum", "fusion_coef", "server_lr"]


def test_the_form_has_every_setting() -> None:
    text = (STATIC / "form_fields.js").read_text()
    fields = re.findall(r'key: "(\w+)"', text)
    as_json = re.findall(r"AS_JSON = \[(.*?)\]", text, re.DOTALL)[0]
    assert sorted(fields + re.findall(r'"(\w+)"', as_json)) == sorted(RunConfig.model_fields)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"num_rounds": 0}, {"num_rounds": ["num_rounds = 0: must be greater than or equal to 1"]}),
        (
            {"task": ..., "local_lr": -1},
            {"task": ["task: missing"], "local_lr": ["local_lr = -1: must be greater than 0"]},
        ),
        ({"batchsize": 1}, {"": ["batchsize: unknown key; did you mean batch_size?"]}),
        ({"roster": ["a"]}, {"num_silos": ["give num_silos or roster, not both"]}),
        (
            {"name": "taken"},
            {"name": ["there is a run named 'taken' already; give this"]},
        ),
        ({"task": "x"}, {"task": ["there is no task 'x'; `domo tasks` lists those there are"]}),
        ({"task": "a:B"}, {"task": ["the task a:B is code of your own, which the coordinator"]}),
        ({"num_silos": ...}, {"num_silos": ["say who takes part: num_silos = 4, or roster"]}),
        ({"initial_model": "no"}, {"initial_model": ["initial_model: there is no file no in /"]}),
        (
            {"weights": {"site-a": 0}},
            {"weights": ["weights.site-a = 0: must be greater than 0"]},
        ),
        (
            {"num_silos": ..., "roster": ["a", "b"], "weights": {"a": 1}},
            {"weights": ["weights has no entry for b"]},
        ),
        ({"method": "DOMOS"}, {"method": ["unknown method 'DOMOS'; did you mean 'DOMO-S'?"]}),
    ],
)
def test_a_refusal_is_put_to_its_fields(
    tmp_path: Path, changes: dict[str, Any], fields: dict[str, list[str]]
) -> None:
    """What a coordinator refuses, by the keys that its faults name."""
    config = {"name": "taken", "task": "digits", "num_rounds": 2, "num_silos": 1}
    wanted = {k: v for k, v in ({**config, "name": None} | changes).items() if v is not ...}

    async def refuse() -> ConfigError:
        store = Store(open_database(f"sqlite:///{tmp_path / 'db'}"))
        submissions = Submissions(store, tmp_path, Changes())
        await submissions.submit(config)
        with pytest.raises(ConfigError) as caught:
            await submissions.submit(wanted)
        store.close()
        return caught.value

    found = faults_by_field(asyncio.run(refuse()))
    assert list(found) == list(fields)
    for field, texts in fields.items():
        assert len(found[field]) == len(texts)
        assert all(map(str.startswith, found[field], texts)), found[field]


def test_a_refusal_without_faults_is_of_no_field() -> None:
    assert faults_by_field(ConfigError("something else")) == {"": ["something else"]}
    assert faults_by_field(TaskError("no")) == {"": ["no"]}


def test_model_is_a_download_named_by_round(
    app: FastAPI, federation: Federation, tmp_path: Path
) -> None:
    refused(get(app, "/runs/1-fedavg/model", headers=BEARER), 404, "no_model", "1-fedavg")
    federation.model_path = tmp_path / "checkpoint"
    refused(get(app, "/runs/1-fedavg/model", headers=BEARER), 503, "unavailable", "Try again")
    federation.model_path.write_bytes(MODEL)
    answer = get(app, "/runs/1-fedavg/model", headers=BEARER)
    assert answer.status_code == 200
    assert answer.content == MODEL
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "1-fedavg-x2.safetensors" in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    ("wanted", "status", "content"), [({}, 200, MODEL), ({"Range": "bytes=1-2"}, 206, MODEL[1:3])]
)
def test_a_model_is_sent_though_a_newer_one_takes_its_place(
    wanted: dict[str, str],
    status: int,
    content: bytes,
    app: FastAPI,
    federation: Federation,
    tmp_path: Path,
) -> None:
    path = federation.model_path = tmp_path / "checkpoint"
    path.write_bytes(MODEL)
    run, asked = federation.run, []

    async def later(run_id: str) -> Any:
        asked.append(run_id)
        if len(asked) == 2:
            path.unlink()
        return await run(run_id)

    federation.run = later  # type: ignore[method-assign]
    answer = get(app, "/runs/1-fedavg/model", headers=wanted | BEARER)
    assert (answer.status_code, answer.content) == (status, content)
    assert not path.exists()


@pytest.mark.parametrize("tail", ["", "/rounds", "/history.json", "/model"])
def test_an_unknown_run_is_named(app: FastAPI, tail: str) -> None:
    refused(
        get(app, f"/runs/9-none{tail}", headers=BEARER), 404, "not_found", "9-none", "/api/v1/runs"
    )


# ---- errors


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "/events?limix=3",
            ["'limix' is no parameter here; did you mean limit? Known are", "kind"],
        ),
        ("/events?limit=3&limit=4", ["limit: is given 2 times, and one counts"]),
        ("/events?kind=joind", ["kind: 'joind' is no kind of event here; did you mean joined?"]),
        ("/events?kind=joined&kind=zzz", ["'zzz' is no kind of event here. Known are joined"]),
        ("/runs?state=OPEN", ["'state' is no parameter here: this address takes none"]),
        ("/runs/1-fedavg/rounds?from=3", ["'from' is no parameter here. Known are after"]),
        ("/runs/1-fedavg?after=3", ["'after' is no parameter here: this address takes none"]),
        ("/silos/site-a/log?before=3", ["Known are after"]),
        ("/session?x", ["'x' is no parameter here: this address takes none"]),
    ],
)
def test_what_a_query_does_not_know_is_refused(app: FastAPI, path: str, words: list[str]) -> None:
    refused(get(app, path), 422, "invalid_request", *words)


def test_every_failure_has_the_one_shape(app: FastAPI, federation: Federation) -> None:
    refused(ask(app, "GET", "/nowhere"), 404, "not_found", "GET /nowhere", "/api/v1/docs")
    refused(ask(app, "GET", "/static/none.js"), 404, "not_found")
    refused(ask(app, "GET", "/static/../app.py"), 404, "not_found")
    wrong_method = ask(app, "DELETE", "/api/v1/status")
    refused(wrong_method, 405, "method_not_allowed", "DELETE /api/v1/status", "Allow")
    assert wrong_method.headers["allow"] == "GET"
    assert ask(app, "DELETE", "/api/v1/runs").headers["allow"] == "GET, POST"  # two routers
    assert ask(app, "POST", "/static/app.js").headers["allow"] == "GET, HEAD"
    refused(get(app, "/events?limit=x&after=-1"), 422, "invalid_request", "limit", "after")
    federation.error = CoordinatorUnavailableError("the store is busy")
    cause = "coordinator-unavailable"
    refused(get(app, "/status"), 503, "unavailable", "the store is busy", cause=cause)
    federation.error = StateError("the state folder has gone")
    refused(get(app, "/status"), 500, "internal", "the state folder has gone", cause="state")
    federation.error = RuntimeError("secret detail")
    bug = get(app, "/status")
    refused(bug, 500, "internal", "log")
    assert "secret" not in bug.text
    assert bug.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in bug.headers["content-security-policy"]


def test_only_allowed_host_names_are_answered(federation: Federation) -> None:
    app = create_app(
        federation,
        federation,
        PEOPLE,
        PageNames(("::1", "localhost")),
        open_to=lambda request: True,
    )
    for host in ("localhost", "localhost:8080", "LOCALHOST", "[::1]:8080"):
        assert get(app, "/status", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example:80", "[::1", ""):
        refused(
            get(app, "/status", headers={"Host": host}),
            400,
            "bad_host",
            "localhost",
            "dashboard_url",
        )


BEYOND = PageNames(("127.0.0.1", "domo.example.org", "localhost"), is_local=False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("203.0.113.9:8080", 200),
        ("[2001:db8::1]:8080", 200),
        ("localhost:8080", 200),
        ("domo.example.org", 200),
        ("DOMO.example.org.:8080", 200),
        ("coordinator:8080", 200),  # of a container, as Prometheus asks for it
        ("evil.example", 400),
        ("203.0.113.9.evil.example:8080", 400),
        ("evil.domo.example.org", 400),
        ("evil@203.0.113.9", 200),
        ("[::1", 400),
        ("", 400),
    ],
)
def test_beyond_loopback_no_name_of_a_stranger_is_answered(
    federation: Federation, host: str, status: int
) -> None:
    """A page elsewhere could read by its own name what needs no credential (DNS rebinding)."""
    app = create_app(federation, federation, PEOPLE, BEYOND, open_to=lambda request: True)
    answer = get(app, "/status", headers={"Host": host})
    if status == 200:
        assert answer.status_code == 200
    else:
        refused(answer, 400, "bad_host", "by its address", "dashboard_url")


def test_a_trusted_proxy_answers_for_the_name_that_it_sends(federation: Federation) -> None:
    proxies = ("10.0.0.0/8", "127.0.0.0/8")

    def asked(peer: str, names: PageNames = BEYOND) -> int:
        app = create_app(
            federation, federation, PEOPLE, names, trusted_proxies=proxies, open_to=lambda _: True
        )
        app.state.streams.close()

        async def go() -> int:
            transport = httpx.ASGITransport(app, client=(peer, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://other.org") as http:
                headers = {"X-Forwarded-For": "203.0.113.5"}
                return (await http.get("/api/v1/status", headers=headers)).status_code

        return asyncio.run(go())

    assert asked("10.0.0.1") == asked("::ffff:10.0.0.1") == 200
    assert asked("203.0.113.5") == 400
    for here in ("127.0.0.1", "::ffff:127.0.0.1"):
        assert asked(here) == 400, "it may be a browser on this machine"
    assert asked("10.0.0.1", PageNames(("localhost",))) == 400


def test_who_gives_no_name_is_no_browser(federation: Federation) -> None:
    """Such as a health check of a load balancer, which speaks HTTP/1.0."""

    async def asked(names: PageNames) -> int:
        app = create_app(federation, federation, PEOPLE, names, open_to=lambda request: True)
        told: list[int] = []

        async def send(message: Any) -> None:
            told.extend([message["status"]] if "status" in message else [])

        async def receive() -> Any:
            return {"type": "http.request"}

        scope = {
            "type": "http", "method": "GET", "path": "/api/v1/status", "query_string": b"",
            "headers": [], "scheme": "http",
            "client": ("10.0.0.1", 1), "server": ("10.0.0.2", 8080),
        }  # fmt: skip
        await app(scope, receive, send)
        return told[0]

    assert asyncio.run(asked(BEYOND)) == 200
    assert asyncio.run(asked(PageNames(("localhost",)))) == 400


# ---- changing


def test_the_bearer_starts_and_stops_a_run(app: FastAPI, federation: Federation) -> None:
    config = {"method": "DOMO", "num_rounds": 3}
    made = ask(app, "POST", "/api/v1/runs", json=config, headers=BEARER)
    assert made.status_code == 201
    assert federation.submitted == [config]
    assert made.headers["location"] == "/api/v1/runs/2-new%20run"
    assert ask(app, "GET", made.headers["location"]).json()["run_id"] == made.json()["run_id"]
    stopped = ask(app, "POST", made.headers["location"] + "/stop", headers=BEARER)
    assert stopped.status_code == 200
    assert stopped.json()["state"] == "STOPPED"
    again = ask(app, "POST", made.headers["location"] + "/stop", headers=BEARER)
    refused(again, 409, "run_ended", "STOPPED")
    missing = ask(app, "POST", "/api/v1/runs/9-none/stop", headers=BEARER)
    refused(missing, 404, "not_found", "9-none")


def test_a_run_is_paused_and_resumed(app: FastAPI, federation: Federation) -> None:
    def post(what: str) -> httpx.Response:
        return ask(app, "POST", f"/api/v1/runs/1-fedavg/{what}", headers=BEARER)

    for what in ("pause", "resume"):
        refused(post(what), 409, "run_ended", "FINISHED", what)
        missing = ask(app, "POST", f"/api/v1/runs/9-none/{what}", headers=BEARER)
        refused(missing, 404, "not_found", "9-none")
    federation.run_list[0] = federation.run_list[0].model_copy(update={"state": "OPEN"})
    refused(post("resume"), 409, "conflict", "1-fedavg is open")
    assert post("pause").json()["state"] == "PAUSED"
    assert get(app, "/runs/1-fedavg").json()["state"] == "PAUSED"
    refused(post("pause"), 409, "conflict", "1-fedavg is paused")
    assert post("resume").json()["state"] == "OPEN"
    federation.ends_meanwhile = True
    refused(post("resume"), 409, "run_ended", "1-fedavg is open")


def test_what_is_said_of_a_run_is_changed(app: FastAPI) -> None:
    def patch(body: Any, run_id: str = "1-fedavg", **kwargs: Any) -> httpx.Response:
        path = f"/api/v1/runs/{run_id}"
        return ask(app, "PATCH", path, json=body, **{"headers": BEARER, **kwargs})

    answer = patch({"tags": [" base  line ", "a", "a"], "notes": "first\r\nsecond\n"})
    assert answer.status_code == 200
    assert answer.json()["tags"] == ["base line", "a"]
    assert answer.json()["notes"] == "first\nsecond"
    assert patch({"archived": True}).json()["tags"] == ["base line", "a"]
    assert patch({}).json()["archived"] is True
    (summary,) = get(app, "/runs").json()
    assert (summary["archived"], summary["notes"]) == (True, "first\nsecond")
    about = get(app, "/runs/1-fedavg/history.json").json()["run"]
    assert (about["tags"], about["notes"]) == (["base line", "a"], "first\nsecond")
    for wrong, word in (
        ({"tags": ["a,b"]}, "without commas"),
        ({"tags": ["a\u202eb"]}, "can be printed"),
        ({"tags": ["x" * 41]}, "1 to 40"),
        ({"tags": [str(i) for i in range(21)]}, "at most 20"),
        ({"tags": "a"}, "tags: "),
        ({"notes": "\x1b[2J"}, "cannot be printed"),
        ({"notes": "x" * 4001}, "at most 4000"),
        ({"archived": "yes"}, "archived: "),
        ({"name": "other"}, "name: "),
        ([], "not a JSON object"),
    ):
        refused(patch(wrong), 422, "invalid_request", word)
    refused(patch({"notes": "x" * 70_000}), 413, "too_large", "65536")
    refused(patch({"archived": True}, "9-none"), 404, "not_found", "9-none")
    refused(patch({"archived": False}, headers={}), 401, "unauthorized")
    other = {"headers": {"Sec-Fetch-Site": "cross-site"}, "cookies": COOKIE}
    refused(patch({"archived": False}, **other), 403, "cross_origin")
    assert get(app, "/runs").json()[0]["archived"] is True


def test_a_silo_is_dropped_and_taken_back(app: FastAPI, federation: Federation) -> None:
    def post(what: str, silo: str = "site-a", **kwargs: Any) -> httpx.Response:
        return ask(app, "POST", f"/api/v1/silos/{silo}/{what}", headers=BEARER, **kwargs)

    assert post("drop", json={"reason": " on\nholiday "}).json()["dropped"] == "on holiday"
    assert get(app, "/silos").json()[0]["dropped"] == "on holiday"
    refused(post("drop"), 409, "conflict", "out already")
    assert post("undrop").json()["dropped"] is None
    refused(post("undrop"), 409, "conflict", "not left out")
    refused(post("readmit"), 409, "conflict", "not left out")  # the older name, no other meaning
    assert federation.rebound == []
    assert post("rebind").json()["silo_id"] == "site-a"
    assert federation.rebound == ["site-a"]
    assert post("revoke").json()["silo_id"] == "site-a"
    assert federation.revoked == ["site-a"]
    refused(post("revoke", "site-x"), 409, "conflict", "nobody has let site-x in")
    assert post("drop").json()["dropped"] == ""
    assert post("readmit").json()["dropped"] is None
    assert post("drop", json={}).json()["dropped"] == ""
    post("undrop")
    for what in ("drop", "undrop", "rebind", "readmit"):
        refused(post(what, "site-x"), 404, "not_found", "site-x")
    refused(post("drop", json={"reason": 3}), 422, "invalid_request", "reason", "text")
    refused(post("drop", json={"reason": "x" * 501}), 422, "invalid_request", "500")
    refused(post("drop", json={"why": "x"}), 422, "invalid_request", "why", "reason")
    refused(post("drop", json=["x"]), 422, "invalid_request", "not a JSON object")
    refused(post("drop", content=b"holiday"), 422, "invalid_request", "not JSON")
    refused(post("drop", json={"reason": "x" * 5000}), 413, "too_large", "4096")
    assert federation.silo_list[0].dropped is None


def test_a_wrong_config_says_what_to_do(app: FastAPI) -> None:
    def post(body: bytes) -> httpx.Response:
        return ask(app, "POST", "/api/v1/runs", content=body, headers=BEARER)

    refused(post(b"{}"), 422, "invalid_config", "method is missing", cause="config")
    refused(post(b""), 422, "invalid_request", "the body is empty", "DOMO")
    refused(post(b"{"), 422, "invalid_request", "not JSON")
    refused(post(b"\xff"), 422, "invalid_request", "not JSON")
    refused(post(b"[1]"), 422, "invalid_request", "not a JSON object")
    refused(post(b"[" * 200_000), 422, "invalid_request", "nested too deeply")
    refused(post(b" " * (1 << 20) + b"{}"), 413, "too_large", "1048576")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Authorization": ""},
        {"Authorization": b"Bearer \xff"},
        {"Cookie": f"domo={TOKEN}"},
        {"Cookie": "domo="},
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/runs",
        "/runs/1-fedavg/pause",
        "/runs/1-fedavg/resume",
        "/runs/1-fedavg/stop",
        "/silos/site-a/drop",
        "/silos/site-a/undrop",
        "/silos/site-a/rebind",
        "/silos/site-a/revoke",
        "/silos/site-a/readmit",
    ],
)
def test_without_a_credential_nothing_changes(
    app: FastAPI, federation: Federation, path: str, headers: dict[str, Any]
) -> None:
    federation._change_silo("site-a", "on holiday")
    federation._change_run("1-fedavg", "OPEN")
    answer = ask(app, "POST", f"/api/v1{path}", json={"method": "DOMO"}, headers=headers)
    refused(answer, 401, "unauthorized", "Bearer")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert not federation.submitted
    assert federation.silo_list[0].dropped == "on holiday"
    assert federation.run_list[0].state == "OPEN"
    session = get(app, "/session", headers=headers)
    if "Bearer" in str(headers):  # what is wrong is said to be, wherever it is shown
        refused(session, 401, "unauthorized", "no token of this coordinator")
    else:
        assert session.json() == {"admin": False, "role": "viewer", "name": None}


def test_a_wrong_bearer_is_not_saved_by_a_cookie(app: FastAPI) -> None:
    headers = {"Authorization": "Bearer wrong", "Sec-Fetch-Site": "same-origin"}
    answer = ask(app, "POST", "/api/v1/runs", json={}, headers=headers, cookies=COOKIE)
    refused(answer, 401, "unauthorized")


def test_a_log_in_at_a_proxy_does_not_hide_the_cookie(app: FastAPI) -> None:
    """Such a header says nothing of where the request comes from either."""
    own = {"Authorization": "Basic YTpi", "Sec-Fetch-Site": "same-origin"}
    body = {"method": "DOMO"}
    made = ask(app, "POST", "/api/v1/runs", json=body, headers=own, cookies=COOKIE)
    assert made.status_code == 201
    other = own | {"Sec-Fetch-Site": "cross-site"}
    answer = ask(app, "POST", "/api/v1/runs", json=body, headers=other, cookies=COOKIE)
    refused(answer, 403, "cross_origin")


def test_login_sets_a_cookie_that_opens_the_page(app: FastAPI, federation: Federation) -> None:
    answer = ask(app, "POST", "/login", data={"code": PEOPLE.make_code("berta", "admin")})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "max-age=43200" in cookie
    jar = dict(answer.cookies)
    assert set(jar) == {"domo"}
    session = get(app, "/session", cookies=jar).json()
    assert session == {"admin": True, "role": "admin", "name": "berta"}
    own = {"Origin": f"http://{HOST}"}
    made = ask(app, "POST", "/api/v1/runs", json={"method": "X"}, headers=own, cookies=jar)
    assert made.status_code == 201


def test_a_code_is_good_once_and_is_not_used_up_by_who_only_looks(app: FastAPI) -> None:
    code = PEOPLE.make_code("berta", "viewer")
    for _ in range(2):
        page = ask(app, "GET", f"/login?code={code}", headers={"Accept": "*/*"})
        assert page.status_code == 200
        assert f'name="code" value="{code}"' in page.text
        assert "set-cookie" not in page.headers
    assert ask(app, "POST", "/login", data={"code": code}).status_code == 303
    again = ask(app, "POST", "/login", data={"code": code})
    refused(again, 401, "unauthorized", "not valid (any more)", "good once, for 5 minutes")
    refused(ask(app, "POST", "/login", data={"token": code}), 401, "unauthorized")
    marked = ask(app, "GET", "/login", params={"code": '"><script>'})
    assert "<script>" not in marked.text.replace("<script src", "").replace("<script type", "")


def test_a_token_in_an_address_is_refused_with_what_to_do(app: FastAPI) -> None:
    answer = ask(app, "GET", "/login", params={"token": TOKEN})
    refused(answer, 400, "token_in_address", "domo-server login")
    answer = ask(app, "GET", "/login", params={"token": TOKEN}, headers=DOCUMENT)
    assert answer.status_code == 400
    assert "A token does not belong into an address" in answer.text
    assert "domo-server login" in answer.text
    assert "set-cookie" not in answer.headers
    assert TOKEN not in answer.text


DOCUMENT = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_a_page_where_a_program_gets_json(app: FastAPI) -> None:
    form = ask(app, "GET", "/login", headers=DOCUMENT)
    assert form.status_code == 200
    assert 'name="token"' in form.text
    assert "{{" not in form.text
    wrong = ask(app, "POST", "/login", data={"code": "wrong"}, headers=DOCUMENT)
    assert (wrong.status_code, wrong.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "This log-in code is not valid (any more)" in wrong.text
    assert "set-cookie" not in wrong.headers
    for path in ("/none", "/static/none.js"):
        lost = ask(app, "GET", path, headers=DOCUMENT)
        assert lost.status_code == 404
        assert f"GET {path}: there is nothing here" in lost.text
    marked = ask(app, "GET", "/<script>alert(1)</script>", headers=DOCUMENT)
    assert "<script>alert" not in marked.text
    refused(get(app, "/none", headers=DOCUMENT), 404, "not_found")


def test_login_by_form_and_logout(app: FastAPI, federation: Federation) -> None:
    def send(token: str, **headers: str) -> httpx.Response:
        return ask(app, "POST", "/login", data={"token": token}, headers=headers)

    answer = send(f" {TOKEN}\n")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    jar = dict(answer.cookies)
    assert "secure" not in answer.headers["set-cookie"].lower()
    told = {"X-Forwarded-Proto": "https"}
    assert "secure" not in send(TOKEN, **told).headers["set-cookie"].lower()  # by just anybody
    proxied = create_app(federation, federation, PEOPLE, trusted_proxies=["127.0.0.1"])
    behind = ask(proxied, "POST", "/login", data={"token": TOKEN}, headers=told)
    assert "; secure" in behind.headers["set-cookie"].lower()
    assert behind.headers["set-cookie"].startswith("__Host-domo=")
    assert "; path=/;" in behind.headers["set-cookie"].lower()
    refused(send("wrong"), 401, "unauthorized", "no token of this coordinator")
    refused(send(""), 401, "unauthorized")
    assert "This is no token of this coordinator" in send("wrong", **DOCUMENT).text
    refused(send("x" * 5000), 413, "too_large", "4096")

    own = {"Sec-Fetch-Site": "same-origin"}
    other = {"Sec-Fetch-Site": "cross-site"}
    refused(ask(app, "POST", "/logout", headers=other, cookies=jar), 403, "cross_origin")
    refused(ask(app, "POST", "/login", data={"token": TOKEN}, headers=other), 403, "cross_origin")
    out = ask(app, "POST", "/logout", headers=own, cookies=jar)
    assert (out.status_code, out.headers["location"]) == (303, "/")
    gone = out.headers["set-cookie"].lower()
    assert gone.startswith('domo="";')
    assert "max-age=0" in gone
    stolen = ask(app, "POST", "/api/v1/runs", json={"method": "X"}, headers=own, cookies=jar)
    refused(stolen, 401, "unauthorized")  # the cookie that a thief has kept
    plain = {"Origin": f"http://{HOST}"}  # all that a form says over plain HTTP
    assert ask(app, "POST", "/logout", headers=plain, cookies=jar).status_code == 303


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": f"http://{HOST}"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://127.0.0.1:9999"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://[", "Host": "["}, True),
        ({}, False),
    ],
)
def test_other_sites_cannot_use_the_cookie(
    app: FastAPI, headers: dict[str, str], allowed: bool
) -> None:
    body = {"method": "DOMO"}
    answer = ask(app, "POST", "/api/v1/runs", json=body, headers=headers, cookies=COOKIE)
    if allowed:
        assert answer.status_code == 201
    else:
        refused(answer, 403, "cross_origin", "another site")


# ---- the stream


def messages(text: str) -> list[dict[str, Any]]:
    """The data of the `status` events in a stream."""
    blocks = [block.split("\n") for block in text.split("\n\n") if "event: status" in block]
    return [json.loads(block[2].removeprefix("data: ")) for block in blocks]


def listen(
    app: FastAPI, federation: Federation, changes: int, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Open the stream, make changes, each once the one before has been told, and shut it."""

    async def told(num: int) -> None:
        async with asyncio.timeout(5):
            while federation.num_asked < num:  # noqa: ASYNC110 (asked without a message)
                await asyncio.sleep(0.005)

    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            open_stream = asyncio.create_task(client.get("/api/v1/stream", headers=headers))
            before = federation.num_asked
            if not app.state.streams._closed:
                await told(before + 1)
            for i in range(changes):
                event = federation.event_list[-1].model_copy(update={"event_id": 10 + i})
                federation.event_list.append(event)
                await federation.change()
                await told(before + 2 + i)
                for _ in range(100):  # the message follows: all of it on this loop, without waits
                    await asyncio.sleep(0)
            app.state.streams.close()
            return await asyncio.wait_for(open_stream, 1)

    return asyncio.run(go())


def test_the_stream_tells_all_at_once_and_then_what_is_new(
    app: FastAPI, federation: Federation
) -> None:
    answer = listen(app, federation, changes=2)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.startswith("retry: ")
    told = messages(answer.text)
    assert [[event["event_id"] for event in m["events"]] for m in told] == [[1, 2, 3], [10], [11]]
    assert told[0]["status"]["silos"][0]["silo_id"] == "site-a"
    assert told[0]["run"]["run_id"] == "1-fedavg"  # none is current: the newest
    assert "\nid: 11\n" in answer.text
    assert federation.num_listeners == 0


def test_a_listener_that_comes_back_gets_what_it_missed(
    app: FastAPI, federation: Federation
) -> None:
    told = messages(listen(app, federation, 0, {"Last-Event-ID": "2"}).text)
    assert [event["event_id"] for event in told[0]["events"]] == [3]


def test_no_run_at_all_and_a_closed_hub(app: FastAPI, federation: Federation) -> None:
    federation.run_list.clear()
    assert messages(listen(app, federation, 0).text)[0]["run"] is None
    assert messages(listen(app, federation, 0).text) == []


def test_many_changes_are_few_messages_and_silence_is_kept_alive(federation: Federation) -> None:
    async def go() -> list[str]:
        hub = StreamHub(federation, min_interval_s=0.05, keepalive_s=0.1)
        texts: list[str] = []

        async def collect() -> None:
            async for text in hub.messages():
                texts.append(text)

        task = asyncio.create_task(collect())
        for _ in range(50):
            await federation.change()
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.3)
        hub.close()
        await asyncio.wait_for(task, 1)
        return texts

    texts = asyncio.run(go())
    assert 2 <= sum("event: status" in text for text in texts) <= 8
    assert "event: alive\ndata:\n\n" in texts[-2:]


def test_many_listeners_cost_one_look_and_metrics_are_told_once(federation: Federation) -> None:
    async def go() -> list[list[dict[str, Any]]]:
        hub = StreamHub(federation, min_interval_s=0.01)
        texts: list[list[str]] = [[], [], []]

        async def collect(into: list[str]) -> None:
            async for text in hub.messages():
                into.append(text)

        tasks = [asyncio.create_task(collect(into)) for into in texts]
        await asyncio.sleep(0.1)
        before, run = federation.num_asked, federation.run_list[0]
        first = run.metrics[0]
        points = [first, first.model_copy(update={"model_index": 3})]
        for metrics in (points, points, [first.model_copy(update={"num_silos": 2}), points[1]]):
            federation.run_list[0] = run.model_copy(update={"metrics": metrics})
            await federation.change()
            await asyncio.sleep(0.1)
        assert federation.num_asked == before + 3
        hub.close()
        await asyncio.gather(*tasks)
        return [messages("".join(each)) for each in texts]

    for told in asyncio.run(go()):
        indexes = [[m["model_index"] for m in message["run"]["metrics"]] for message in told]
        assert indexes[0] == [2]
        assert indexes[-3:] == [[3], [], [2, 3]]  # from the first that is another


def test_a_stream_ends_with_its_listener_and_with_its_source(federation: Federation) -> None:
    class Broken(Federation):
        async def changes(self) -> AsyncIterator[None]:
            yield
            raise StateError("the source broke")

    async def go() -> None:
        stream = StreamHub(federation).messages()
        assert (await anext(stream)).startswith("retry")
        assert "event: status" in await anext(stream)
        assert federation.num_listeners == 1
        await stream.aclose()
        assert federation.num_listeners == 0
        broken = StreamHub(Broken()).messages()
        with pytest.raises(StateError):
            async for _ in broken:
                pass

    asyncio.run(go())


def test_the_tail_reads_a_long_log_once(federation: Federation) -> None:
    first = federation.event_list[0]
    federation.event_list = [
        first.model_copy(update={"event_id": i}) for i in range(1, 2501)
    ]  # fmt: skip

    async def go() -> None:
        tail = EventTail(federation)
        await tail.read()
        assert [e.event_id for e in tail.since(0)] == list(range(2401, 2501))
        assert [e.event_id for e in tail.since(2498)] == [2499, 2500]
        assert len(tail.since(9999)) == 100  # an id of another log

    asyncio.run(go())


def test_parse_event_id() -> None:
    values = [parse_event_id(text) for text in (None, "", "7", "-7", "x", "\u0667", "9" * 5000)]
    assert values == [0, 0, 7, 0, 0, 0, 0]


def test_a_real_server_stops_at_once_with_a_stream_open(
    app: FastAPI, federation: Federation
) -> None:
    async def go() -> None:
        server = DashboardServer(app, "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{server.port}/api/v1/stream"
        async with httpx.AsyncClient(trust_env=False) as client:
            async with client.stream("GET", url) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        break
                assert federation.num_listeners == 1
            async with asyncio.timeout(2):
                while federation.num_listeners:  # noqa: ASYNC110 (noticed without a message)
                    await asyncio.sleep(0.01)
            async with client.stream("GET", url) as answer:
                lines = answer.aiter_lines()
                await anext(lines)
                server.should_exit = True
                async with asyncio.timeout(2):
                    async for _ in lines:
                        pass
                    await serving
        assert federation.num_listeners == 0

    asyncio.run(go())


# ---- OpenAPI and the page


def test_openapi_lists_every_route_with_examples(app: FastAPI, federation: Federation) -> None:
    document = get(app, "/openapi.json").json()
    listed = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert listed == {
        ("GET", "/api/v1/status"),
        ("GET", "/api/v1/silos"),
        ("GET", "/api/v1/silos/{silo_id}"),
        ("GET", "/api/v1/silos/{silo_id}/resources"),
        ("GET", "/api/v1/silos/{silo_id}/log"),
        ("POST", "/api/v1/silos/{silo_id}/drop"),
        ("POST", "/api/v1/silos/{silo_id}/readmit"),
        ("POST", "/api/v1/silos/{silo_id}/rebind"),
        ("POST", "/api/v1/silos/{silo_id}/revoke"),
        ("POST", "/api/v1/silos/{silo_id}/undrop"),
        ("GET", "/api/v1/events"),
        ("GET", "/api/v1/stream"),
        ("GET", "/api/v1/session"),
        ("GET", "/api/v1/runs"),
        ("POST", "/api/v1/runs"),
        ("GET", "/api/v1/runs/{run_id}"),
        ("PATCH", "/api/v1/runs/{run_id}"),
        ("GET", "/api/v1/runs/{run_id}/rounds"),
        ("GET", "/api/v1/runs/{run_id}/tests"),
        ("GET", "/api/v1/runs/{run_id}/tables"),
        ("GET", "/api/v1/runs/{run_id}/history.json"),
        ("GET", "/api/v1/runs/{run_id}/history.csv"),
        ("GET", "/api/v1/runs/{run_id}/history.parquet"),
        ("GET", "/api/v1/runs/{run_id}/card"),
        ("GET", "/api/v1/runs/{run_id}/model"),
        ("GET", "/api/v1/run-options"),
        ("POST", "/api/v1/runs/{run_id}/pause"),
        ("POST", "/api/v1/runs/{run_id}/resume"),
        ("POST", "/api/v1/runs/{run_id}/stop"),
        ("GET", "/login"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("GET", "/metrics"),
    }
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            for status, answer in operation["responses"].items():
                assert status == "303" or "example" in next(iter(answer["content"].values())), path
    stream = document["paths"]["/api/v1/stream"]["get"]["description"]
    assert f"After {StreamHub(federation)._keepalive_s:.0f} s of silence" in stream
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert "StreamMessage" in document["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(document["components"]["schemas"])


def test_every_route_is_in_the_documentation(app: FastAPI) -> None:
    text = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    for path in get(app, "/openapi.json").json()["paths"]:
        assert f"`{path.removeprefix('/api/v1')}`" in text
    source = "".join(path.read_text() for path in STATIC.parent.glob("*.py"))
    codes = set(re.findall(r'ApiError\(\s*\d+,\s*"(\w+)"', source))
    assert len(codes) >= 10
    for code in codes | {"conflict", "not_found", "method_not_allowed", "http_error"}:
        assert f"`{code}`" in text


def test_the_configs_that_are_shown_are_valid() -> None:
    shown = [json.dumps(examples.CONFIG)]
    for path in (STATIC / "header.js", Path(__file__).parents[2] / "docs" / "rest.md"):
        shown += re.findall(r"'(\{.*\"task\".*\})'", path.read_text())
    assert len(shown) == 3
    for config in shown:
        RunConfig.model_validate_json(config)


def test_hidden_routes_are_pages_only(app: FastAPI) -> None:
    hidden = {r.path for r in app.routes if isinstance(r, APIRoute) and not r.include_in_schema}
    assert hidden == {"/", "/api/v1/docs", "/api/v1/openapi.json"}


def assets() -> list[Path]:
    return sorted(path for path in STATIC.iterdir() if path.is_file())


def test_the_page_needs_nothing_from_elsewhere(app: FastAPI) -> None:
    for path in assets():
        text = path.read_text()
        outside = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) - {"http://www.w3.org"}
        assert not outside, path.name
        for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert risky not in text, path.name
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=\"", text), path.name
        assert len(text.splitlines()) < 400, path.name


def test_what_others_made_is_small_has_its_licence_and_asks_nobody() -> None:
    files = {path.name: path for path in (STATIC / "vendor").iterdir()}
    assert set(files) == {"uPlot.esm.js", "uPlot.min.css", "uPlot-LICENSE.txt"}
    assert all(path.stat().st_size < 1 << 20 for path in files.values())
    assert "MIT" in files["uPlot-LICENSE.txt"].read_text()
    for outside in ("fetch(", "XMLHttpRequest", "import(", "eval(", "url("):
        assert outside not in files["uPlot.esm.js"].read_text(), outside
        assert outside not in files["uPlot.min.css"].read_text(), outside


@pytest.mark.parametrize("path", ["/", "/api/v1/docs", "/login", "/login?code=x", "/none"])
def test_pages_refer_to_assets_that_exist(app: FastAPI, path: str) -> None:
    page = ask(app, "GET", path, headers=DOCUMENT)
    assert page.status_code == (404 if path == "/none" else 200)
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "same-origin", "else its forms have no origin"
    wanted = [page.url.join(ref) for ref in re.findall(r'(?:src|href)="([^"#]+)"', page.text)]
    seen = set()
    while wanted:
        url = wanted.pop()
        if url.path in seen or not url.path.startswith("/static/"):
            continue
        seen.add(url.path)
        asset = ask(app, "GET", url.path)
        assert asset.status_code == 200, url
        assert asset.headers["cache-control"] == "no-cache"
        same = ask(app, "GET", url.path, headers={"If-None-Match": asset.headers["etag"]})
        assert same.status_code == 304
        if url.path.endswith(".js"):
            assert "javascript" in asset.headers["content-type"]
            wanted += [url.join(ref) for ref in re.findall(r'from "([^"]+)"', asset.text)]
    assert len(seen) >= 3
