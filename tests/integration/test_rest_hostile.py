"""Whatever is asked of REST, the answer is in words: no 5xx, and nothing of the database's."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from torch import nn

from tests.support.live.coordinator import Coordinator, coordinator, own_run

NUMBERS = [
    *(str(n) for n in (-(2**63) - 1, -(2**63), 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**400)),
    *("1" * 5000, "1e3", "1e400", "nan", "inf", "-inf", "0x1", "1_0", "", " 1", "1\0", "\0"),
    *("%", "true", "null", "[1]", "1.5", "+1", "--1", "\u0661"),
]
TEXTS = [
    "\0",
    "a\0b",
    "\ud800",
    "\x1b[2J",
    "a\nb",
    "x" * 8000,
    "%00",
    "../..",
    "\u202e",
    "'; --",
    "💥",
]
ROUTES = {
    "/events": ("after", "limit"),
    "/silos/site-a/log": ("after",),
    "/runs/{run}/rounds": ("after", "limit"),
    "/runs/{run}/tests": ("after", "limit"),
}
NAMED = ("/runs/{}", "/runs/{}/rounds", "/runs/{}/tests", "/runs/{}/history.csv", "/silos/{}",
         "/runs/{}/card", "/runs/{}/model", "/silos/{}/log", "/runs/{}/tables")  # fmt: skip
BODIES = [
    "[" * 100_000,
    '{"reason": ' * 50_000,
    '{"reason": "\\ud800"}',
    '{"reason": "\\u0000"}',
    '{"reason": NaN}',
    '{"reason": ' + "9" * 5000 + "}",
    '{"reason": 1e400}',
    '{"notes": "\\ud800"}',
    '{"notes": "\\u0000"}',
    '{"tags": ["\\ud800"]}',
    '{"tags": ["\\u0000"]}',
    '{"\\ud800": 1}',
    '{"\\u0000": "\\u0000"}',
    '{"a\\nb\\u001b[2J": 1}',
    "\ufeff{}",
    "{} {}",
    "null",
    '"x"',
    "{" + ",".join(f'"k{i}": 1' for i in range(5000)) + "}",
]
GOOD = {"task": "digits", "method": "DOMO", "num_rounds": 1, "num_silos": 1}
VALUES = [
    *("\\u0000", "\\ud800", "a\\u0000b", "\\u001b[2J", "\\u202e", "x" * 5000),
]
RAW = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 400, "1e308", "1e-400", "9" * 5000,
       str(2**63), str(-(2**63) - 1), "0", "-1", "null", "true", "[]", "{}", "[[[[]]]]",
       "[" * 500 + "]" * 500]  # fmt: skip
FIELDS = ["name", "task", "method", "num_rounds", "num_silos", "local_lr", "batch_size", "seed",
          "threads", "notes", "licence", "intended_use", "roster", "classes", "primary_metric",
          "server_lr", "local_steps", "round_deadline_s", "participants", "tags", "initial_model",
          "lr_decay", "evaluate_every", "min_silos", "no_such_field"]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    folder = tmp_path_factory.mktemp("hostile")
    with coordinator(folder, own_run(folder, nn.Linear(2, 1))) as it:
        yield it


@pytest.fixture(scope="module")
def rest(server: Coordinator) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    with httpx.Client(base_url=f"{server.url}/api/v1", headers=headers) as client:
        yield client


def in_words(answer: httpx.Response, what: object) -> None:
    assert answer.status_code < 500, (what, answer.text)
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert error["message"].isprintable() or error["code"] == "invalid_config", (what, error)
        assert len(error["message"]) <= 60_000, what


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode(errors="surrogatepass"))


@pytest.mark.parametrize(("route", "names"), ROUTES.items())
def test_numbers_of_a_query(route: str, names: tuple[str, ...], rest: Any, server: Any) -> None:
    for name in names:
        for number in NUMBERS:
            path = f"{route.format(run=server.run_ids[0])}?{name}={quoted(number)}"
            answer = rest.get(path)
            in_words(answer, path[:200])
            if len(number) > 18 and number.lstrip("-").isdigit():
                assert answer.status_code == 422, path[:200]


@pytest.mark.parametrize("text", TEXTS)
def test_names_in_paths_and_queries(text: str, rest: httpx.Client) -> None:
    for route in NAMED:
        in_words(rest.get(route.format(quoted(text))), route)
    for verb in ("pause", "resume", "stop"):
        in_words(rest.post(f"/runs/{quoted(text)}/{verb}"), verb)
    for verb in ("drop", "undrop", "rebind"):
        in_words(rest.post(f"/silos/{quoted(text)}/{verb}"), verb)
    in_words(rest.patch(f"/runs/{quoted(text)}", content="{}"), "edit")
    for name in ("run_id", "silo_id", "kind", "level", "which", quoted(text)):
        in_words(rest.get(f"/events?{name}={quoted(text)}"), name)
    in_words(rest.get("/status", headers={"Last-Event-ID": "9" * 5000}), "id")


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies(body: str, rest: httpx.Client, server: Coordinator) -> None:
    run = server.run_ids[0]
    for path in ("/silos/site-a/drop", "/runs", f"/runs/{run}/pause"):
        in_words(rest.post(path, content=body.encode()), (path, body[:80]))
    in_words(rest.patch(f"/runs/{run}", content=body.encode()), body[:80])
    json.dumps(rest.get("/runs").json()).encode()


@pytest.mark.parametrize("field", FIELDS)
def test_values_of_a_config(field: str, rest: httpx.Client) -> None:
    for raw in [*RAW, *(f'"{value}"' for value in VALUES), *(f'["{value}"]' for value in VALUES)]:
        rest_of = {key: value for key, value in GOOD.items() if key != field}
        body = json.dumps(rest_of)[:-1] + f', "{field}": {raw}}}'
        answer = rest.post("/runs", content=body.encode())
        in_words(answer, (field, raw[:80]))
        if answer.status_code == 201:
            run_id = answer.json()["run_id"]
            for route in NAMED[:4]:
                in_words(rest.get(route.format(run_id)), (field, raw[:80], route))
            in_words(rest.post(f"/runs/{run_id}/stop"), "stop")
    in_words(rest.get("/runs"), field)
    in_words(rest.get("/events"), field)
