"""What a silo says that it is at of its own code and data; none of its words are kept."""

from typing import Any, NamedTuple

from domo.stages.table import ACTIVITIES, STAGES, told

MOST_S = 1e7
SHOWN_S = 5.0
"""In one stage for so long, and it is shown."""


class Doing(NamedTuple):
    """What a silo is at of its own code and data, as it says.

    Attributes:
        stage: A key of `domo.stages.table`.
        for_s: For how long.
        activity: What its processes are seen to do meanwhile; empty: it is not known.
        over_s: How long it was too long already when this was first heard; 0: it is not.
    """

    stage: str
    for_s: float
    activity: str
    over_s: int

    @property
    def shown(self) -> str | None:
        """With the time that it has taken so far; None: it has only begun."""
        if self.over_s:
            text = told(self.stage, self.activity)
            return f"has not moved on for {self.for_s:.0f} s: {text}"
        return f"{told(self.stage)} for {self.for_s:.0f} s" if self.for_s >= SHOWN_S else None

    @property
    def words(self) -> str:
        """Without a number that goes on."""
        if not self.over_s:
            return told(self.stage)
        return f"has not moved on for over {self.over_s} s: {told(self.stage, self.activity)}"


def heard(message: Any, before: Doing | None) -> Doing | None:
    """A `Doing` message, if it is one of those that are known.

    Args:
        before: What was heard of the silo the last time.
    """
    stage, for_s, activity = message.stage, message.for_s, message.activity
    if stage not in STAGES or not 0 <= for_s <= MOST_S:
        return None
    over_s = 0
    if message.stuck:
        same = before is not None and before.stage == stage and before.for_s <= for_s
        known = before.over_s if same and before is not None else 0
        over_s = known or max(1, int(for_s) // 10 * 10 or int(for_s))
    return Doing(stage, for_s, activity if activity in ACTIVITIES else "", over_s)
