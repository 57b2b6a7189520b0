"""What an operator sees in a real terminal, and how it is left."""

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live.coordinator import coordinator
from tests.support.played.made_up import Federation
from tests.support.played.serving import Served
from tests.support.played.watched import end, open_run, watched
from tests.support.terminal import Terminal

DOMO = str(Path(sys.executable).parent / "domo")


@pytest.fixture
def federation() -> Federation:
    return open_run()


@pytest.fixture
def served(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with watched(federation, monkeypatch) as server:
        yield server


def test_in_a_terminal_until_the_run_ends(federation: Federation, served: Served) -> None:
    with Terminal([DOMO, "watch"], 80, 24, {}) as terminal:
        terminal.until("Ctrl-C stops watching; the run goes on")
        assert "round 2 of 2" in terminal.text
        assert "1 min 15 s left  accuracy 50.0 %  loss 1.5" in terminal.text
        terminal.resize(40, 10)
        end(federation, served, "FAILED")
        assert terminal.result() == 3
    assert "\x1b[2J" not in terminal.raw, "a silo does not clear the admin's screen"
    assert "failed" in terminal.text
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l"), "the cursor is back"
    last = terminal.text[terminal.text.rindex("1-fedavg  FedAvg on digits") :].splitlines()
    assert max(map(len, last)) <= 40


@pytest.mark.usefixtures("served")
def test_sigterm_leaves_the_terminal_as_it_was() -> None:
    with Terminal([DOMO, "watch", "1-fedavg"], 80, 24, {}) as terminal:
        terminal.until("Ctrl-C stops watching")
        terminal.send(signal.SIGTERM)
        assert terminal.result() == 143
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l"), "the cursor is back"


@pytest.mark.usefixtures("served")
def test_leaving_a_terminal_says_that_the_run_goes_on() -> None:
    plain = {"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    with Terminal([DOMO, "watch", "1-fedavg"], 40, 12, plain) as terminal:
        terminal.until("Ctrl-C stops watching")
        terminal.press("\x03")
        assert terminal.result() == 130
    assert "the run goes on. Again: domo watch 1-fedavg" in terminal.text.replace("\n", "")
    assert "\x1b[3" not in terminal.raw, "no colours"
    assert terminal.raw.isascii()
    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l")


CLIENT = str(Path(sys.executable).parent / "domo-client")


def test_in_a_terminal(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 2, "num_silos": 1, "local_steps": 2, "name": "r"}
    with coordinator(tmp_path, run) as server:
        flags = ["--server", server.address, "--name", "site-a", "--shard", "0/4"]
        flags += ["--state-dir", str(tmp_path / "silo")]
        with Terminal([CLIENT, *flags], 60, 16, {"OMP_NUM_THREADS": "1"}) as terminal:
            terminal.until("run 1-r: finished after 2 rounds")
            terminal.until("waiting for a run, for [1-9]")
            redraws = terminal.read_for(1.5).count("waiting for a run, for")
            terminal.press("\x03")
            assert terminal.result() == 0
    assert 1 <= redraws <= 7, "four in a second at most"
    text, raw = terminal.text, terminal.raw
    assert raw.rindex("\x1b[?25h") > raw.rindex("\x1b[?25l"), "the cursor is back"
    last = text[text.rindex("site-a: has left") :].replace("\n", "")
    assert "updates: 2 counted" in last
    assert "site-a: stopped" in last
    assert re.search(r"no work was in hand. This site has sent \S+ kB of updates", last)
    assert f"to go on: domo-client --server {server.address} --name site-a" in last
    for i in (1, 2):
        assert len(re.findall(rf"round {i} of 2: 2 steps in", text)) == 1, "told once, and stays"
