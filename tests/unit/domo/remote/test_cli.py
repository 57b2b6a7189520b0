"""The commands that speak to a coordinator, against its real REST over a made-up federation."""

import io
import json
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from domo.api.client import Coordinator
from domo.api.schema import Event, RunSummary, SiloStatus
from domo.commands.main import app
from domo.errors import ConfigError, CoordinatorUnavailableError, NotFoundError
from domo.remote import complete
from domo.remote import events as remote
from domo.remote.admin import rebind_silo
from domo.remote.token import reader
from domo.tasks import TASKS
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN
from tests.support.played.serving import Served, serving

AT = "2026-01-05T09:00:00Z"


@pytest.fixture
def federation() -> Federation:
    made = Federation()
    made.run_list[0] = made.run_list[0].model_copy(update={"state": "OPEN", "rounds_done": 1})
    made.silo_list = [
        SiloStatus(silo_id="site-a", phase="training", step=3, num_steps=12, last_seen_s=1.0),
        SiloStatus(silo_id="site-b", phase="failed", error="out of memory"),
    ]
    made.event_list = [
        Event(event_id=1, at=AT, kind="started", text="fedavg started", run_id="1-fedavg"),
        Event(event_id=2, at=AT, kind="joined", text="site-a joined", silo_id="site-a"),
        Event(
            event_id=3,
            at=AT,
            kind="refused",
            text="refused an update of site-b: [nan]",
            run_id="1-fedavg",
            silo_id="site-b",
        ),
    ]
    return made


