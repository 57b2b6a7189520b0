"""What a silo has done since it started, for its metrics; it costs next to nothing to keep."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

ACTIVITIES = ("evaluating", "training", "downloading", "uploading")
OUTCOMES = ("accepted", "stale", "refused")
LOST_S, LOST_BEATS = 5.0, 5
"""The coordinator is lost after so many seconds, and heartbeats, without an answer."""


@dataclass(slots=True)
class Counts:
    """Plain numbers; each is written by one thread at a time and may be read by any.

    Attributes:
        joins: Sessions that were opened.
        retries: Calls that failed and were made again.
        steps: Local steps.
        rounds: Rounds of training that were done here.
        failures: Rounds that failed here.
        updates: What became of updates, by outcome.
        seconds: Spent in each activity.
        bytes_sent: Of vectors, as they were on the wire.
        bytes_received: Likewise.
        network: What a call met that was made again, since the last heartbeat that was heard.
        heard_at: When the coordinator last answered a heartbeat, monotonic seconds.
    """

    joins: int = 0
    retries: int = 0
    steps: int = 0
    rounds: int = 0
    failures: int = 0
    updates: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ACTIVITIES, 0.0))
    bytes_sent: int = 0
    bytes_received: int = 0
    network: str = ""
    heard_at: float | None = None
    _begun: float = 0.0

    def begin(self) -> None:
        """What is done now is counted by the next `lap`."""
        self._begun = time.monotonic()

    def lap(self, activity: str) -> None:
        """The time since `begin`, or the last `lap`, went into this."""
        now = time.monotonic()
        self.seconds[activity] += now - self._begun
        self._begun = now

    @contextmanager
    def timed(self, activity: str) -> Iterator[None]:
        """Count the time that a block takes, whether it succeeds or not."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[activity] += time.monotonic() - begun
