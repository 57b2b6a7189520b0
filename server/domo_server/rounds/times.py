"""Where the time of the open round goes: marks on the coordinator's clock, and what they come to.

A mark is one assignment in a table, made where the coordinator sees something happen anyway; what
they come to is computed once, when the round has ended. Nothing that a silo says of time is used:
of its heartbeats only that a phase was seen in them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from domo.api.round_times import RoundTimes, SiloTimes, SiloWork

MOST_PAUSES = 8
"""That are kept one by one."""


@dataclass(slots=True)
class _Marks:
    """What was seen of one silo in a round, in seconds of the clock; None: not seen."""

    tests: bool = False
    trains: bool = False
    fetch_at: float | None = None
    fetched: float | None = None
    tested: float | None = None
    training_seen: float | None = None
    upload_at: float | None = None
    digest: str = ""
    accepted: float | None = None
    failed: float | None = None
    fetches: int = 0
    trainings: int = 0
    uploads: int = 0


class TimesOfRound:
    """The times of one round, from its opening on. Used from the event loop only.

    Args:
        clock: Monotonic seconds.
        silos: Of the round.
        before_s: How long the round before it took, which may not be committed yet.

    Attributes:
        interrupted: The round was open before this coordinator started.
        stalled_s: Seconds in which the run is known to have made no progress.
    """

    def __init__(
        self, clock: Callable[[], float], silos: Sequence[str] = (), before_s: float = 0.0
    ):
        self._clock, self._opened = clock, clock()
        self._marks = {silo_id: _Marks() for silo_id in silos}
        self.before_s = before_s
        self.interrupted, self.stalled_s = False, 0.0
        self._paused_s = 0.0
        self._paused_since: float | None = None
        self._pauses: list[tuple[float, float]] = []
        self._fixed: float | None = None
        self._folding: float | None = None
        self._committed: float | None = None
        self._ended: float | None = None

    # what a silo does

    def fetches(self, silo_id: str, tests: bool, trains: bool) -> None:
        """A silo has its assignment, and is sent what it lacks; perhaps again."""
        m, now = self._of(silo_id), self._clock()
        if m.fetch_at is None:
            m.fetch_at, m.tests, m.trains = now, tests, trains
        m.trains, m.failed = m.trains or trains, None
        if m.fetched is None:
            m.fetches += 1
        if trains and m.upload_at is None:  # else it sends what it has made before
            m.trainings = m.trainings + 1 if m.fetched is not None else 1

    def fetched(self, silo_id: str) -> None:
        """It was sent all of it."""
        m = self._of(silo_id)
        if m.fetched is None:
            m.fetched = self._clock()

    def tested(self, silo_id: str) -> None:
        """Its numbers of the round's model are here."""
        m = self._of(silo_id)
        if m.upload_at is None and m.accepted is None:
            m.tested = self._clock()

    def seen_training(self, silo_id: str) -> None:
        """A heartbeat says that it trains."""
        m = self._of(silo_id) if silo_id in self._marks else None
        if m is not None and m.fetched is not None and m.training_seen is None:
            m.training_seen = self._clock()

    def uploads(self, silo_id: str, digest: str) -> None:
        """It begins to send an update, or goes on with one whose transfer broke."""
        m = self._of(silo_id)
        if m.upload_at is None or m.digest != digest:
            m.trainings += m.upload_at is not None  # the one before was refused
            m.upload_at, m.digest, m.uploads, m.accepted = self._clock(), digest, 0, None
        m.uploads += 1

    def accepted(self, silo_id: str, before_restart: bool = False) -> None:
        """Its update counts."""
        m = self._of(silo_id)
        m.accepted, m.failed = self._opened if before_restart else self._clock(), None

    def failed(self, silo_id: str) -> None:
        """Nothing comes from it until it tries again."""
        m = self._of(silo_id)
        m.failed, m.accepted = self._clock(), None

    # what the coordinator does

    def paused(self) -> None:
        """An admin holds the run."""
        self._paused_since = self._clock()

    def resumed(self) -> None:
        """And lets it go on."""
        if self._paused_since is None:
            return
        begun, now = self._paused_since, self._clock()
        self._paused_s, self._paused_since = self._paused_s + now - begun, None
        if len(self._pauses) < MOST_PAUSES:
            self._pauses.append((self._after(begun), self._after(now)))

    def fixed(self) -> None:
        """The set that closes the round does not change any more."""
        self._fixed = self._clock()

    def folding(self) -> None:
        """The updates are being summed."""
        self._folding = self._clock()

    def committed_before(self) -> None:
        """The round before this one is durable."""
        self._committed = self._clock()

    def ended(self) -> None:
        """The next model is made; what is marked from here on is not of this round."""
        self._ended = self._clock()

    # what it comes to

    @property
    def working_s(self) -> float:
        """Seconds since the opening, without pauses."""
        now = self._now()
        paused = 0.0 if self._paused_since is None else now - self._paused_since
        return max(0.0, now - self._opened - self._paused_s - paused)

    def result(self) -> RoundTimes:
        """All of it. Of many silos this takes long: in a thread, once it has ended."""
        now = self._now()
        return RoundTimes(
            span_s=self._after(now),
            collect_s=None if self._fixed is None else self._after(self._fixed),
            fold_s=None if self._folding is None else _length(self._folding, now),
            commit_s=None if self._committed is None else self._after(self._committed),
            paused_s=round(self._paused_s, 3),
            pauses=self._pauses,
            stalled_s=round(self.stalled_s, 3),
            interrupted=self.interrupted,
            silos={s: self._times(m, now) for s, m in self._marks.items()},
        )

    def _times(self, m: _Marks, end: float) -> SiloTimes:
        """A silo's times: what it does follows one upon the other, from its first try on."""
        known: dict[str, Any] = {}
        unfinished: SiloWork | None = None
        stop = _first(m.accepted, m.failed, end)
        at = m.fetched
        if m.fetch_at is not None:
            known["fetch_s"] = _length(m.fetch_at, _first(m.fetched, stop))
            unfinished = "fetch" if m.fetched is None else None
        if at is not None and m.tests:
            tested = m.tested if m.tested is not None else m.training_seen
            if tested is not None:
                known["test_s"] = _length(at, tested)
                at = tested
            elif not m.trains:
                known["test_s"], unfinished = _length(at, stop), "test"
        if at is not None and m.trains:
            known["train_s"] = _length(at, _first(m.upload_at, stop))
            unfinished = "train"
        elif at is not None and not m.trains and unfinished is None:
            stop = at  # it had only to test
        if m.upload_at is not None:
            known["upload_s"], unfinished = _length(m.upload_at, stop), "upload"
        if m.accepted is not None:
            unfinished = None
        seen = (m.upload_at, m.accepted, m.failed)
        wait: float | None = end - stop
        if m.fetch_at is not None:
            wait = m.fetch_at - self._opened + end - stop
        elif all(mark is None for mark in seen):  # it never came, or that was before the restart
            wait = None if self.interrupted else end - self._opened
        tried: dict[SiloWork, int] = {"fetch": m.fetches, "train": m.trainings, "upload": m.uploads}
        return SiloTimes(
            fetch_at_s=None if m.fetch_at is None else self._after(m.fetch_at),
            **known,
            wait_s=None if wait is None else round(max(0.0, wait), 3),
            tries={work: n for work, n in tried.items() if n > 1},
            unfinished=unfinished,
        )

    def _of(self, silo_id: str) -> _Marks:
        return self._marks.setdefault(silo_id, _Marks()) if self._ended is None else _Marks()

    def _now(self) -> float:
        return self._clock() if self._ended is None else self._ended

    def _after(self, at: float) -> float:
        return _length(self._opened, at)


def _first(*times: float | None) -> float:
    """The first that is known."""
    return next(t for t in times if t is not None)


def _length(begun: float, ended: float) -> float:
    return round(max(0.0, ended - begun), 3)
