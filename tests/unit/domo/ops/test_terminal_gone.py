"""What a program does when its terminal is closed or its output fails."""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from domo.errors import TaskError
from domo.ops import terminal
from domo.ops.exit_codes import HUNG_UP
from domo.ops.terminal import at_hangup, output_may_be_lost
from domo.stages.stopping import Ended
from domo.tasks import load_task
from domo.training.loading.travel import Source
from domo.training.task_errors import task_errors


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("serves", "has_terminal", "ends"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_a_service_without_a_terminal_goes_on(
    monkeypatch: pytest.MonkeyPatch, serves: bool, has_terminal: bool, ends: bool
) -> None:
    monkeypatch.setattr(terminal, "has_terminal", lambda: has_terminal)
    ended: list[str] = []
    at_hangup(lambda: ended.append("ended"), serves=serves)
    os.kill(os.getpid(), signal.SIGHUP)
    assert bool(ended) is ends


def test_nohup_stays() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ended: list[str] = []
    at_hangup(lambda: ended.append("ended"))()
    os.kill(os.getpid(), signal.SIGHUP)
    assert (ended, signal.getsignal(signal.SIGHUP)) == ([], signal.SIG_IGN)


class Full(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_what_cannot_be_written_is_lost_and_what_follows_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Full()
    monkeypatch.setattr(sys, "stdout", stream)
    with output_may_be_lost():
        assert sys.stdout.write("lost\n") == 5
        stream.full = False
        sys.stdout.write("kept\n")
    assert sys.stdout is stream
    assert stream.getvalue() == "kept\n"


def test_a_signal_is_no_fault_of_the_users_code() -> None:
    with pytest.raises(Ended), task_errors("it is slow"):
        raise Ended(HUNG_UP)
    with pytest.raises(TaskError, match="it ends"), task_errors("it ends"):
        sys.exit(HUNG_UP)


class Slow:
    """What is the user's, and a signal in it."""

    def __init__(self) -> None:
        raise Ended(HUNG_UP)

    @staticmethod
    def __getitems__(indices: list[int]) -> None:
        raise Ended(HUNG_UP)


def test_a_signal_is_none_of_a_task_or_a_dataset_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Ended):
        load_task(f"{__name__}:Slow")
    with pytest.raises(Ended):
        Source(object.__new__(Slow)).batch([0])
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "slow_module.py").write_text(f"from {__name__} import Slow\nSlow()\n")
    with pytest.raises(Ended):
        load_task("slow_module:Task")
