"""The JSON shapes that REST adds to those of `domo_server.status`."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from domo_server.status import Event, RoundRecord, RunDetail, Status


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorDetail(_Frozen):
    """What went wrong, for programs and for people."""

    code: str = Field(examples=["not_found"], description="Stable; programs may depend on it.")
    message: str = Field(description="What was wrong and what to do.")
    status: int = Field(examples=[404], description="The HTTP status again.")


class ErrorBody(_Frozen):
    """The body of every answer with a status of 400 or above."""

    error: ErrorDetail


class Session(_Frozen):
    """Who is asking."""

    admin: bool = Field(description="Whether this caller may start and stop runs.")


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
