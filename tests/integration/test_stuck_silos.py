"""A step of the user's that does not return: it is named at both ends, once, until it moves on."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from domo.commands import main, simulate
from domo.errors import ConfigError
from domo.stages import watch
from domo_client import testing
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.tasks import stuck

TASK = "tests.support.tasks.stuck:StuckTask"
STAGES = [
    ("init", "loading the code of its task"),
    ("train_data", "loading its training data"),
    ("build_model", "building its model"),
    ("loss", "trying its task on one batch"),
    ("evaluate", "testing the model"),
    ("item", "waiting for a batch of its data"),
    ("loss", "computing a training step"),
]
"""Methods at which it is held, in turn, before the run and in its first round; and what is said."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Half a second is too long; at the end nothing is held."""
    monkeypatch.setattr(watch, "STILL_S", 0.5)
    monkeypatch.setattr(watch, "MOVES_S", 0.5)
    monkeypatch.setattr(watch, "MULTIPLE", 0.0)
    yield
    stuck.go_on(everywhere=True)


def wait_for(what: Callable[[], object], limit_s: float = 200.0) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def held(server: Coordinator, said: list[str], name: str, words: str) -> None:
    """See a silo named at both ends while it is held in a method; let it go until that is said."""
    before = len(said)
    wait_for(lambda: len(said) > before)
    named = {"item": "__getitem__", "init": "__init__"}.get(name, name)
    near = said[before]
    assert near.startswith("site-a: has not moved on for ")
    assert f": {words}: in Stuck" in near
    assert f".{named} > stop_at, stuck.py:" in near
    far = rf"site-a: has not moved on for over \d+ s: {words}"
    wait_for(lambda: re.search(far, str(server.run()["stalled"])))
    assert f" s: {words}" in server.silo("site-a")["doing"]
    stuck.go_on()
    wait_for(lambda: len(said) > before + 1)
    assert said[before + 1].startswith("site-a: moves on again after ")


def test_each_stage_is_named_at_both_ends_once_and_moves_on(tmp_path: Path) -> None:
    said: list[str] = []
    module = stuck.StuckTask().build_model()
    run = own_run(tmp_path, module, task=TASK, num_rounds=1, local_steps=2)
    stuck.SCRIPT.extend(name for name, _ in STAGES)
    with (
        coordinator(tmp_path, run, report_interval_s=0.1) as server,
        agents(
            server.address,
            ["site-a"],
            tmp_path,
            lambda i: options(tmp_path, TASK),
            on_stuck=said.append,
        ),
        contextlib.ExitStack() as ending,
    ):
        ending.callback(stuck.go_on, everywhere=True)
        for name, words in STAGES:
            held(server, said, name, words)
        ended = server.ended()
        events = [e for e in server.get("/events") if "moved on" in e["text"]]
    assert (ended["state"], ended["stalled"]) == ("FINISHED", None)
    assert not [e for e in events if "stuck.py" in e["text"] or "stop_at" in e["text"]]
    assert {e["kind"] for e in events} == {"run-stalled"}
    assert len(events) <= 3, "before the run, in its test, and in its round"
    assert len(said) == 2 * len(STAGES)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a simulation and `try_task` say; whatever is held then goes on."""
    told: list[str] = []

    def complain(text: str, *_style: str) -> None:
        told.append(text)
        stuck.go_on(everywhere=True)

    monkeypatch.setattr(simulate, "complain", complain)
    monkeypatch.setattr(testing, "complain", complain)
    return told


def test_a_simulation_says_where_it_does_not_move_on(tmp_path: Path, said: list[str]) -> None:
    stuck.SCRIPT.append("loss")
    flags = ["--silos", "2", "--rounds", "1", "--local-steps", "1", "--data", str(tmp_path)]
    words = ["simulate", "--task", TASK, *flags, "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main.app, words)
    assert result.exit_code == 0, result.output
    assert re.match(
        r"has not moved on for \d s: .*: in StuckTask.loss > stop_at, stuck.py", said[0]
    )


def test_trying_a_task_says_so_too(tmp_path: Path, said: list[str]) -> None:
    stuck.SCRIPT.append("train_data")
    with pytest.raises(ConfigError, match="address"):  # afterwards
        testing.try_task(stuck.StuckTask(), tmp_path, "no-port")
    assert said[0].startswith("has not moved on for ")
    assert "in StuckTask.train_data > stop_at" in said[0]
