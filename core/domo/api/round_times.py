"""Where the time of a round goes, as a coordinator tells it.

All of it is measured by the coordinator's monotonic clock, from what it sees itself: a silo's own
clock is not in it. What it has not seen is None, as all that was before a restart in the round.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

SiloWork = Literal["fetch", "test", "train", "upload"]
"""What a silo does in a round, in this order; the rest of the round it waits."""
ClosedBy = Literal["silo", "grace", "deadline", "lost", "admin"]
"""silo: the last update came in. grace, deadline: it ran out. lost: nothing would have come of who
was missing. admin: who was waited for was left out, or the run was resumed with all in."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SiloTimes(_Frozen):
    """Where the time of one silo went in one round: seconds."""

    fetch_at_s: float | None = None
    """After the round's opening it began to fetch; before that it waited, or had not come yet."""
    fetch_s: float | None = None
    """Until the last frame of its model was sent, from its first try on."""
    test_s: float | None = None
    """Until its numbers came; None where it had no test, or one that lies within its training."""
    train_s: float | None = None
    """Until its upload began, from the end of fetching or of the test on."""
    upload_s: float | None = None
    """Until its update was accepted, from its first try on."""
    wait_s: float | None = None
    """The rest of the round: before it began to fetch, and after its work was done."""
    tries: Mapping[SiloWork, int] = {}
    """Of what took more than one try."""
    unfinished: SiloWork | None = None
    """What it was at when it failed, or when the round was closed without it."""


class RoundTimes(_Frozen):
    """Where the time of one round went: seconds after its opening, or of what is named."""

    span_s: float
    """From its opening to the next model, pauses included."""
    collect_s: float | None = None
    """From its opening until the set of updates was fixed."""
    fold_s: float | None = None
    """Summing the updates, at its end."""
    commit_s: float | None = None
    """Until the round before was durable, which is written while this one is under way."""
    paused_s: float = 0.0
    """That an admin held it."""
    pauses: Sequence[tuple[float, float]] = ()
    """From when to when; the first eight."""
    stalled_s: float = 0.0
    """In which the run was known to make no progress."""
    interrupted: bool = False
    """The coordinator was started anew within it: all times count from then on."""
    silos: Mapping[str, SiloTimes] = {}
    """By silo: those of the round, and those that only tested its model."""
