"""The JSON shapes that REST adds to those of `domo_server.status`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from domo_server.status import Event, RoundRecord, RunDetail, SiloStatus, Status


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorDetail(_Frozen):
    """What went wrong, for programs and for people."""

    code: str = Field(examples=["not_found"], description="Stable; programs may depend on it.")
    message: str = Field(description="What was wrong and what to do.")
    status: int = Field(examples=[404], description="The HTTP status again.")
    fields: Mapping[str, Sequence[str]] | None = Field(
        default=None,
        description="With `invalid_config` only: what is wrong, by the field that it is about.",
    )


class ErrorBody(_Frozen):
    """The body of every answer with a status of 400 or above."""

    error: ErrorDetail


class Session(_Frozen):
    """Who is asking."""

    admin: bool = Field(description="Whether this caller may change something.")


class MethodOption(_Frozen):
    """A method or preset that a run can have."""

    name: str
    kind: Literal["paper", "variant", "preset"]
    row: str = Field(description="The method that carries it out; its own name but for a preset.")
    source: str | None = Field(description="Where a preset was published.")
    unused: Sequence[str] = Field(description="Settings that it does not look at.")


class TaskOption(_Frozen):
    """A named task. Others are written module:Class."""

    name: str
    description: str


class RunOptions(_Frozen):
    """What a run can be made of."""

    config_schema: Mapping[str, Any] = Field(description="JSON schema of a run's config.")
    methods: Sequence[MethodOption]
    tasks: Sequence[TaskOption]


class SiloRound(_Frozen):
    """A silo's part in one round that it was sampled for."""

    round_index: int
    state: Literal["CLOSING", "COMMITTED"]
    took_part: bool
    left_out: str | None = Field(description="Why its update is not in this round's model.")
    num_steps: int | None = Field(description="P_k, if it took part.")
    update_norm: float | None
    train_loss: float | None


class SiloDetail(SiloStatus):
    """One silo with what it has done lately."""

    rounds_run_id: str | None = Field(
        description="The run that `rounds` are of: the current one; the newest if none is current."
    )
    rounds: Sequence[SiloRound] = Field(description="Oldest first.")
    events: Sequence[Event] = Field(description="The last 50 that concern it, oldest first.")


class History(_Frozen):
    """Everything that is known of one run except its vectors."""

    format_version: int = 1
    run: RunDetail = Field(description="With its config, its roster and its test metrics.")
    rounds: Sequence[RoundRecord]


class StreamMessage(_Frozen):
    """The data of one `status` event of the stream."""

    status: Status
    run: RunDetail | None = Field(description="The current run; the newest if none is current.")
    events: Sequence[Event] = Field(description="New since the last message, oldest first.")
