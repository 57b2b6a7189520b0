"""What the outside may see: frozen status objects, and the two seams that REST stands on.

The dashboard and the command line know these and nothing else of the coordinator: no torch, no
grpc. Times are ISO 8601 in UTC; durations are seconds of this machine's monotonic clock.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

RunState = Literal[
    "QUEUED", "WAITING", "OPEN", "CLOSING", "EVALUATING", "PAUSED", "FINISHED", "FAILED", "STOPPED"
]
"""QUEUED until its turn; then the states of DESIGN section 6."""
ENDED: tuple[RunState, ...] = ("FINISHED", "FAILED", "STOPPED")

SiloPhase = Literal[
    "idle", "enrolled", "waiting", "downloading", "evaluating", "training", "uploading", "failed",
    "offline",
]  # fmt: skip


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class SiloStatus(_Frozen):
    """One silo that has ever joined."""

    silo_id: str = Field(examples=["site-a"])
    role: Literal["trainer", "evaluator"] = "trainer"
    phase: SiloPhase = "idle"
    run_id: str | None = None
    round_index: int | None = None
    step: int = 0
    num_steps: int = 0
    loss: float | None = None
    bytes_sent: int = 0
    """By the silo, model payload as it was on the wire, this session."""
    bytes_received: int = 0
    num_samples: int | None = None
    num_eval_samples: int | None = None
    device: str = ""
    software_version: str = ""
    last_seen_s: float | None = None
    """Seconds since it was last heard of; None if not since this coordinator started."""
    error: str | None = None
    """Its last failure, until it works again."""
    dropped: str | None = None
    """Why an admin has left it out; None: it takes part."""
    phase_s: float | None = None
    """Seconds in this phase, since somebody looked; offline: since it was last heard of."""
    sent_per_s: float | None = None
    """Bytes a second over the last 10 s."""
    received_per_s: float | None = None


class MetricPoint(_Frozen):
    """The server model x_{model_index} tested over the federation: exact means."""

    model_index: int
    metrics: Mapping[str, float] = Field(examples=[{"accuracy": 0.91, "loss": 0.3}])
    num_silos: int
    num_samples: float


class Participant(_Frozen):
    """One silo's part in one round."""

    silo_id: str
    weight: float
    """omega_k, raw."""
    num_steps: int
    """P_k."""
    update_norm: float | None = None
    train_loss: float | None = None
    cosine: float | None = None
    """Of its update to the server momentum before the round; None where either is 0."""


class RoundRecord(_Frozen):
    """One round, committed or being closed."""

    round_index: int
    state: Literal["CLOSING", "COMMITTED"]
    opened_at: str | None = None
    closed_at: str | None = None
    duration_s: float | None = None
    local_lr: float
    reference_steps: float
    """P_ref."""
    participants: Sequence[Participant]
    left_out: Mapping[str, str] = {}
    """Sampled silos without an update in this round, and why."""
    train_loss: float | None = None
    """Weighted mean over the participants."""
    drift: float | None = None
    """Spread of the updates around their mean, relative to it; None until the commit."""


class RunSummary(_Frozen):
    """One run, short."""

    run_id: str = Field(examples=["2-domo-digits"])
    name: str
    method: str = Field(examples=["DOMO"])
    task: str = Field(examples=["digits"])
    state: RunState
    num_rounds: int
    rounds_done: int
    """Committed rounds: the model is x_{rounds_done}."""
    detail: str = ""
    """What it is doing or waiting for, or why it ended, in words."""
    accuracy: float | None = None
    loss: float | None = None
    """Latest test numbers."""
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    remaining_s: float | None = None
    """Estimate, from the rounds so far."""
    complete: bool | None = None
    """Whether every sampled silo contributed to every committed round."""


class RunDetail(RunSummary):
    """One run with everything but its rounds."""

    config: Mapping[str, Any]
    roster: Sequence[str]
    num_params: int | None = None
    checkpoint_digest: str | None = None
    """xxh3-128 over the last committed checkpoint: x_r, m_r and all else that is in it."""
    metrics: Sequence[MetricPoint] = ()
    waiting_for: Sequence[str] = ()
    """Silos whose update (or enrolment) the run waits for."""


class Event(_Frozen):
    """Something that happened, for people."""

    event_id: int
    at: str
    kind: str = Field(examples=["round-committed"])
    text: str
    run_id: str | None = None
    silo_id: str | None = None


class Status(_Frozen):
    """The coordinator at a glance."""

    version: str
    uptime_s: float
    grpc_address: str
    tls: bool
    current_run: RunSummary | None
    num_queued: int
    num_silos_online: int
    silos: Sequence[SiloStatus]


class ReadModel(Protocol):
    """What REST reads. Every call is cheap and safe at any time; unknown ids are None."""

    async def status(self) -> Status:
        """Now."""
        ...

    async def runs(self) -> Sequence[RunSummary]:
        """All runs, newest first."""
        ...

    async def run(self, run_id: str) -> RunDetail | None:
        """One run."""
        ...

    async def rounds(self, run_id: str) -> Sequence[RoundRecord] | None:
        """Its rounds, oldest first."""
        ...

    async def silos(self) -> Sequence[SiloStatus]:
        """All silos, by id."""
        ...

    async def events(self, after: int = 0, limit: int = 200) -> Sequence[Event]:
        """Events with an id above `after`, oldest first."""
        ...

    async def model_file(self, run_id: str) -> Path | None:
        """The newest committed x_r as a safetensors file; None if there is none yet."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yields at once, and then after every change (several changes may be one)."""
        ...


class Control(Protocol):
    """What REST may change. Errors are `domo.errors.DomoError` with a text for the caller."""

    async def submit(self, config: Mapping[str, Any]) -> RunSummary:
        """Queue a run.

        Raises:
            ConfigError: Names the field that is wrong.
        """
        ...

    async def pause(self, run_id: str) -> RunSummary:
        """Hold a run: no round closes and none begins until `resume`; silos finish their steps.

        Raises:
            ConfigError: No such run, it has ended, or it is not in its rounds.
        """
        ...

    async def resume(self, run_id: str) -> RunSummary:
        """Go on with a paused run.

        Raises:
            ConfigError: No such run, or it is not paused.
        """
        ...

    async def drop(self, silo_id: str, reason: str = "") -> SiloStatus:
        """Leave a silo out, from the round that is open on, until it is re-admitted.

        Raises:
            ConfigError: No such silo, or it is out already.
        """
        ...

    async def readmit(self, silo_id: str) -> SiloStatus:
        """Take a dropped silo back; or let a silo join again with a new state folder.

        A dropped silo takes part from the next round on.

        Raises:
            ConfigError: No such silo.
        """
        ...

    async def stop(self, run_id: str) -> RunSummary:
        """Stop a run that has not ended.

        Raises:
            ConfigError: No such run, or it has ended.
        """
        ...
