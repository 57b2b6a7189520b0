"""What fails at this silo, and how often the same: what will not pass by itself is said."""

import re

from domo.errors import code_of
from domo.training.task_errors import may_pass, told

FIRST_BACKOFF_S, MAX_BACKOFF_S = 1.0, 60.0
"""After a round that failed here; twice as long each time."""
SAME_FAULTS = 3
"""The same in one round so often running lasts: rounds are deterministic."""
CHANGES = re.compile(r"0x[0-9a-fA-F]+|(?<!\d)(?<!line )\d+")
"""What may differ in the text of one and the same fault: addresses, numbers but of lines."""


class Faults:
    """Those of one run, running; a round that succeeds ends them.

    Attributes:
        times: How often the last one came running in its round.
        lasts: Whether it will not pass by itself.
        pause_s: How long is waited after it.
    """

    def __init__(self) -> None:
        self._last: object = None
        self.times, self.lasts, self._next_s = 0, False, FIRST_BACKOFF_S
        self.pause_s = FIRST_BACKOFF_S

    def note(self, round_index: int, error: BaseException) -> None:
        """A round has failed."""
        fault = round_index, code_of(error), CHANGES.sub("#", told(error))
        self.times = self.times + 1 if fault == self._last else 1
        self._last = fault
        self.lasts = self.times >= SAME_FAULTS and not may_pass(error)
        self.pause_s, self._next_s = self._next_s, min(2 * self._next_s, MAX_BACKOFF_S)
