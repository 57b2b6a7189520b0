"""What counts as moving: a slow line and a slow drive do, what waits for ever does not."""

import threading
import time
from collections.abc import Callable

import pytest

from domo.stages import processes
from domo.stages.processes import Moves, Used


def seen(step: Callable[[], object]) -> str:
    """What is seen of a thread that makes steps."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        moves, told = Moves(thread.ident or 0, 0.6), ""
        while not told:
            told = moves.look()
            time.sleep(0.1)
    finally:
        ended.set()
        thread.join()
    return told


def test_what_waits_and_goes_on_again_and_again_moves() -> None:
    assert seen(lambda: time.sleep(0.004)) == "moves"


@pytest.mark.parametrize(("wakes", "word"), [(40, "moves"), (10, "still")])
def test_how_often_that_is(wakes: int, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now, samples = [0.0], [Used(0.0, 0, wakes * second, False) for second in range(6)]
    monkeypatch.setattr(processes, "used", lambda thread: samples[int(now[0])])
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    moves = Moves(0, 6.0)
    for now[0] in range(3):
        told = moves.look()
    assert told == word
