"""Watches the silos and the current run, and says at once when one is away, or stalled."""

import asyncio
import logging
import time
from dataclasses import dataclass

from domo_server.coordinator.coordinator import Coordinator
from domo_server.events import kinds
from domo_server.monitor.activity import Signs
from domo_server.monitor.descriptors import crowded, none_left
from domo_server.monitor.falling import Falling
from domo_server.monitor.stall import BROKEN_S, Stall, Why
from domo_server.runs.run import Run
from domo_server.silos.session import Session

log = logging.getLogger(__name__)

TICK_S = 0.125
SHARE = 0.03
"""Of its time that the coordinator may spend looking: with a thousand silos it looks less often."""
STALL_AFTER_S = 2.5
CALM_S = 2.0
"""A stall is over when its cause has been away for this long, or the round gets further."""


@dataclass(slots=True)
class Stalled:
    """A run that makes no progress.

    Attributes:
        why: In words, and by whom.
        since: When it was noticed.
        at: How far the run was.
        calm_since: When its cause went away.
    """

    why: Why
    since: float
    at: object
    calm_since: float | None = None


class Watch:
    """Looks several times a second; what it sees is in `stalled` and in events.

    Args:
        coordinator: Whose silos and run are watched.
        floor_s: Shortest silence of a working silo that can be a stall, seconds.
    """

    def __init__(self, coordinator: Coordinator, floor_s: float):
        self._c, self._floor_s, self._up_s = coordinator, floor_s, coordinator.clock()
        self._signs = Signs(floor_s)
        self._falling = Falling(coordinator.store)
        self._looked_at = self._up_s
        self._shown: dict[str, str | None] = {}
        self._away: dict[str, Session] = {}
        self._stuck: dict[str, float | None] = {}
        """Silos that do not move on, and since when that was said; None: it was said of the run."""
        self._run: Run | None = None
        self._stall: Stall | None = None
        self._none_left: str | None = None
        self._crowded: str | None = None
        self.stalled: Stalled | None = None

    async def forever(self) -> None:
        """Look again and again."""
        while True:
            begun = time.perf_counter()
            try:
                self.look()
            except Exception:
                log.exception("the watch failed")
            took = time.perf_counter() - begun
            await asyncio.sleep(max(TICK_S, took / SHARE))

    def look(self) -> None:
        """Look once."""
        now = self._c.clock()
        shown = {}
        for session in self._c.sessions.all():
            self._signs.look(session, now)
            silo_id = session.silo_id
            shown[silo_id] = away = self._c.sessions.away(silo_id)
            if away is not None or silo_id in self._away:
                self._look_at(session)
        if shown != self._shown:
            self._shown = shown
            self._c.changes.moved()
        self._look_at_descriptors()
        self._look_at_run(now)
        for session in self._c.sessions.all():
            self._look_at_stage(session, now)

    def stalled_run(self, run: Run) -> Stalled | None:
        """The stall of a run, if it is the current one and stalled."""
        known = self._run is not None and self._run.run_id == run.run_id
        return self.stalled if known and not run.state.ended else None

    def _look_at_descriptors(self) -> None:
        """Say that nothing more can be opened here, or that it can again; that it is crowded."""
        old, self._none_left = self._none_left, none_left()
        if (old is None) != (self._none_left is None):
            text = self._none_left or "the coordinator has file descriptors again"
            self._c.events.say(kinds.DESCRIPTORS, text)
        was, self._crowded = self._crowded, crowded()
        if self._crowded is not None and was is None:
            text = self._crowded
            self._c.events.repeated.say(kinds.DESCRIPTORS, "connections", text)

    def _look_at(self, session: Session) -> None:
        silo_id = session.silo_id
        away = self._c.sessions.away(silo_id, BROKEN_S)
        current = self._c.queue.current
        run_id = current.run_id if current and silo_id in current.roster.enrolled else None
        if away is not None and silo_id not in self._away:
            self._away[silo_id] = session
            if session.left is None:  # a goodbye is an event already
                text = f"{silo_id}: {away} (last: {session.doing})"
                self._c.events.say(kinds.SILO_LOST, text, run_id, silo_id)
        elif away is None and self._away.pop(silo_id, None) is session:  # else it joined again
            self._c.events.say(kinds.SILO_BACK, f"{silo_id} is back", run_id, silo_id)

    def _look_at_stage(self, session: Session, now: float) -> None:
        """Say once that a silo does not move on, unless it is said of its run already."""
        silo_id, doing = session.silo_id, session.now
        stuck = doing is not None and doing.over_s and silo_id not in self._away
        if stuck and silo_id not in self._stuck:
            named = self.stalled is not None and silo_id in self.stalled.why.silos
            self._stuck[silo_id] = None if named else now
            if doing is not None and not named:
                text = f"{silo_id} {doing.words}"
                self._c.events.say(kinds.SILO_STALLED, text, session.run_id, silo_id)
        elif not stuck and silo_id in self._stuck:
            since = self._stuck.pop(silo_id)
            if since is not None and silo_id not in self._away:
                text = f"{silo_id} moves on again after {now - since:.0f} s"
                self._c.events.say(kinds.SILO_MOVES_AGAIN, text, session.run_id, silo_id)

    def _look_at_run(self, now: float) -> None:
        run = self._c.queue.current
        if run is None:
            return
        self._falling.look(run)
        if run is not self._run or self._stall is None:
            if self._run is None or self._run.run_id != run.run_id:
                self.stalled = None
            self._run, self._stall = run, Stall(run, self._signs, self._floor_s, self._up_s)
        if self.stalled is not None:
            run.participants.times.stalled_s += now - self._looked_at
        self._looked_at = now
        tested = len(run.evaluations.reported.get(run.state.round_index, ()))
        why = self._stall.why()
        if self._none_left is not None and not run.state.ended:
            why = Why(self._none_left)
        at = (run.state, len(run.participants.accepted), tested)
        if why is not None:
            self._holds(run, why, at, now)
        elif self.stalled is not None:
            self._may_be_over(run, self.stalled, at, now)

    def _holds(self, run: Run, why: Why, at: object, now: float) -> None:
        old = self.stalled
        if old is None:
            self.stalled = Stalled(why, now, at)
            run.say(kinds.RUN_STALLED, f"{run.config.title} is stalled: {why.text}")
        elif old.why != why or old.calm_since is not None:
            old.why, old.at, old.calm_since = why, at, None
        else:
            return
        run.changes.shown()

    def _may_be_over(self, run: Run, old: Stalled, at: object, now: float) -> None:
        old.calm_since = old.calm_since or now
        if at == old.at and now - old.calm_since < CALM_S:
            return
        self.stalled = None
        if not run.state.ended:
            text = f"{run.config.title} moves again after {now - old.since:.0f} s"
            run.say(kinds.RUN_MOVES_AGAIN, text)
        run.changes.shown()