@pytest.fixture
def server(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving(federation) as (url, _):
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("DOMO_SERVER", url)
        monkeypatch.setenv("DOMO_TOKEN", TOKEN)
        yield url


def domo(*words: str) -> str:
    """What a command says that works."""
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(code: int, *words: str) -> str:
    """The one line that a mistake gets."""
    result: Result = CliRunner().invoke(app, words)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip("\n")


@pytest.mark.usefixtures("server")
def test_status_says_who_is_left_out_and_why(federation: Federation) -> None:
    federation._change_silo("site-b", "its GPU is being repaired")
    lines = domo("status").splitlines()
    assert lines[0].startswith("coordinator 0 at 0.0.0.0:50051 (no TLS), up 1 s, 2 of 2 silos")
    assert lines[2].split() == ["1-fedavg", "open", "1", "of", "2", "50.0", "%"]
    assert lines[-2].split() == ["site-a", "training", "3", "of", "12", "1", "s", "ago"]
    assert "dropped, failed" in lines[-1]
    assert "its GPU is being repaired / out of memory" in lines[-1]
    body = json.loads(domo("status", "--json"))
    assert [s["dropped"] for s in body["status"]["silos"]] == [None, "its GPU is being repaired"]
    assert body["runs"][0]["run_id"] == "1-fedavg"


def test_a_command_that_is_proposed_has_the_token_of_the_one_before(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOMO_TOKEN")
    path = tmp_path / "admin token"
    path.write_text(TOKEN)
    for words in (("pause", "1-fedavg"), ("drop", "site-b")):
        proposed = domo(*words, "--token-file", str(path)).splitlines()[-1]
        command = shlex.split(proposed.removeprefix("next: "), comments=True)
        assert command[-2:] == ["--token-file", str(path)]
        assert domo(*command[1:])


def test_pause_resume_and_stop(server: str, federation: Federation) -> None:
    assert domo("pause", "1-fedavg").splitlines() == [
        "1-fedavg: paused",
        f"next: domo resume 1-fedavg --server {server}",
    ]
    assert federation.run_list[0].state == "PAUSED"
    assert " paused " in domo("status")
    assert refused(2, "pause", "1-fedavg") == "run 1-fedavg is paused"
    assert domo("resume", "1-fedavg") == "1-fedavg: goes on, 1 of 2 rounds are done\n"
    assert federation.run_list[0].state == "OPEN"
    assert domo("stop", "1-fedavg") == "1-fedavg: stopping\n"
    assert federation.run_list[0].state == "STOPPED"
    for what in ("pause", "resume", "stop"):
        assert refused(2, what, "1-fedavg").startswith("run '1-fedavg' has ended already (STOPPED)")
        assert refused(6, what, "9-?x").startswith("no run '9-?x'")


@pytest.mark.usefixtures("server")
def test_a_stop_that_waits_for_the_round_that_closes(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(run_id: str, by: str) -> RunSummary:
        run = federation._change_run(run_id, "CLOSING")
        return run.model_copy(update={"detail": "writing the checkpoint"})

    monkeypatch.setattr(federation, "stop", stop)
    assert domo("stop", "1-fedavg") == "1-fedavg: stopping\n"


@pytest.mark.usefixtures("server")
def test_a_run_gets_tags_and_notes_and_leaves_the_list(federation: Federation) -> None:
    said = domo("edit", "1", "--tag", "base line", "--tag", "old")
    assert said == "1-fedavg: tags base line, old\n"
    said = domo("edit", "fedavg", "--untag", "old", "--notes", "to beat", "--archive")
    assert said.splitlines() == ["1-fedavg: tags base line; archived", "  to beat"]
    assert domo("runs") == "no run that is not archived; domo runs --archived has those\n"
    assert "1-fedavg" in domo("runs", "--archived", "--tag", "Base Line")
    assert domo("runs", "--archived", "--tag", "old") == "no such runs\n"
    domo("edit", "1", "--unarchive", "--notes", "")
    assert "1-fedavg" in domo("runs")
    assert federation.run_list[0].notes == ""
    assert refused(2, "edit", "1").startswith("what is to change?")
    assert "has no tag 'old' (its tags: base line)" in refused(2, "edit", "1", "--untag", "old")
    assert "a tag is one line" in refused(2, "edit", "1", "--tag", "a,b")


def test_drop_and_undrop(server: str, federation: Federation) -> None:
    assert domo("drop", "site-b", "--reason", "on holiday").splitlines() == [
        "site-b is left out: on holiday",
        f"next: domo undrop site-b --server {server}   # takes it back",
    ]
    assert federation.silo_list[1].dropped == "on holiday"
    assert refused(2, "drop", "site-b") == "site-b is out already"
    assert domo("undrop", "site-b") == "site-b takes part again from the next round on\n"
    assert federation.silo_list[1].dropped is None
    assert refused(2, "undrop", "site-b") == "site-b is not left out"
    assert federation.rebound == []
    assert domo("drop", "site-a").splitlines()[0] == "site-a is left out"
    for what in ("drop", "undrop", "rebind"):
        assert refused(6, what, "site-x").startswith("no silo 'site-x'")


@pytest.mark.usefixtures("server")
def test_a_name_is_let_go_by_a_command_of_its_own_that_asks_back(federation: Federation) -> None:
    """`undrop` takes back, `rebind` gives the name's protection up; neither does the other's."""
    assert "give --yes" in refused(2, "rebind", "site-a")
    assert federation.rebound == []
    assert domo("rebind", "site-a", "--yes") == (
        "the name site-a is free for one other state folder; start its domo-client\n"
    )
    assert federation.rebound == ["site-a"]
    domo("drop", "site-b", "--reason", "lost")
    assert "it is left out still (lost); to take it back: domo undrop site-b" in domo(
        "rebind", "site-b", "-y"
    )
    told = refused(2, "readmit", "site-a")
    assert "domo undrop site-a: takes back" in told
    assert "domo rebind site-a: lets its name" in told
    assert federation.rebound == ["site-a", "site-b"]


@pytest.mark.parametrize(("typed", "meant"), [("y\n", True), ("yes\n", True), ("", False)])
def test_only_a_yes_is_a_yes(
    typed: str, meant: bool, server: str, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = io.StringIO(typed or "\n")
    answers.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("domo.ops.console.sys", SimpleNamespace(stdin=answers))
    if meant:
        rebind_silo(server, "site-a", TOKEN, sure=False)
    else:
        with pytest.raises(ConfigError, match="nothing was changed"):
            rebind_silo(server, "site-a", TOKEN, sure=False)
    assert federation.rebound == (["site-a"] if meant else [])


def several_of_a_name(federation: Federation) -> None:
    first = federation.run_list[0]
    for number, name in ((2, "chest"), (3, "brain"), (12, "chest"), (13, "3")):
        fields = {"run_id": f"{number}-{name}", "name": name}
        federation.run_list.insert(0, first.model_copy(update=fields))


@pytest.mark.usefixtures("server")
def test_a_run_is_meant_by_its_number_its_name_or_both(federation: Federation) -> None:
    several_of_a_name(federation)
    for meant in ("1", "fedavg", "1-fedavg"):
        assert domo("run", meant, "--json") == domo("run", "1-fedavg", "--json")
        assert domo("events", "--run", meant) == domo("events", "--run", "1-fedavg")
        assert domo("pause", meant).startswith("1-fedavg: paused")
        assert domo("resume", meant).startswith("1-fedavg: goes on")
    columns = domo("compare", "2", "brain", "--json")
    assert [run["run_id"] for run in json.loads(columns)] == ["2-chest", "3-brain"]
    assert domo("stop", "brain") == "3-brain: stopping\n"
    told = refused(2, "stop", "chest")
    assert told == "chest may be 2 runs: 12-chest, 2-chest. Give the number and the name"
    assert refused(2, "run", "3") == "3 may be 2 runs: 13-3, 3-brain. Give the number and the name"
    assert refused(6, "run", "4").startswith("no run '4'. The newest are 13-3, 12-chest")


def tab(function: Any, incomplete: str, **flags: str) -> list[str]:
    context = typer.Context(get_command(app))
    context.params = flags
    return [found[0] for found in function(context, incomplete)]


def test_tab_proposes_runs_and_silos_of_the_coordinator(
    server: str, federation: Federation
) -> None:
    several_of_a_name(federation)
    assert tab(complete.runs, "1") == ["13-3", "12-chest", "1-fedavg"]
    assert tab(complete.runs, "fed") == ["fedavg"]
    assert tab(complete.runs, "chest") == []  # it would name two
    assert tab(complete.silos, "site-") == ["site-a", "site-b"]
    assert tab(complete.silos, "", server=server) == ["site-a", "site-b"]


def test_tab_says_nothing_where_nobody_answers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as mute:  # takes connections, and never says a word
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        monkeypatch.setenv("DOMO_SERVER", f"http://127.0.0.1:{mute.getsockname()[1]}")
        began = time.monotonic()
        assert tab(complete.runs, "") == []
        assert time.monotonic() - began < 5
    monkeypatch.setenv("DOMO_SERVER", "no address")
    assert tab(complete.silos, "") == []
    assert capfd.readouterr() == ("", "")


def test_tab_knows_methods_and_tasks() -> None:
    assert complete.methods("fedavgs") == ["FedAvgSM", "FedAvgSLM", "FedAvgSLM-Z"]
    assert "DiLoCo-outer" in complete.methods("")
    assert complete.tasks("cifar100") == ["cifar100-vgg16", "cifar100-resnet56"]
    assert set(complete.TASKS) == set(TASKS)


@pytest.mark.usefixtures("server")
def test_submit_tells_the_faults_of_all_runs(tmp_path: Path, federation: Federation) -> None:
    path = tmp_path / "more.toml"
    run = 'task = "digits"\nnum_silos = 2\n'
    path.write_text(f"[[runs]]\n{run}num_rounds = 0\n[[runs]]\n{run}num_rounds = 1\nseed = -1\n")
    result = CliRunner().invoke(app, ["submit", str(path)])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0] == f"error: {path}: 2 faults"
    assert [line.split()[0] for line in lines[1:]] == ["runs[0].num_rounds", "runs[1].seed"]
    assert not federation.submitted


REST_WORDS = ("GET ", "POST ", "/api/v1", "Bearer", "request", "REST", "the body")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("run", "9-x"), "all of them: domo runs"),
        (("export", "9-x"), "all of them: domo runs"),
        (("undrop", "site-x"), "`domo status` lists them"),
        (("rebind", "site-x"), "`domo status` lists them"),
        (("events", "--silo", "x" * 200), ""),
    ],
)
def test_a_cure_is_in_words_of_the_command_line(
    server: str, words: tuple[str, ...], cure: str
) -> None:
    result = CliRunner().invoke(app, words)
    assert cure in result.stderr
    assert not [word for word in REST_WORDS if word in result.stderr]


