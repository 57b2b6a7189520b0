"""The two seams that REST stands on, and what the outside may see of the coordinator.

The dashboard knows these and nothing else of the coordinator: no torch, no grpc. The objects
themselves are `domo.api.schema`, which whoever reads them has too.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from domo.api.edit import RunEdit
from domo.api.measured import ModelTables, ModelTest
from domo.api.schema import (
    NUM_EVENTS,
    Event,
    RoundRecord,
    RunDetail,
    RunSummary,
    SiloRound,
    SiloStatus,
    Status,
)
from domo.api.silo_log import SiloLog
from domo.model.card import ModelCard
from domo_server.people.person import THE_ADMIN

Which = Literal["newest", "best"]
"""A model of a run."""


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

    async def shown_run(self) -> RunDetail | None:
        """The run under way, or the newest; None: there is none at all."""
        ...

    async def rounds(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[RoundRecord] | None:
        """Its rounds above an index, oldest first; at most so many."""
        ...

    async def silo_rounds(self, run_id: str, silo_id: str, after: int = -1) -> Sequence[SiloRound]:
        """A silo's part in the rounds above an index that were its own, oldest first."""
        ...

    async def silos(self) -> Sequence[SiloStatus]:
        """All silos, by id."""
        ...

    async def silo_log(self, silo_id: str) -> SiloLog | None:
        """What it has shared of its log; nothing, of one not seen since the start."""
        ...

    async def events(
        self,
        after: int = 0,
        limit: int = NUM_EVENTS,
        run_id: str | None = None,
        silo_id: str | None = None,
        kinds: Collection[str] = (),
        level: str | None = None,
        but: Collection[str] = (),
    ) -> Sequence[Event]:
        """The newest events above `after` that concern all that is given, oldest first.

        None of the kinds in `but` is among them.
        """
        ...

    async def tests(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[ModelTest] | None:
        """Tests of its models above an index, with each silo's own numbers, oldest first."""
        ...

    async def tables(self, run_id: str, which: Which = "newest") -> ModelTables | None:
        """Tables of the newest model that was tested, or of the best; None if there is none."""
        ...

    async def model_file(self, run_id: str, which: Which = "newest") -> Path | None:
        """The newest committed x_r as a safetensors file, or the best; None if there is none."""
        ...

    async def card(self, run_id: str, which: Which = "newest") -> ModelCard | None:
        """What that model says of itself; None if there is none yet."""
        ...

    def changes(self) -> AsyncIterator[None]:
        """Yields at once, and then after every change (several changes may be one)."""
        ...


class Control(Protocol):
    """What REST may change, `by` whom. Errors are `domo.errors.DomoError`, for the caller."""

    async def submit(self, config: Mapping[str, Any], by: str = THE_ADMIN) -> RunSummary:
        """Queue a run.

        Raises:
            ConfigError: Names the field that is wrong.
        """
        ...

    async def edit(self, run_id: str, edit: RunEdit, by: str = THE_ADMIN) -> RunSummary:
        """Change what is said of a run that there is: tags, notes, whether it is archived."""
        ...

    async def pause(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Hold a run: no round closes and none begins until `resume`; silos finish their steps.

        Raises:
            ConfigError: No such run, it has ended, is not in its rounds, or closes its last one.
        """
        ...

    async def resume(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Go on with a paused run.

        Raises:
            ConfigError: No such run, or it is not paused.
        """
        ...

    async def drop(self, silo_id: str, reason: str = "", by: str = THE_ADMIN) -> SiloStatus:
        """Leave a silo out, from the round that is open on, until `undrop`.

        Raises:
            ConfigError: No such silo, or it is out already.
        """
        ...

    async def undrop(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Take a dropped silo back, from the next round on.

        Raises:
            ConfigError: No such silo, or it is not left out.
        """
        ...

    async def rebind(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Let the next process that joins under a silo's name have it: its state folder was lost.

        Raises:
            ConfigError: No such silo, or it is connected.
        """
        ...

    async def revoke(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Let a silo in no more, with any key, and end its calls.

        Raises:
            ConfigError: Nobody has let it in, or silos show no certificates here.
        """
        ...

    async def stop(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Stop a run that has not ended.

        Raises:
            ConfigError: No such run, or it has ended.
        """
        ...
