"""The coordinator as the dashboard sees it: rows and live state to frozen status objects."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import domo
from domo.api.edit import RunEdit
from domo.api.measured import ModelTables, ModelTest
from domo.api.schema import (
    NUM_EVENTS,
    Event,
    RoundRecord,
    RunDetail,
    RunState,
    RunSummary,
    SiloRound,
    SiloStatus,
    Status,
)
from domo.api.silo_log import SiloLog
from domo.model.card import ModelCard
from domo.run_config import RunConfig
from domo_server.coordinator.coordinator import Coordinator
from domo_server.events import kinds
from domo_server.events.notifier import happened
from domo_server.monitor.monitor import Watch
from domo_server.people.person import THE_ADMIN
from domo_server.results.numbers import latest_metrics, model_tables
from domo_server.runs.run import Run
from domo_server.store.rows import RunChanges, RunRow
from domo_server.store.store import time_text
from domo_server.view import exports
from domo_server.view.durations import durations
from domo_server.view.events import events_of
from domo_server.view.interfaces import Which
from domo_server.view.meaning import meaning_of
from domo_server.view.rows import summary_of
from domo_server.view.run_stats import RunStats, StatsOfRuns
from domo_server.view.silos import SilosView
from domo_server.view.stalls import stall_fields

T = TypeVar("T")
TRIES = 5
"""To read rows between two phases of a run."""


class CoordinatorView:
    """Implements `ReadModel` and `Control` of `domo_server.view.interfaces` over a coordinator.

    Args:
        coordinator: Whose state is shown.
        watch: Knows whether its run gets on.
        grpc_address: host:port that silos are told.
        tls: Whether it speaks TLS.
    """

    def __init__(self, coordinator: Coordinator, watch: Watch, grpc_address: str, tls: bool):
        self._c, self._watch, self._address, self._tls = coordinator, watch, grpc_address, tls
        self._store, self._silos = coordinator.store, SilosView(coordinator)
        self._stats = StatsOfRuns(self._store)
        self._configs: dict[str, RunConfig] = {}
        self._exporting = asyncio.Lock()

    async def status(self) -> Status:
        """Now."""
        silos, counted = await self.silos(), await self.num_runs()
        current, own_end = self._c.queue.current, self._c.expiry.own_end
        return Status(
            version=domo.__version__,
            uptime_s=round(time.monotonic() - self._c.started_at, 3),
            grpc_address=self._address,
            tls=self._tls,
            current_run=None if current is None else await self._after(current.run_id),
            num_queued=counted.get("QUEUED", 0),
            num_silos_online=sum(s.phase != "offline" for s in silos),
            silos=silos,
            certificate_end=time_text(own_end) if own_end else None,
        )

    async def num_runs(self) -> Mapping[RunState, int]:
        """How many runs are in which state; the current one counts as loaded."""
        counted = await asyncio.to_thread(self._store.count_runs)
        current = self._c.queue.current
        if current is not None and (row := await self._row(current.run_id)) is not None:
            now = (await self._summary(row)).state
            counted[row.state] = counted.get(row.state, 1) - 1
            counted[now] = counted.get(now, 0) + 1
        return counted

    async def shown_run(self) -> RunDetail | None:
        """The run under way, or the newest."""
        newest = await asyncio.to_thread(self._store.newest_run)
        shown = self._c.queue.current or newest
        return None if shown is None else await self.run(shown.run_id)

    async def runs(self) -> Sequence[RunSummary]:
        """All runs, newest first."""
        rows = await self._settled(self._store.all_runs)
        return [await self._summary(row) for row in rows]

    async def run(self, run_id: str) -> RunDetail | None:
        """One run."""
        row = await self._row(run_id)
        if row is None:
            return None
        summary, live = await self._summary(row), self._live(row)
        return RunDetail(
            **summary.model_dump(),
            config=row.config,
            roster=row.roster or [],
            num_params=row.num_params,
            checkpoint_digest=row.checkpoint_digest,
            best_digest=row.best_digest,
            metrics=(await self._stats_of(row, live)).points,
            meaning=await meaning_of(row, live, self._store),
            waiting_for=live.participants.missing if live is not None else [],
        )

    async def rounds(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[RoundRecord] | None:
        """Its rounds above an index, oldest first; at most so many."""
        return await asyncio.to_thread(exports.rounds_of, self._store, run_id, after, limit)

    async def silo_rounds(self, run_id: str, silo_id: str, after: int = -1) -> Sequence[SiloRound]:
        """A silo's part in the rounds above an index that were its own, oldest first."""
        return await asyncio.to_thread(exports.parts_of, self._store, run_id, silo_id, after)

    async def silos(self) -> Sequence[SiloStatus]:
        """All silos, by id."""
        return await self._silos.all()

    async def silo_log(self, silo_id: str) -> SiloLog | None:
        """What it has shared of its log."""
        return await self._silos.log(silo_id)

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
        """The newest events above `after` that concern all that is given, oldest first."""
        return await events_of(
            self._store, self._c.events, after, limit, run_id, silo_id, kinds, level, but
        )

    async def tests(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[ModelTest] | None:
        """Tests of its models above an index, with each silo's own numbers, oldest first."""
        return await asyncio.to_thread(exports.tests_of, self._store, run_id, after, limit)

    async def tables(self, run_id: str, which: Which = "newest") -> ModelTables | None:
        """Tables of the newest model that was tested, or of the best; None if there is none."""
        row = await asyncio.to_thread(self._store.run, run_id)
        index = None if row is None else row.best_index
        if row is not None and which == "newest":
            points = (await self._stats_of(row, self._live(row))).points
            index = points[-1].model_index if points else None
        if index is None:
            return None
        return await asyncio.to_thread(model_tables, self._store, run_id, index)

    async def model_file(self, run_id: str, which: Which = "newest") -> Path | None:
        """The newest committed x_r, or the best; None if there is none."""
        row = await asyncio.to_thread(self._store.run, run_id)
        if row is None or not exports.is_there(row, which):
            return None
        folder = self._c.queue.folder(run_id)
        if final := exports.final_model(folder, row, which):
            return final
        async with self._exporting:  # two at once would write one file
            export = exports.exported_model
            return await asyncio.to_thread(export, self._store, folder, run_id, which)

    async def card(self, run_id: str, which: Which = "newest") -> ModelCard | None:
        """The card of the newest committed x_r, or of the best; None if there is none."""
        folder = self._c.queue.folder(run_id)
        return await asyncio.to_thread(exports.card_of, self._store, folder, run_id, which)

    async def changes(self) -> AsyncIterator[None]:
        """Yields at once, and then after every change."""
        while not self._c.stopping:
            news = self._c.changes.page.coming()
            yield None
            await happened(news, 5.0)

    async def _row(self, run_id: str) -> RunRow | None:
        return await self._settled(lambda: self._store.run(run_id))

    async def _settled(self, read: Callable[[], T]) -> T:
        """What was read while no run began, ended or went on: rows and memory say the same."""
        for _ in range(TRIES):
            before = self._phase()
            found = await asyncio.to_thread(read)
            if self._phase() == before:
                break
        return found

    def _phase(self) -> tuple[str, str] | None:
        current = self._c.queue.current
        return None if current is None else (current.run_id, current.state.phase.value)

    def _live(self, row: RunRow) -> Run | None:
        current = self._c.queue.current
        return current if current is not None and current.run_id == row.run_id else None

    async def _stats_of(self, row: RunRow, live: Run | None) -> RunStats:
        return await self._stats.of(row, live.evaluations if live is not None else None)

    async def _summary(self, row: RunRow) -> RunSummary:
        run_id, live = row.run_id, self._live(row)
        config = self._configs[run_id] = self._configs.get(run_id) or row.run_config()
        state, detail = row.state, row.detail
        if live is not None:  # before anything is awaited: row and run are of one instant
            detail = live.detail
            if live.ready or live.state.ended or state == "QUEUED":  # else it is being loaded
                state = live.state.phase.value
        done = await self._stats_of(row, live)
        stall = None if live is None else self._watch.stalled_run(live)
        return summary_of(
            row,
            config,
            latest_metrics(done.points),
            state=state,
            detail=detail,
            **durations(row, live, done, config.num_rounds),
            complete=done.complete,
            tags=row.tags or (),
            notes=row.notes if row.notes is not None else config.notes or "",
            archived=row.archived,
            **stall_fields(stall, self._c.clock()),
        )

    async def submit(self, config: Mapping[str, Any], by: str = THE_ADMIN) -> RunSummary:
        """Queue a run."""
        row = await self._c.submissions.submit(config)
        self._c.events.say(kinds.QUEUED, f"{row.run_id} was queued by {by}", row.run_id)
        return await self._summary(row)

    async def edit(self, run_id: str, edit: RunEdit, by: str = THE_ADMIN) -> RunSummary:
        """Change what is said of a run."""
        changes = cast(RunChanges, edit.model_dump(exclude_none=True))
        if changes:
            await asyncio.to_thread(lambda: self._store.update_run(run_id, **changes))
            text = f"of {run_id} {by} has changed {' and '.join(sorted(changes))}"
            self._c.events.say(kinds.RUN_EDITED, text, run_id)
        return await self._after(run_id)

    async def stop(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Stop a run."""
        await self._c.queue.stop(run_id, by)
        return await self._after(run_id)

    async def pause(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Hold a run."""
        await self._c.queue.pause(run_id, by)
        return await self._after(run_id)

    async def resume(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        """Go on with a paused run."""
        await self._c.queue.resume(run_id, by)
        return await self._after(run_id)

    async def drop(self, silo_id: str, reason: str = "", by: str = THE_ADMIN) -> SiloStatus:
        """Leave a silo out."""
        await self._c.registry.drop(silo_id, reason, by)
        return await self._silo(silo_id)

    async def undrop(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Take a silo back."""
        await self._c.registry.undrop(silo_id, by)
        return await self._silo(silo_id)

    async def rebind(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Free a silo's name."""
        await self._c.registry.rebind(silo_id, by)
        return await self._silo(silo_id)

    async def revoke(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        """Let a silo in no more."""
        await self._c.revoke(silo_id, by)
        return await self._silo(silo_id)

    async def _silo(self, silo_id: str) -> SiloStatus:
        never = SiloStatus(silo_id=silo_id, phase="offline")
        return next((s for s in await self.silos() if s.silo_id == silo_id), never)

    async def _after(self, run_id: str) -> RunSummary:
        row = await self._row(run_id)
        assert row is not None
        return await self._summary(row)
