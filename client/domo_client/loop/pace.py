"""A floor between calls that come to nothing: whatever the coordinator answers, this silo rests.

Most answers take their time by themselves: a round is trained, a call is held. What comes back at
once and changes nothing, again and again, would keep a silo's processor and its link busy.
"""

import time
from collections.abc import Callable, Hashable

BURST = 20
"""Answers in a row that may come at once."""
PER_S = 5.0
"""And a second, from then on."""


class Pace:
    """Counts what comes to nothing, and waits.

    Args:
        wait: Lets so many seconds pass, or fewer where this silo ends.
        clock: Monotonic seconds.
    """

    def __init__(
        self, wait: Callable[[float], object], clock: Callable[[], float] = time.monotonic
    ):
        self._wait, self._clock = wait, clock
        self._left, self._at = float(BURST), clock()
        self._last: Hashable = None

    def rest(self) -> None:
        """An answer came to nothing; the next call is made in good time."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * PER_S, float(BURST)) - 1
        self._at = now
        if self._left < 0:
            self._wait(-self._left / PER_S)

    def note(self, what: Hashable) -> None:
        """What was asked for; the same as last time comes to nothing."""
        if what == self._last:
            self.rest()
        self._last = what
