"""What can happen: the one table of the kinds of events."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "problem"]
Colour = Literal["red", "yellow"]


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event.

    Attributes:
        name: In REST, in the database, in metrics.
        level: Whether something was refused, declined or has failed.
        colour: In which it is shown: red, what stops or spoils something; yellow, what somebody
            should know of.
        webhook: Under which name webhooks may ask for it; None: they are not told.
    """

    name: str
    level: Level = "info"
    colour: Colour | None = None
    webhook: str | None = None


KINDS: dict[str, EventKind] = {}
"""All of them, by name."""


def _kind(
    name: str, level: Level = "info", colour: Colour | None = None, webhook: str | None = None
) -> EventKind:
    KINDS[name] = EventKind(name, level, colour, webhook)
    return KINDS[name]


# silos
JOINED = _kind("joined")
LEFT = _kind("left")
LEFT_OUT = _kind("left-out")
SILO_LOST = _kind("silo-lost", "problem", "red", webhook="silo-lost")
SILO_BACK = _kind("silo-back", webhook="silo-back")
SILO_STALLED = _kind("silo-stalled", "problem", "yellow", webhook="silo-stalled")
SILO_MOVES_AGAIN = _kind("silo-moves-again", webhook="silo-moves-again")
NETWORK = _kind("network", "problem", "yellow")
SILO_FAILED = _kind("silo-failed", "problem", "red", webhook="silo-failed")
SILO_NOTE = _kind("silo-note", "problem", "yellow")
SILO_CONFLICT = _kind("silo-conflict", "problem", "red", webhook="silo-conflict")
DECLINED = _kind("declined", "problem", "yellow")
NO_PLACE = _kind("no-place", "problem", "yellow")
NOT_READY = _kind("not-ready", "problem", "yellow")
ENROLLED = _kind("enrolled")
MEANING = _kind("meaning")
CODE_DIFFERS = _kind("code-differs", "problem", "yellow")
DROPPED = _kind("dropped", colour="yellow")
READMITTED = _kind("readmitted")
REBOUND = _kind("rebound", colour="yellow")
ADMITTED = _kind("admitted")
RENEWED = _kind("renewed")
REVOKED = _kind("revoked", colour="yellow")
REFUSED_CALL = _kind("refused-call", "problem", "yellow")
REFUSED_CODE = _kind("refused-code", "problem", "yellow")

# updates
REFUSED = _kind("refused", "problem", "red")
METRIC = _kind("metric", "problem", "yellow")
UNUSUAL = _kind("unusual", "problem", "yellow")
DUPLICATE = _kind("duplicate")
TORN = _kind("torn")

# runs
QUEUED = _kind("queued")
WAITING = _kind("waiting")
STARTED = _kind("started", webhook="started")
UNTESTED = _kind("untested", "problem", "yellow")
ROUND_COMMITTED = _kind("round-committed")
REOPENED = _kind("reopened")
PAUSED = _kind("paused", colour="yellow", webhook="paused")
RESUMED = _kind("resumed", webhook="resumed")
RUN_STALLED = _kind("run-stalled", "problem", "red", webhook="stalled")
RUN_MOVES_AGAIN = _kind("run-moves-again", webhook="moves-again")
RUN_EDITED = _kind("run-edited")
FALLS_APART = _kind("falls-apart", "problem", "yellow", webhook="falls-apart")
FINISHED = _kind("finished", webhook="finished")
FAILED = _kind("failed", "problem", "red", webhook="failed")
STOPPED = _kind("stopped", webhook="stopped")
ENDS = {"FINISHED": FINISHED, "FAILED": FAILED, "STOPPED": STOPPED}
"""By the state that a run ends in."""

# the coordinator
LOGGED_IN = _kind("logged-in")
LOGGED_OUT = _kind("logged-out")
REFUSED_LOGIN = _kind("refused-login", "problem", "yellow")
OF_PEOPLE = frozenset(kind.name for kind in (LOGGED_IN, LOGGED_OUT, REFUSED_LOGIN))
"""Names and addresses of people: for auditors and admins to see."""
DISK = _kind("disk", "problem", "red", webhook="disk")
DESCRIPTORS = _kind("descriptors", "problem", "red")
CERTIFICATE = _kind("certificate")
NAMELESS = _kind("nameless", "problem", "yellow")
REFUSED_HANDSHAKE = _kind("refused-handshake", "problem", "yellow")
TRACKER = _kind("tracker")
WEBHOOK = _kind("webhook")
