"""`domo watch`: as lines, as JSON and how it looks, over a made-up federation."""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console, ConsoleDimensions
from typer.testing import CliRunner

from domo.api.schema import SiloStatus
from domo.commands.main import app
from domo.remote.watch_view import view
from tests.support.played.made_up import Federation
from tests.support.played.serving import Served
from tests.support.played.watched import end, open_run, watched


@pytest.fixture
def federation() -> Federation:
    return open_run()


@pytest.fixture
def served(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with watched(federation, monkeypatch) as server:
        yield server


def meanwhile(federation: Federation, what: Callable[[], None]) -> threading.Thread:
    """Do something once somebody listens."""

    def run() -> None:
        while not federation.num_listeners:
            time.sleep(0.01)
        time.sleep(0.2)
        what()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(("state", "code"), [("FINISHED", 0), ("FAILED", 3), ("STOPPED", 4)])
def test_lines_until_the_end_and_a_code_that_tells(
    federation: Federation, served: Served, state: str, code: int
) -> None:
    thread = meanwhile(federation, lambda: end(federation, served, state))
    result = CliRunner().invoke(app, ["watch", "1-fedavg"])
    thread.join()
    assert result.exit_code == code, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "1-fedavg: FedAvg on digits, 2 rounds; open"
    assert [" ".join(line.split()[2:]) for line in lines[1:3]] == [
        "started [1-fedavg] fedavg started",
        "round-committed [1-fedavg] round 2 of 2",
    ]
    told = f"1-fedavg: {state.lower()}, 1 of 2 rounds, accuracy 50.0 %, loss 1.5"
    assert lines[3] == f"{told}. waiting for site-b"


def test_json_lines(federation: Federation, served: Served) -> None:
    thread = meanwhile(federation, lambda: end(federation, served, "FINISHED"))
    result = CliRunner().invoke(app, ["watch", "--json"])
    thread.join()
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [body["run"]["state"] for body in told] == ["OPEN", "FINISHED"]
    assert [[e["event_id"] for e in body["events"]] for body in told] == [[1], [2]]
    assert told[0]["silos"][0]["step"] == 3


@pytest.mark.usefixtures("served")
def test_when_there_is_nothing_to_watch_or_no_time(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["watch", *words])
        return result.exit_code, result.stderr

    late = "error: run 1-fedavg has not ended after 0.2 s; it goes on\n"
    assert watched("--timeout", "0.2") == (124, late)
    assert watched("9-none")[0] == 6
    federation.run_list.clear()
    assert watched()[0] == 2
    monkeypatch.setenv("DOMO_SERVER", "http://127.0.0.1:1")
    assert watched()[0] == 5


def test_submit_and_watch(federation: Federation, served: Served, tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    path.write_text('[[runs]]\ntask = "digits"\nmethod = "DOMO"\nnum_rounds = 2\n' * 2)
    before = set(threading.enumerate())

    def stop() -> None:
        for run_id in ("2-new run", "3-new run"):
            federation._change_run(run_id, "STOPPED")
        served.change()

    thread = meanwhile(federation, stop)
    result = CliRunner().invoke(app, ["submit", str(path), "--watch", "--timeout", "20"])
    thread.join()
    assert result.exit_code == 4, result.output
    lines = result.stdout.splitlines()
    assert (lines[0][:17], lines[-1][:18]) == ("queued 2-new run:", "3-new run: stopped")
    served.change()  # or a sign of life, 2 s later
    for left in (t for t in threading.enumerate() if t.name == "stream" and t not in before):
        left.join(5)
        assert not left.is_alive(), "it reads on for nobody"


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24), (120, 40)])
def test_the_view_fits_with_many_silos(federation: Federation, columns: int, rows: int) -> None:
    silos = [
        SiloStatus(silo_id=f"site-{i:03}", phase="training", step=1, num_steps=9)
        for i in range(200)
    ]
    silos[150] = silos[150].model_copy(update={"phase": "offline", "error": "power\ncut"})
    run = federation.run_list[0].model_copy(
        update={"roster": [s.silo_id for s in silos], "detail": "waiting for " + "site-x, " * 50}
    )
    events = federation.event_list * 5
    written = io.StringIO()
    console = Console(
        file=written, width=columns, height=rows, force_terminal=True, color_system=None
    )
    console.print(view(run, silos, events, OSError("hung up"), ConsoleDimensions(columns, rows)))
    lines = written.getvalue().splitlines()
    assert len(lines) < rows
    assert max(map(len, lines)) <= columns
    assert any("site-150" in line and "offline" in line for line in lines), "trouble comes first"
    assert any(line.startswith("and 1") and "training" in line for line in lines)
