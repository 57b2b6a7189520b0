"""What a coordinator tells of itself: frozen objects, the JSON of REST.

The coordinator makes them and `domo.api.client` reads them: one definition for both ends. A field
that this version does not know is left out in silence, so a newer coordinator can be read too.
Times are ISO 8601 in UTC; durations are seconds of the coordinator's monotonic clock.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from domo.api.held_up import HeldUp
from domo.api.measured import MetricPoint, ModelTest
from domo.api.round_times import ClosedBy, RoundTimes, SiloTimes
from domo.metrics.names import Better

RunState = Literal[
    "QUEUED", "WAITING", "OPEN", "CLOSING", "EVALUATING", "PAUSED", "FINISHED", "FAILED", "STOPPED"
]
"""QUEUED until its turn; then the states of DESIGN section 6."""
ENDED: tuple[RunState, ...] = ("FINISHED", "FAILED", "STOPPED")

NUM_EVENTS = 200
"""How many events are told where nobody says how many."""
MAX_EVENTS = 1000
"""And at most, in one answer."""

SiloPhase = Literal[
    "idle", "enrolled", "waiting", "downloading", "evaluating", "training", "uploading", "failed",
    "offline",
]  # fmt: skip


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Resources(_Frozen):
    """Memory, GPU and disk of a silo, as it says; None: not known there."""

    gpu_memory_used_bytes: int | None = None
    """Of the device that it trains on, by all processes."""
    gpu_memory_total_bytes: int | None = None
    gpu_busy: float | None = None
    """Share of the last moments in which the GPU worked, 0 to 1."""
    process_memory_bytes: int | None = None
    """Resident."""
    memory_available_bytes: int | None = None
    """Of the machine, or of its container."""
    memory_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    """Where its state folder is."""


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
    """Seconds since it was last heard of, also by this coordinator before a restart."""
    doing: str | None = None
    """What it is at of its own code and data, once that takes seconds, and whether it moves on."""
    error: str | None = None
    """Its last failure, until it works again."""
    error_code: str | None = None
    """What kind of failure it is; None: none that has a code."""
    error_lasts: bool = False
    """Whether it came again and again in one round, and will not pass by itself."""
    dropped: str | None = None
    """Why an admin has left it out; None: it takes part."""
    away: str | None = None
    """Why it is offline, as far as that is known."""
    phase_s: float | None = None
    """Seconds in this phase, since somebody looked; offline: since it was last heard of."""
    sent_per_s: float | None = None
    """Bytes a second over the last 10 s."""
    received_per_s: float | None = None
    resources: Resources | None = None
    certificate_end: str | None = None
    """When the certificate that it joined with ends; None: it showed none, or has not joined."""


class Participant(_Frozen):
    """One silo's part in one round."""

    silo_id: str
    weight: float
    """omega_k, raw."""
    num_steps: int
    """P_k."""
    update_bytes: int | None = None
    """Of its update on the wire."""
    update_norm: float | None = None
    train_loss: float | None = None
    cosine: float | None = None
    """Of its update to the server momentum before the round; None where either is 0."""
    metrics: Mapping[str, float] = {}
    """What its loop logged, `loss` among it; of older runs nothing."""


