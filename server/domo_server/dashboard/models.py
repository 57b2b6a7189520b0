"""The JSON shapes that REST adds to those of `domo.api.schema`: errors, and what a run can be."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from domo.methods import METHODS, PAPER_METHODS, PRESETS, method_row, unused_constants
from domo.run_config import RunConfig
from domo.tasks import TASKS
from domo_server.people.person import Role


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ErrorDetail(_Frozen):
    """What went wrong, for programs and for people."""

    code: str = Field(examples=["not_found"], description="Stable; programs may depend on it.")
    message: str = Field(description="What was wrong and what to do.")
    status: int = Field(examples=[404], description="The HTTP status again.")
    cause: str | None = Field(
        default=None,
        description="The code of the coordinator's own error, as its page of error texts lists it.",
    )
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
    role: Role | None = Field(default=None, description="What it may do; null: not even read.")
    name: str | None = Field(default=None, description="Null: no credential was shown.")


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


@cache
def run_options() -> RunOptions:
    """Schema, methods and tasks, from the code that carries runs out."""
    return RunOptions(
        config_schema=RunConfig.model_json_schema(),
        methods=[_method(name) for name in (*METHODS, *PRESETS)],
        tasks=[TaskOption(name=name, description=row.description) for name, row in TASKS.items()],
    )


def _method(name: str) -> MethodOption:
    row, preset = method_row(name), PRESETS.get(name)
    return MethodOption(
        name=name,
        kind="preset" if preset else "paper" if name in PAPER_METHODS else "variant",
        row=row.name,
        source=preset.source if preset else None,
        unused=unused_constants(name),
    )
