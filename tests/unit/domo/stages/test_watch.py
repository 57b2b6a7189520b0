"""A thread that hangs is named each time, also where it went on after the first."""

import threading
import time

from domo.stages.now import in_stage
from domo.stages.watch import Watch

STILL_S = 0.2
PATIENCE_S = 100.0


def test_what_hung_once_is_named_when_it_hangs_again() -> None:
    said: list[str] = []
    watch = Watch(said.append, still_s=STILL_S, moves_s=STILL_S)
    watch.start()
    try:
        for times in (1, 2):
            with in_stage("model"):
                end = time.monotonic() + PATIENCE_S
                while sum("has not moved on" in text for text in said) < times:
                    assert time.monotonic() < end, said
                    threading.Event().wait(0.01)
                threading.Event().wait(4 * STILL_S)  # three times this is not waited for next
            while sum("moves on again" in text for text in said) < times:
                assert time.monotonic() < end, said
                threading.Event().wait(0.01)
        assert watch._limits["model"] <= 4 * STILL_S
    finally:
        watch.stop()