class RoundRecord(_Frozen):
    """One round, committed or being closed."""

    round_index: int
    state: Literal["CLOSING", "COMMITTED"]
    opened_at: str | None = None
    closed_at: str | None = None
    duration_s: float | None = None
    """From its opening to the next model, without pauses."""
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
    closed_by: ClosedBy | None = None
    """What closed it; None: not known."""
    closed_by_silo: str | None = None
    """The silo whose update came last, or that an admin left out."""
    times: RoundTimes | None = None
    """Where its time went; None until the commit, and where nobody measured it."""
    train_metrics: Mapping[str, float] = {}
    """Weighted means of what all participants have logged."""


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
    latest: Mapping[str, float] = {}
    """The latest test numbers, all of them."""
    primary_metric: str | None = None
    """What its models are judged by."""
    primary_better: Better | None = None
    """Which way; None: nobody knows."""
    primary_value: float | None = None
    """The latest."""
    best_index: int | None = None
    """i of its best model x_i so far; None: none was judged."""
    best_value: float | None = None
    """Of the primary metric, when that model was judged."""
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    waiting_s: float | None = None
    """Seconds from its start until its silos had enrolled; None: not all have."""
    training_s: float | None = None
    """Seconds that its rounds took so far: without that wait and pauses; None before the first."""
    remaining_s: float | None = None
    """Estimate: the rounds to come, by the median of the last ones without what was stalled."""
    complete: bool | None = None
    """Whether every sampled silo contributed to every committed round."""
    tags: Sequence[str] = ()
    notes: str = ""
    """What people say of it; at first as in its config."""
    archived: bool = False
    """Whether lists leave it out unless they are asked for it."""
    stalled: str | None = None
    """Why it makes no progress and what to do, in words; None: nothing is known to hold it up."""
    stalled_s: float | None = None
    """Seconds since that was noticed."""
    held_up_by: Sequence[HeldUp] = ()
    """Who it is held up by, if it is silos; equal reasons are one."""


class RunDetail(RunSummary):
    """One run with everything but its rounds."""

    config: Mapping[str, Any]
    roster: Sequence[str]
    num_params: int | None = None
    checkpoint_digest: str | None = None
    """xxh3-128 over the last committed checkpoint: x_r, m_r and all else that is in it."""
    best_digest: str | None = None
    """The same of the checkpoint of its best model, which is kept."""
    metrics: Sequence[MetricPoint] = ()
    meaning: Sequence[str] = ()
    """What the data mean, as the run and the first silos that said so have it: classes, inputs,
    labels, version; silos are compared with that."""
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
    level: Literal["info", "problem"] = "info"
    """`problem`: something was refused, declined or has failed."""
    colour: Literal["red", "yellow"] | None = None
    """In which it is shown; None: none."""


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
    certificate_end: str | None = None
    """When the coordinator's own certificate ends; None: no TLS."""


class SiloRound(_Frozen):
    """A silo's part in one round that it was sampled for."""

    round_index: int
    state: Literal["CLOSING", "COMMITTED"]
    took_part: bool
    left_out: str | None = Field(description="Why its update is not in this round's model.")
    num_steps: int | None = Field(description="P_k, if it took part.")
    update_norm: float | None
    train_loss: float | None
    times: SiloTimes | None = Field(None, description="Where its time went in this round.")
    span_s: float | None = Field(None, description="The round's whole time, pauses included.")
    metrics: Mapping[str, float] = {}
    """What its loop logged."""


class SiloDetail(SiloStatus):
    """One silo with what it has done lately."""

    rounds_run_id: str | None = Field(
        description="The run that `rounds` are of: the current one; the newest if none is current."
    )
    rounds: Sequence[SiloRound] = Field(
        description="Its part in the last 300 rounds of the run, oldest first."
    )
    events: Sequence[Event] = Field(description="The last 50 that concern it, oldest first.")
    advice: str | None = Field(None, description="What to do about its `error`.")


class History(_Frozen):
    """Everything that is known of one run except its vectors."""

    format_version: int = 1
    run: RunDetail = Field(description="With its config, its roster and its test metrics.")
    rounds: Sequence[RoundRecord]
    tests: Sequence[ModelTest] = ()
    """Of each model that was tested, with each silo's own numbers."""


class StreamMessage(_Frozen):
    """The data of one `status` event of the stream."""

    status: Status
    run: RunDetail | None = Field(
        description="The current run; the newest if none is current. Of its metrics those that are "
        "not as in the last message: they replace those from their first model_index on."
    )
    events: Sequence[Event] = Field(description="New since the last message, oldest first.")
