"""Watches one thread: says when it does not move on, where it is, and when it moves again."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from domo.stages import workers
from domo.stages.now import Now, now_of
from domo.stages.place import of_thread
from domo.stages.processes import Moves
from domo.stages.table import ADVICE, STAGES

log = logging.getLogger(__name__)

STILL_S = 30.0
"""In one stage, with nothing moving: too long."""
MOVES_S = 120.0
"""In one stage, while something is computed or read: long enough to be said."""
TICK_S = 1.0
MULTIPLE = 3.0
"""Times as long as the stage has taken before is too long, where that is more."""
GROWTH = 2.0
"""What was too long, and then was over, makes the limit at most so many times longer."""


class Seen(NamedTuple):
    """What a thread is in.

    Attributes:
        stage: A key of `STAGES`.
        for_s: For how long, seconds.
        activity: A key of `ACTIVITIES`; empty: not known, or not yet.
        stuck: Whether that is too long.
        place: Where in the user's code, once it is too long; of this machine only.
    """

    stage: str
    for_s: float
    activity: str = ""
    stuck: bool = False
    place: str = ""


class Watch(threading.Thread):
    """Looks every second; a look at a thread that moves on costs microseconds.

    Args:
        say: Told in words, once when it is too long, and once when it moves again.
        thread: The identifier of the one that is watched; this one by default.
        still_s: How long nothing may move; `STILL_S` by default.
        moves_s: How long a stage may take otherwise; `MOVES_S` by default.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        thread: int | None = None,
        still_s: float | None = None,
        moves_s: float | None = None,
    ):
        super().__init__(name="stages", daemon=True)
        self.thread = threading.get_ident() if thread is None else thread
        self._say, self._stopped = say, threading.Event()
        self._still_s = STILL_S if still_s is None else still_s
        self._moves_s = MOVES_S if moves_s is None else moves_s
        self._at: Now | None = None
        self._moves = Moves(self.thread, self._still_s)
        self._seen: Seen | None = None
        self._limits: dict[str, float] = {}  # by stage, by what it has taken before, seconds

    def follow(self) -> None:
        """From now on it is the calling thread that is watched."""
        self.thread = threading.get_ident()

    def now(self) -> Seen | None:
        """What the thread is in now."""
        at, seen = now_of(self.thread), self._seen
        if at is None:
            return None
        for_s = time.monotonic() - at.since
        if at is not self._at or seen is None:
            return Seen(at.stage, for_s)
        return seen._replace(for_s=for_s)

    def run(self) -> None:
        """Until `stop`."""
        tick = min(TICK_S, self._still_s / 8)
        while not self._stopped.wait(tick):
            try:
                self._look()
            except Exception:  # a bug; what is watched goes on
                log.debug("the watch failed", exc_info=True)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _look(self) -> None:
        at = now_of(self.thread)
        if at is not self._at:
            old, self._at, was = self._seen, at, self._at
            self._seen = None
            self._moves = Moves(self.thread, self._still_s)
            if old is not None and was is not None:
                took = (time.monotonic() if at is None else at.since) - was.since
                self._learn(was.stage, took, old.stuck)
            if old is not None and was is not None and old.stuck:
                self._say(f"moves on again after {took:.0f} s ({STAGES[was.stage]})")
        if at is None:
            return
        for_s = time.monotonic() - at.since
        if for_s < self._still_s / 3:
            return
        activity = self._moves.look()
        limit = self._moves_s if activity in ("moves", "") else self._still_s
        limit = max(limit, self._limits.get(at.stage, 0.0))
        known = self._seen is not None and self._seen.stuck
        place = self._seen.place if self._seen else ""
        stuck = known or for_s >= limit
        if stuck and not known:
            place = where(self.thread, at.stage)
        if now_of(self.thread) is not at:
            return  # it has moved meanwhile
        self._seen = Seen(at.stage, for_s, activity, stuck, place)
        if stuck and not known:
            self._say(in_words(self._seen))

    def _learn(self, stage: str, took: float, stuck: bool) -> None:
        before, limit = self._limits.get(stage, 0.0), MULTIPLE * took
        if stuck:  # as long again is to be said again
            limit = min(limit, GROWTH * max(self._still_s, before))
        self._limits[stage] = max(limit, before)


@contextmanager
def watched(say: Callable[[str], None]) -> Iterator[None]:
    """Watch this thread while a block runs; `say` is told as by `Watch`."""
    watch = Watch(say)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def where(thread: int, stage: str = "workers") -> str:
    """The place in the user's code, in words; empty: not known."""
    place = None
    if stage in ("workers", "silos", "look", "meaning"):
        place = workers.where()
    if place is None and stage not in ("workers", "silos"):  # else it is in torch
        place = of_thread(thread)
    return "" if place is None else str(place)


def in_words(seen: Seen) -> str:
    """For who sits at this machine."""
    place = f": in {seen.place}" if seen.place else ""
    advice = f"; {ADVICE[seen.activity]}" if seen.activity else ""
    return f"has not moved on for {seen.for_s:.0f} s: {STAGES[seen.stage]}{place}{advice}"
