import threading
import time

import pytest

from domo_client.rpc.watchdog import Watchdog


class Call:
    """A call that says when it was cancelled."""

    def __init__(self):
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()


def test_a_call_without_progress_is_cancelled() -> None:
    call = Call()
    with Watchdog(0.05) as watch:
        assert watch.guard(call) is call
        assert call.cancelled.wait(30)
        assert watch.barked


def test_a_call_that_moves_goes_on() -> None:
    call = Call()
    with Watchdog(5.0) as watch:
        watch.guard(call)
        watch.feed(0.05)  # it looks once a second, so the new limit is seen within that
        assert call.cancelled.wait(30)
    call = Call()
    with Watchdog(0.5) as watch:
        watch.guard(call)
        watch.feed(1000.0)
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            assert not call.cancelled.wait(0.1)
        assert not watch.barked


def test_the_call_and_the_watch_end_with_the_block() -> None:
    call = Call()
    with Watchdog(1000.0) as watch:
        watch.guard(call)
    assert call.cancelled.is_set()
    assert not watch.barked
    watch.join(30)
    assert not watch.is_alive()


def test_a_call_that_never_began() -> None:
    with pytest.raises(KeyError), Watchdog(1000.0) as watch:
        raise KeyError
    assert not watch.is_alive()