def test_who_is_not_the_admin_is_told_which_flag(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOMO_TOKEN", "another")
    told = refused(1, "drop", "site-a")
    assert told == (
        "this is no token of this coordinator: give --token-file, or set DOMO_TOKEN. On the "
        "coordinator's machine `domo-server token create` makes tokens"
    )


def test_a_coordinator_that_is_older_than_the_command(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Coordinator(server, TOKEN) as coordinator, pytest.raises(NotFoundError) as caught:
        coordinator.ask("POST", "/silos/site-a/of-tomorrow")
    assert "of an older version than this command" in str(caught.value)
    assert "routes" not in str(caught.value)


def test_only_the_admin_changes_anything(
    server: str, federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [("pause", "1-fedavg"), ("resume", "1-fedavg"), ("stop", "1-fedavg")]
    changes += [("drop", "site-a"), ("undrop", "site-a"), ("rebind", "site-a", "-y")]
    monkeypatch.setenv("DOMO_TOKEN", "another")
    for words in changes:
        assert refused(1, *words).startswith("this is no token of this coordinator")
    monkeypatch.delenv("DOMO_TOKEN")
    for words in changes:
        told = refused(2, *words, "--token-file", str(tmp_path / "none"))
        assert told.startswith("this needs a token, and ")
    assert federation.run_list[0].state == "OPEN"
    assert federation.silo_list[0].dropped is None
    (tmp_path / "admin-token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("DOMO_TOKEN", "of-another-coordinator")
    words = ("pause", "1-fedavg", "--server", server, "--token-file", str(tmp_path / "admin-token"))
    assert "paused" in domo(*words)


@pytest.mark.usefixtures("server")
def test_events_filtered_and_for_scripts() -> None:
    lines = domo("events").splitlines()
    here = datetime.fromisoformat(AT).astimezone()
    assert lines[0] == f"{here:%Y-%m-%d %H:%M:%S} started          [1-fedavg] fedavg started"
    assert lines[2].endswith(
        "refused          [1-fedavg/site-b] refused an update of site-b: [nan]"
    )
    assert len(lines) == 3
    assert domo("events", "--limit", "1").splitlines() == lines[2:]
    assert domo("events", "--run", "1-fedavg").splitlines() == [lines[0], lines[2]]
    assert domo("events", "--silo", "site-a").splitlines() == [lines[1]]
    assert domo("events", "--kind", "joined", "--kind", "refused").splitlines() == lines[1:]
    assert refused(6, "events", "--run", "9-none").startswith("no run '9-none'")
    told = [json.loads(line) for line in domo("events", "--json").splitlines()]
    assert [event["event_id"] for event in told] == [1, 2, 3]
    assert told[2]["silo_id"] == "site-b"


def test_follow_goes_on_through_a_restart(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    naps = iter(range(5))
    first = Served(federation)
    port = first.start()
    second = Served(federation, port)

    def happen(event_id: int) -> None:
        old = federation.event_list[-1]
        federation.event_list.append(
            old.model_copy(update={"event_id": event_id, "text": f"event {event_id}"})
        )

    def nap(_seconds: float) -> None:
        turn = next(naps)
        if turn == 0:
            happen(4)
        elif turn == 1:
            first.stop()
            happen(5)
        elif turn == 3:
            second.start()
        elif turn == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(remote, "time", SimpleNamespace(sleep=nap))
    with pytest.raises(KeyboardInterrupt):
        remote.show_events(
            reader(f"http://127.0.0.1:{port}"), {"silo_id": "site-b"}, 50, True, True
        )
    second.stop()
    said = capsys.readouterr()
    assert [json.loads(line)["event_id"] for line in said.out.splitlines()] == [3, 4, 5]
    assert said.err.count("waiting for it") == 1


def test_nobody_there_and_a_coordinator_that_cannot(
    server: str, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.error = CoordinatorUnavailableError("the store is busy")
    assert refused(5, "status") == "the store is busy. Try again in a moment."
    assert "there is nothing here" in refused(6, "status", "--server", f"{server}/elsewhere")
    monkeypatch.setenv("DOMO_SERVER", "http://127.0.0.1:1")
    for words in (("status",), ("events",), ("pause", "1-fedavg"), ("undrop", "site-a")):
        assert refused(5, *words).startswith("no coordinator answers at http://127.0.0.1:1: ")


def test_a_proxy_that_answers_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(status: int) -> None:
        request = httpx.Request("GET", url)
        page = httpx.Response(status, html="<html>Sign in</html>", request=request)
        monkeypatch.setattr(httpx.Client, "request", lambda *_args, **_kwargs: page)

    url = "http://127.0.0.1:8080/api/v1/status"
    answer(502)
    assert refused(5, "status") == "http://127.0.0.1:8080 answered 502; is that a domo coordinator?"
    answer(404)
    assert refused(2, "status") == "http://127.0.0.1:8080 answered 404; is that a domo coordinator?"
    answer(200)
    for words in ("status", "status --json", "runs --json", "run 1-x --json", "events"):
        assert "http://127.0.0.1:8080 answered with a web page" in refused(1, *words.split())


@pytest.mark.parametrize("body", [b"Sign in", b'[{"no": "run"}]', b"\xff"])
def test_an_answer_that_is_no_coordinators(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    request = httpx.Request("GET", "http://127.0.0.1:8080/api/v1/runs")
    page = httpx.Response(200, content=body, request=request)
    monkeypatch.setattr(httpx.Client, "request", lambda *_args, **_kwargs: page)
    assert "Is that a domo coordinator" in refused(1, "runs", "--json")


@pytest.mark.parametrize(
    ("proxy", "told"),
    [("socks5://127.0.0.1:9", "pip install 'httpx[socks]'"), ("foo://x", "mend the variable")],
)
def test_a_proxy_that_cannot_be_used(
    proxy: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert told in refused(2, "status")


def test_a_token_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "token"
    for content in (b"\xff\xfe t", "t\u00e9".encode(), b"\n", b"two words"):
        path.write_bytes(content)
        told = refused(2, "stop", "1-x", "--token-file", str(path))
        assert told.startswith(f"{path} holds no token")
    monkeypatch.setenv("DOMO_TOKEN", "t\u00e9")
    assert refused(2, "stop", "1-x").startswith("DOMO_TOKEN holds no token")


@pytest.mark.parametrize("text", ["", "runs = 5", "runs = []", "[runs]", "runs = [1]"])
def test_a_file_without_runs(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOMO_TOKEN", TOKEN)
    path = tmp_path / "f.toml"
    path.write_text(text)
    told = refused(2, "submit", str(path), "--server", "http://127.0.0.1:1")
    assert told == f"{path}: needs at least one [[runs]] table"


@pytest.mark.usefixtures("server")
def test_an_id_is_one_part_of_the_address() -> None:
    assert refused(6, "run", "9-?x", "--json").startswith("no run '9-?x'")


@pytest.mark.usefixtures("server")
def test_a_record_that_is_not_there(federation: Federation, server: str) -> None:
    url = f"{server}/api/v1/runs/9-x/history.json"
    assert refused(6, "simulate", "--replay", url).startswith("no run '9-x'")
    nobody = refused(5, "simulate", "--replay", "http://127.0.0.1:1/history.json")
    assert nobody.startswith("no coordinator answers at http://127.0.0.1:1/history.json")


@pytest.mark.usefixtures("server")
def test_submit_queues_the_runs_of_a_file(federation: Federation, tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text(
        '[[runs]]\nname = "one"\ntask = "digits"\nmethod = "DOMO"\nnum_rounds = 2\n'
        '[[runs]]\nname = "two"\ntask = "digits"\nmethod = "FedAvg"\nnum_rounds = 3\n'
    )
    told = refused(2, "submit", str(path), "--run", "three")
    assert told.endswith("there is no run 'three' in it (runs: one, two)")
    assert domo("submit", str(path), "--run", "two").startswith("queued 2-new run: ")
    assert [run["name"] for run in federation.submitted] == ["two"]


@pytest.mark.usefixtures("server")
def test_runs_filtered(federation: Federation) -> None:
    old = federation.run_list[0]
    other = {"run_id": "2-domo", "method": "DOMO", "state": "FINISHED", "accuracy": 0.75}
    federation.run_list.insert(0, old.model_copy(update=other))
    assert [line.split()[0] for line in domo("runs").splitlines()[1:]] == ["2-domo", "1-fedavg"]
    for words in (("--state", "finished"), ("--method", "domo"), ("--limit", "1")):
        (run,) = json.loads(domo("runs", "--json", *words))
        assert run["run_id"] == "2-domo", words
    both = domo("runs", "--state", "open", "--state", "finished", "--task", "digits")
    assert len(both.splitlines()) == 3
    assert domo("runs", "--task", "cifar10") == "no such runs\n"
    assert refused(2, "runs", "--state", "done").startswith("--state done: must be one of")
    federation.run_list.clear()
    assert domo("runs") == "no run yet; start one: domo submit federation.toml\n"


@pytest.mark.usefixtures("server")
def test_one_run_and_runs_side_by_side(federation: Federation) -> None:
    old = federation.run_list[0]
    config = {"method": "DOMO", "seed": 0, "fusion_coef": 0.5, "local_epochs": 1.0}
    point = old.metrics[0].model_copy(update={"metrics": {"loss": 1.25, "accuracy": 0.75}})
    changed = {"run_id": "2-domo", "method": "DOMO", "config": config, "metrics": [point]}
    federation.run_list.insert(0, old.model_copy(update=changed))
    federation.run_list[1] = old.model_copy(update={"config": {"method": "FedAvg", "seed": 0}})
    shown = [" ".join(line.split()) for line in domo("run", "2-domo").splitlines()]
    assert {"test accuracy 75.0 %", "fusion_coef 0.5", "method DOMO on digits"} <= set(shown)
    assert json.loads(domo("run", "2-domo", "--json"))["config"] == config
    lines = [line.split() for line in domo("compare", "1-fedavg", "2-domo").splitlines()]
    assert lines[0] == ["1-fedavg", "2-domo"]
    assert ["test", "accuracy", "50.0", "%", "75.0", "%"] in lines
    assert ["test", "loss", "-", "1.25"] in lines
    assert ["fusion_coef", "0.9", "0.5"] in lines
    assert not any(line[0] in ("seed", "local_epochs") for line in lines)
    assert "seed" in domo("compare", "1-fedavg", "2-domo", "--all")
    one, two = json.loads(domo("compare", "1-fedavg", "2-domo", "--json"))
    assert (one["settings"]["fusion_coef"], two["settings"]["fusion_coef"]) == (0.9, 0.5)
    assert refused(2, "compare", "2-domo").startswith("what with what?")
    assert refused(6, "compare", "2-domo", "9-none").startswith("no run '9-none'")
    assert refused(6, "run", "9-none").startswith("no run '9-none'")


@pytest.mark.usefixtures("server")
def test_a_run_says_what_its_data_mean(federation: Federation) -> None:
    federation.run_list[0] = federation.run_list[0].model_copy(
        update={"meaning": ["2 classes: cat (0), dog (1)", "version '2' of the task"]}
    )
    shown = domo("run", federation.run_list[0].run_id).split()
    assert " data 2 classes: cat (0), dog (1); version '2' of the task " in f" {' '.join(shown)} "
