"""The last lines of a silo's log, as REST has them."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class LogLine(_Frozen):
    """One line of a silo's log, by the coordinator's clock."""

    number: int
    """Counts up; ask for those above the last one."""
    at: str
    level: Literal["INFO", "WARNING", "ERROR"]
    text: str


class SiloLog(_Frozen):
    """The last lines of a silo's log."""

    shared: bool = Field(description="Whether its operator lets it send them.")
    lines: Sequence[LogLine] = Field(description="Oldest first, 200 at most.")
    began_at: str | None = Field(
        None, description="Since when lines are counted; with another one numbers begin at 1 again."
    )
