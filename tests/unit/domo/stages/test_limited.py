"""Calls that may hang: where they run, and what comes after one that does."""

import signal
import threading

import pytest

from domo.stages.limited import Limited
from domo.stages.watch import Seen


def nobody(seen: Seen) -> None:
    """It is soon enough."""


def test_calls_run_where_a_task_may_set_handlers() -> None:
    limited, ran = Limited(), list[threading.Thread]()

    def call() -> None:
        signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
        ran.append(threading.current_thread())

    def drive() -> int:
        assert threading.current_thread() is not threading.main_thread()
        assert limited.run(call, nobody) is None
        return 3

    assert limited.serve(drive) == 3
    assert ran == [threading.main_thread()]


def test_what_comes_after_a_call_that_hangs_runs_elsewhere() -> None:
    limited, hangs, ran = Limited(0.2, 0.2), threading.Event(), list[str]()

    def free() -> None:
        ran.append(threading.current_thread().name)
        hangs.set()

    def drive() -> Seen | None:
        left = limited.run(lambda: void(hangs.wait(60)), nobody)
        assert limited.run(free, nobody) is None
        return left

    left = limited.serve(drive)
    assert left is not None
    assert left.stuck
    assert "test_limited.py" in left.place
    assert ran == ["limited"]


def test_what_is_raised_comes_through() -> None:
    limited = Limited()

    def call() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        limited.serve(lambda: limited.run(call, nobody))
    with pytest.raises(KeyboardInterrupt):
        limited.run(call, nobody)


def void(_given: object) -> None:
    """Of no interest."""
