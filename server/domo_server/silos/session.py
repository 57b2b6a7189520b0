"""One connected silo: what it said of itself and what it last reported."""

from dataclasses import dataclass, field
from typing import NamedTuple

from domo.api.schema import Resources, SiloPhase
from domo_server.silos.allowed import Allowed
from domo_server.silos.doing import Doing
from domo_server.silos.silo_log import HeardLog


class Process(NamedTuple):
    """The process that asks for a session.

    Attributes:
        place: Its machine, in words: the name that it gives, and where its calls come from.
        before: The token of the session that this process had before; empty: none.
        attends: Whether it will hold a stream to show that it is there.
        vouched: Whether a certificate is for its silo's name.
    """

    place: str = ""
    before: str = ""
    attends: bool = False
    vouched: bool = False


class NotReady(NamedTuple):
    """What a silo says of a run that it cannot take part in yet.

    Attributes:
        run_id: The run.
        reason: Why.
        again_s: It looks again after at most so long.
    """

    run_id: str
    reason: str
    again_s: float

    def __str__(self) -> str:
        return f"not ready: {self.reason} (it looks again by itself, within {self.again_s:.0f} s)"


@dataclass(slots=True)
class Session:
    """One connected silo, and what it last reported."""

    token: str
    silo_id: str
    instance_id: str
    role: str
    device: str
    software_version: str
    last_seen: float
    interval_s: float
    """Of its heartbeats, as it was last told."""
    phase: SiloPhase = "idle"
    run_id: str | None = None
    round_index: int | None = None
    step: int = 0
    num_steps: int = 0
    loss: float | None = None
    longest_step_s: float | None = None
    """Of its round's local steps after the first, as it says."""
    bytes_sent: int = 0
    bytes_received: int = 0
    counted: bool = False
    """Whether the bytes are its own; until its first report they are of the session before."""
    num_samples: int | None = None
    num_eval_samples: int | None = None
    now: Doing | None = None
    """What it is at of its own code and data; None: nothing, or it does not say."""
    error: str | None = None
    error_code: str = ""
    """What kind of error; empty: none that has a code."""
    error_lasts: bool = False
    declined: dict[str, str] = field(default_factory=dict)
    not_ready: NotReady | None = None
    resources: Resources | None = None
    log: HeardLog = field(default_factory=HeardLog)
    certificate_begin: float = 0.0
    certificate_end: float | None = None
    """Of the certificate that it showed, seconds since 1970; None: it showed none."""
    frames: int = 0
    """Of its transfers that have passed here."""
    attending: int = 0
    """Calls that it holds open to show that it is there."""
    attended: bool = False
    """Whether it has held one."""
    broken_at: float | None = None
    """When the last of these broke, unless something was heard since."""
    left: str | None = None
    """Why it said goodbye."""
    process: Process = field(default_factory=Process)
    since: str = ""
    """When it joined, in words."""
    heartbeats: int = 0
    """How many were answered."""
    awaited: bool = False
    """Whether its next heartbeats are wanted soon: another process wants its name."""
    claims: int = 0
    """Processes that wait for its name."""
    heard_at: float = 0.0
    """When it last made a call; `last_seen` is later where bytes are on their way to it."""
    replaced: tuple[str, float] = ("", 0.0)
    """The token of the session whose place it took, and when that was last heard of."""
    allowed: Allowed = field(default_factory=Allowed)
    """How many calls it may make."""
    holds: dict[str, int] = field(default_factory=dict)
    """How many calls of a kind it has asked to be held; the newest of a kind is."""

    def fails(self, text: str, code: str = "", lasts: bool = False) -> None:
        """Its last error, until it works again; whether it will not pass by itself."""
        self.error, self.error_code, self.error_lasts = text, code, lasts

    @property
    def told(self) -> str:
        """Where its process is and since when, in words."""
        return f"{self.process.place or 'one'}, since {self.since}"

    @property
    def doing(self) -> str:
        """What it did last, in words."""
        if self.now is not None and (self.now.over_s or self.phase == "idle"):
            return self.now.words
        if self.phase == "training" and self.num_steps:
            return f"training, step {self.step} of {self.num_steps}"
        return self.phase

    def enrolls(self, run_id: str) -> None:
        """It has its place in a run."""
        self.run_id, self.phase = run_id, "enrolled"
        self.is_ready()

    def is_ready(self) -> bool:
        """It no longer says that it is not ready; whether it did before."""
        if self.not_ready is None:
            return False
        self.not_ready = self.error = None
        return True

    def declines(self, run_id: str) -> str | None:
        """`declined: REASON`, if it has declined the run."""
        reason = self.declined.get(run_id)
        return None if reason is None else f"declined{': ' if reason else ''}{reason}"
