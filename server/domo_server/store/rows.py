"""What the store takes and gives out: its rows as values. Only the store knows columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from pydantic import ValidationError

from domo.api.round_times import ClosedBy, RoundTimes
from domo.api.schema import RunState
from domo.meaning.value import NOTHING, Meaning
from domo.run_config import RunConfig


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, as far as it is recorded.

    Attributes:
        run_id: `NUMBER-NAME`.
        number: Place in the queue, from 1 on.
        name: Unique.
        config: As it was submitted; an older version's may have fewer fields, or others.
        config_digest: Hex, of the configuration.
        state: QUEUED, or the phase that it was last recorded in.
        detail: What it does or waits for, or why it ended, in words.
        created_at: When it was queued.
        started_at: When it was first loaded.
        finished_at: When it ended.
        began_at: When its silos were fixed and its first round was opened.
        roster: Its silos, once they are fixed.
        rounds_done: r; the committed model is x_r.
        checkpoint: Name of the committed checkpoint's file; None: that of x_0.
        checkpoint_digest: Hex, of that checkpoint.
        inference_scale: alpha*h*P_ref of the round that made x_r.
        num_params: Of its model, once it was loaded.
        stop_text: Why it is to stop, in words.
        tags: As the admin has given it.
        notes: The same; None: those of its configuration.
        archived: Whether lists leave it out.
        best_index: i of the best model that was judged; best_metric: by what; best_value: of it.
        best_checkpoint: Name of its file, beside the checkpoints; best_digest: hex, of it.
    """

    run_id: str
    number: int
    name: str
    config: Mapping[str, Any]
    config_digest: str
    state: RunState
    detail: str
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    began_at: str | None = None
    roster: Sequence[str] | None = None
    rounds_done: int = 0
    checkpoint: str | None = None
    checkpoint_digest: str | None = None
    inference_scale: float | None = None
    num_params: int | None = None
    stop_text: str | None = None
    tags: Sequence[str] | None = None
    notes: str | None = None
    archived: bool = False
    best_index: int | None = None
    best_metric: str | None = None
    best_value: float | None = None
    best_checkpoint: str | None = None
    best_digest: str | None = None

    def run_config(self) -> RunConfig:
        """The configuration, as it was taken."""
        return RunConfig.stored(self.config)


class RunChanges(TypedDict, total=False):
    """What may change of a run (fields as in `RunRow`)."""

    state: RunState
    detail: str
    started_at: str
    finished_at: str
    began_at: str
    roster: Sequence[str]
    rounds_done: int
    checkpoint: str
    checkpoint_digest: str
    inference_scale: float | None
    num_params: int
    stop_text: str | None
    tags: Sequence[str]
    notes: str
    archived: bool
    best_index: int | None
    best_metric: str | None
    best_value: float | None
    best_checkpoint: str | None
    best_digest: str | None


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A silo's place in a run, and what its data mean, which an older version did not record."""

    role: str
    num_samples: int
    num_eval_samples: int
    meaning: Meaning = NOTHING


