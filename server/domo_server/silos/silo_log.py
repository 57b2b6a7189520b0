"""What a silo says of its machine and its log: bounded and made harmless before it is kept.

It stays in memory. A silo may say anything, so numbers that cannot be are left out, and a text is
one printable line.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from domo.api.schema import Resources
from domo.api.silo_log import LogLine
from domo.names import one_line
from domo_server.silos.rates import Bucket
from domo_server.store.store import time_text

MAX_LINES = 200
"""Kept of each silo."""
LINES_PER_REPORT = 50
LINES_PER_S = 20.0
"""On average; as many as are kept may come at once."""
MAX_BYTES = 1 << 60
MAX_AGE_S = 86_400.0
LEVELS = ("INFO", "WARNING", "ERROR")


def resources(message: Any) -> Resources:
    """The numbers of a `Resources` message that can be right."""
    known: dict[str, Any] = {}
    for field, value in message.ListFields():
        good = value <= MAX_BYTES if field.name.endswith("_bytes") else 0 <= value <= 1
        if good:
            known[field.name] = value
    if known.get("gpu_memory_used_bytes", 0) > known.get("gpu_memory_total_bytes", MAX_BYTES):
        del known["gpu_memory_used_bytes"]
    if known.get("memory_available_bytes", 0) > known.get("memory_total_bytes", MAX_BYTES):
        del known["memory_available_bytes"]
    return Resources(**known)


class HeardLog:
    """The last lines of one silo's log.

    Args:
        clock: Monotonic seconds.
        wall: Seconds since 1970.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ):
        self._wall, self._rate = wall, Bucket(MAX_LINES, LINES_PER_S, clock)
        self._lines: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._count, self._newest = 0, 0
        self.shared = False
        self.began_at = time_text(wall())
        """The coordinator's count of lines begins with it."""

    def begin(self) -> None:
        """The silo was started again and counts its lines from 1."""
        self._newest = 0

    def hear(self, shared: bool, lines: Iterable[Any]) -> None:
        """Take new lines (`LogLine` messages); once the silo shares none, what was here goes.

        Lines that are here already are passed over; those above the rate are lost.
        """
        self.shared = shared
        if not shared:
            self._lines.clear()
            return
        for line, _ in zip(lines, range(LINES_PER_REPORT), strict=False):
            if line.number <= self._newest:
                continue
            self._newest = line.number
            if self._rate.take():
                self._keep(line)

    def _keep(self, line: Any) -> None:
        age = line.age_s if math.isfinite(line.age_s) else 0.0
        self._count += 1
        self._lines.append(
            LogLine(
                number=self._count,
                at=time_text(self._wall() - min(max(age, 0.0), MAX_AGE_S)),
                level=line.level if line.level in LEVELS else "INFO",
                text=one_line(line.text),
            )
        )

    def after(self, number: int) -> list[LogLine]:
        """The lines above a number, oldest first."""
        return [line for line in self._lines if line.number > number]
