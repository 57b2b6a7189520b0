"""How much silos may cause, how long they are in their phase, and how fast they move bytes."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from domo.api.schema import SiloStatus

WINDOW_S = 10.0
"""Over how many of the last seconds a speed is taken."""


class Bucket:
    """Lets so much through at once, and so much a second on average.

    Args:
        burst: At once.
        per_s: On average.
        clock: Monotonic seconds.
    """

    def __init__(self, burst: int, per_s: float, clock: Callable[[], float] = time.monotonic):
        self._burst, self._per_s, self._clock = float(burst), per_s, clock
        self._room, self._at = self._burst, clock()

    def take(self, more: float = 0.0) -> bool:
        """Whether one more may pass; `more`: that many have been earned since the last one."""
        now = self._clock()
        self._room = min(self._burst, self._room + more + self._per_s * (now - self._at))
        self._at = now
        if self._room < 1:
            return False
        self._room -= 1
        return True


MOST_SOURCES = 1000
"""Sources that are counted apart; of more, those that were counted first are forgotten."""


class Rates:
    """A bucket for each source, such as an address.

    Args:
        burst, per_s: As of `Bucket`.
    """

    def __init__(self, burst: int, per_s: float):
        self._burst, self._per_s = burst, per_s
        self._of: dict[str, Bucket] = {}

    def take(self, source: str) -> bool:
        """Whether one more of it may pass."""
        if source not in self._of:
            if len(self._of) >= MOST_SOURCES:
                del self._of[next(iter(self._of))]
            self._of[source] = Bucket(self._burst, self._per_s)
        return self._of[source].take()


@dataclass(slots=True)
class _Seen:
    """One silo as it was seen last, and the byte counts of the last seconds of one source."""

    phase: str
    since: float
    source: object = None
    counts: deque[tuple[float, int, int]] = field(default_factory=deque)


class Pace:
    """Watches silos go by; whoever looks at them keeps it up to date.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def add_to(self, silo: SiloStatus, source: object) -> SiloStatus:
        """The silo with its seconds in the phase and its speeds.

        Args:
            silo: As it is now.
            source: Whose counts its bytes are, such as a session that has reported: only counts of
                one source are subtracted. None: nobody's yet, and there is no speed.
        """
        now = self._clock()
        seen = self._seen.get(silo.silo_id)
        if seen is None:
            seen = self._seen[silo.silo_id] = _Seen(silo.phase, now)
        elif seen.phase != silo.phase:
            seen.phase, seen.since = silo.phase, now
        in_phase = now - seen.since
        if silo.phase == "offline" and silo.last_seen_s is not None:
            in_phase = max(in_phase, silo.last_seen_s)
        if source is None or source != seen.source:  # a process was started again, here or there
            seen.counts.clear()
        seen.source = source
        sent, received = (0.0, 0.0) if source is None else self._speeds(seen, now, silo)
        return silo.model_copy(
            update={
                "phase_s": round(in_phase, 1),
                "sent_per_s": sent,
                "received_per_s": received,
            }
        )

    def _speeds(self, seen: _Seen, now: float, silo: SiloStatus) -> tuple[float, float]:
        counts = seen.counts
        if counts and now - counts[-1][0] > 2 * WINDOW_S:
            counts.clear()  # nobody has looked for long
        counts.append((now, silo.bytes_sent, silo.bytes_received))
        while len(counts) > 2 and now - counts[1][0] >= WINDOW_S:
            counts.popleft()
        at, sent, received = counts[0]
        if silo.phase == "offline" or now <= at:
            return 0.0, 0.0
        span = max(now - at, 1.0)
        return (
            round((silo.bytes_sent - sent) / span, 1),
            round((silo.bytes_received - received) / span, 1),
        )