@dataclass(frozen=True, slots=True)
class AcceptedUpdate:
    """A silo's update that counts in its round; the bytes are in the spool.

    Attributes:
        silo_id: Whose.
        digest: xxh3-128 of all its bytes, hex.
        vectors: Id and bytes of each vector, in order.
        num_steps: P_k.
        update_norm: |d_k|.
        metrics: Means over the local steps, such as `loss`.
    """

    silo_id: str
    digest: str
    vectors: Sequence[tuple[int, int]]
    num_steps: int
    update_norm: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Participant:
    """A silo whose update a round is closed with.

    Attributes:
        silo_id: Whose.
        weight: omega_k, raw.
        num_steps: P_k.
        update_norm: |d_k|.
        train_loss: Mean over its local steps, if it said so.
        digest: Of the update, as in `AcceptedUpdate`.
        vectors: The same.
        cosine: Of the update to the server momentum; None until the commit, or where either is 0.
        metrics: What its loop logged; an older version recorded the loss alone.
    """

    silo_id: str
    weight: float
    num_steps: int
    update_norm: float
    train_loss: float | None
    digest: str
    vectors: Sequence[tuple[int, int]]
    cosine: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """The set that a round is closed with, and what followed from it.

    Attributes:
        round_index: r.
        participants: In roster order.
        left_out: Silos of the round without an update, and why.
        local_lr: Learning rate of the round.
        reference_steps: P_ref.
        train_loss: Weighted mean over the participants; None: one of them has none.
        state: COMMITTED once x_{r+1} is durable.
        opened_at: When it was opened.
        closed_at: When x_{r+1} was made; None until the commit, as all that follows.
        duration_s: Between the two, without pauses; what a coordinator saw of it that was started
            anew meanwhile.
        drift: Spread of the updates around their mean, relative to it.
        model_digest: Of x_{r+1}; an older version recorded none.
        closed_by: What closed it; None: not known.
        closed_by_silo: Whose update, or leaving, did.
        times: Where its time went; an older version measured none.
    """

    round_index: int
    participants: Sequence[Participant]
    left_out: Mapping[str, str]
    local_lr: float
    reference_steps: float
    train_loss: float | None = None
    state: Literal["CLOSING", "COMMITTED"] = "CLOSING"
    opened_at: str | None = None
    closed_at: str | None = None
    duration_s: float | None = None
    drift: float | None = None
    model_digest: str | None = None
    closed_by: ClosedBy | None = None
    closed_by_silo: str | None = None
    times: RoundTimes | None = None


@dataclass(frozen=True, slots=True)
class SiloRow:
    """A silo that has ever joined.

    Attributes:
        silo_id: Its name.
        instance_id: Of the state folder that it last joined with.
        role: `trainer` or `evaluator`.
        device: What it trains on.
        software_version: Of its domo.
        first_seen: When it first joined.
        last_seen: When it was last heard of, to a minute or so.
        readmitted: Whether its name is free for another state folder, once.
        dropped: Why an admin has left it out; None: it takes part.
    """

    silo_id: str
    instance_id: str
    role: Literal["trainer", "evaluator"]
    device: str
    software_version: str
    first_seen: str
    last_seen: str
    readmitted: bool
    dropped: str | None


class SiloChanges(TypedDict, total=False):
    """What an admin may change of a silo (fields as in `SiloRow`)."""

    readmitted: bool
    dropped: str | None


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened."""

    event_id: int
    at: str
    kind: str
    text: str
    run_id: str | None
    silo_id: str | None


def participant(stored: Mapping[str, Any]) -> Participant:
    """From its JSON; what an older version did not record is None."""
    return Participant(
        silo_id=stored["silo_id"],
        weight=stored["weight"],
        num_steps=stored["num_steps"],
        update_norm=stored["update_norm"],
        train_loss=stored.get("train_loss"),
        digest=stored["digest"],
        vectors=_vectors(stored["vectors"]),
        cosine=stored.get("cosine"),
        metrics=stored.get("metrics") or {},
    )


def participant_json(part: Participant) -> dict[str, Any]:
    """The JSON of a participant; its cosine is added with the commit."""
    logged = {"metrics": dict(part.metrics)} if part.metrics else {}
    return {
        "silo_id": part.silo_id,
        "weight": part.weight,
        "num_steps": part.num_steps,
        "update_norm": part.update_norm,
        "train_loss": part.train_loss,
        "digest": part.digest,
        "vectors": part.vectors,
        **logged,
    }


def round_record(
    run_id: str, participants: Sequence[Mapping[str, Any]], times: Any, **row: Any
) -> RoundRecord:
    """From the columns of a round."""
    parts = [participant(p) for p in participants]
    return RoundRecord(participants=parts, times=times_of(times), **row)


def times_of(stored: Any) -> RoundTimes | None:
    """From its JSON; None too where another version has stored what this one cannot read."""
    try:
        return None if stored is None else RoundTimes.model_validate(stored)
    except ValidationError:
        return None


def accepted_update(
    run_id: str, round_index: int, vectors: Sequence[Sequence[int]], accepted_at: str, **row: Any
) -> AcceptedUpdate:
    """From the columns of an update."""
    return AcceptedUpdate(vectors=_vectors(vectors), **row)


def _vectors(stored: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(vector_id, num_bytes) for vector_id, num_bytes in stored]
