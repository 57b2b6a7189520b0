"""A federation that is made up: what REST shows and changes, as plain lists."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from domo.api.edit import RunEdit
from domo.api.measured import MetricPoint, ModelTables, ModelTest
from domo.api.schema import (
    Event,
    Participant,
    RoundRecord,
    RunDetail,
    RunState,
    RunSummary,
    SiloRound,
    SiloStatus,
    Status,
)
from domo.api.silo_log import LogLine, SiloLog
from domo.errors import ConfigError
from domo.model.card import ModelCard
from domo_server.dashboard import openapi_examples as examples
from domo_server.people.person import THE_ADMIN
from domo_server.view.rows import silo_round


class Federation:
    """`ReadModel` and `Control` over plain lists."""

    def __init__(self) -> None:
        self.run_list = [
            RunDetail(
                run_id="1-fedavg",
                name="fedavg",
                method="FedAvg",
                task="digits",
                state="FINISHED",
                num_rounds=2,
                rounds_done=2,
                accuracy=0.5,
                loss=1.5,
                created_at="2026-01-05T09:00:00Z",
                config={"method": "FedAvg"},
                roster=["site-a"],
                metrics=[
                    MetricPoint(
                        model_index=2, metrics={"accuracy": 0.5}, num_silos=1, num_samples=9
                    )
                ],
            )
        ]
        self.rebound: list[str] = []
        self.revoked: list[str] = []
        self.grpc_address = "0.0.0.0:50051"
        self.silo_list = [SiloStatus(silo_id="site-a", phase="idle", loss=float("nan"))]
        self.event_list = [
            Event(event_id=i, at="2026-01-05T09:00:00Z", kind="note", text=f"event {i}")
            for i in range(1, 4)
        ]
        self.log_lines = [
            LogLine(number=i, at="2026-01-05T09:00:00Z", level="INFO", text=f"line {i}")
            for i in range(1, 4)
        ]
        self.log_began_at = "2026-01-05T08:59:00Z"
        self.model_path: Path | None = None
        self.test_list = [examples.TEST]
        self.tables_found: ModelTables | None = examples.TABLES
        self.round_list = [
            RoundRecord(
                round_index=0,
                state="COMMITTED",
                local_lr=0.05,
                reference_steps=12,
                participants=[
                    Participant(silo_id="site-a", weight=1, num_steps=12, train_loss=2.0)
                ],
                left_out={"site-b": "no update in time"},
                train_loss=2.0,
            )
        ]
        self.submitted: list[Mapping[str, Any]] = []
        self.error: Exception | None = None
        self.ends_meanwhile = False
        self.changed = asyncio.Condition()
        self.num_changes = 0
        self.num_listeners = 0
        self.num_asked = 0

    async def status(self) -> Status:
        self.num_asked += 1
        if self.error is not None:
            raise self.error
        return Status(
            version="0",
            uptime_s=1,
            grpc_address=self.grpc_address,
            tls=False,
            current_run=self._current(),
            num_queued=0,
            num_silos_online=len(self.silo_list),
            silos=self.silo_list,
        )

    async def runs(self) -> Sequence[RunSummary]:
        return [RunSummary(**run.model_dump()) for run in self.run_list]

    async def run(self, run_id: str) -> RunDetail | None:
        return next((run for run in self.run_list if run.run_id == run_id), None)

    async def shown_run(self) -> RunDetail | None:
        return self._current() or next(iter(self.run_list), None)

    def _current(self) -> RunDetail | None:
        return next((r for r in self.run_list if r.state in ("OPEN", "PAUSED")), None)

    async def rounds(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[RoundRecord] | None:
        if await self.run(run_id) is None:
            return None
        return [r for r in self.round_list if r.round_index > after][:limit]

    async def silo_rounds(self, run_id: str, silo_id: str, after: int = -1) -> Sequence[SiloRound]:
        records = await self.rounds(run_id, after) or ()
        return [part for record in records if (part := silo_round(record, silo_id))]

    async def silos(self) -> Sequence[SiloStatus]:
        return self.silo_list

    async def silo_log(self, silo_id: str) -> SiloLog | None:
        known = any(s.silo_id == silo_id for s in self.silo_list)
        if not known:
            return None
        return SiloLog(shared=True, lines=self.log_lines, began_at=self.log_began_at)

    async def events(
        self,
        after: int = 0,
        limit: int = 200,
        run_id: str | None = None,
        silo_id: str | None = None,
        kinds: Collection[str] = (),
        level: str | None = None,
        but: Collection[str] = (),
    ) -> Sequence[Event]:
        found = [
            event
            for event in self.event_list
            if event.event_id > after
            and (run_id is None or event.run_id == run_id)
            and (silo_id is None or event.silo_id == silo_id)
            and (not kinds or event.kind in kinds)
            and event.kind not in but
            and (level is None or event.level == level)
        ]
        return found[-limit:]

    async def tests(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[ModelTest] | None:
        known = await self.run(run_id) is not None
        return [t for t in self.test_list if t.model_index > after][:limit] if known else None

    async def tables(self, run_id: str, which: str = "newest") -> ModelTables | None:
        return self.tables_found

    async def model_file(self, run_id: str, which: str = "newest") -> Path | None:
        return self.model_path

    async def card(self, run_id: str, which: str = "newest") -> ModelCard | None:
        return None if self.model_path is None else examples.CARD

    async def changes(self) -> AsyncIterator[None]:
        self.num_listeners += 1
        try:
            seen = -1
            while True:
                async with self.changed:
                    await self.changed.wait_for(lambda: self.num_changes != seen)  # noqa: B023
                    seen = self.num_changes
                yield
        finally:
            self.num_listeners -= 1

    async def change(self) -> None:
        async with self.changed:
            self.num_changes += 1
            self.changed.notify_all()

    async def submit(self, config: Mapping[str, Any], by: str = THE_ADMIN) -> RunSummary:
        if "method" not in config:
            raise ConfigError("method is missing. Give one of FedAvg, DOMO")
        self.submitted.append(config)
        run_id = f"{len(self.run_list) + 1}-new run"
        fields = {"run_id": run_id, "state": "OPEN", "metrics": (), "config": dict(config)}
        self.run_list.insert(0, self.run_list[0].model_copy(update=fields))
        return (await self.runs())[0]

    async def edit(self, run_id: str, edit: RunEdit, by: str = THE_ADMIN) -> RunSummary:
        (place,) = (i for i, run in enumerate(self.run_list) if run.run_id == run_id)
        changes = edit.model_dump(exclude_none=True)
        self.run_list[place] = self.run_list[place].model_copy(update=changes)
        return RunSummary(**self.run_list[place].model_dump())

    async def pause(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        return await self._move(run_id, "OPEN", "PAUSED")

    async def resume(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        return await self._move(run_id, "PAUSED", "OPEN")

    async def stop(self, run_id: str, by: str = THE_ADMIN) -> RunSummary:
        return self._change_run(run_id, "STOPPED")

    async def drop(self, silo_id: str, reason: str = "", by: str = THE_ADMIN) -> SiloStatus:
        if any(s.silo_id == silo_id and s.dropped is not None for s in self.silo_list):
            raise ConfigError(f"{silo_id} is out already")
        return self._change_silo(silo_id, reason)

    async def undrop(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        if any(s.silo_id == silo_id and s.dropped is None for s in self.silo_list):
            raise ConfigError(f"{silo_id} is not left out")
        return self._change_silo(silo_id, None)

    async def rebind(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        (silo,) = (s for s in self.silo_list if s.silo_id == silo_id)
        self.rebound.append(silo_id)
        return silo

    async def revoke(self, silo_id: str, by: str = THE_ADMIN) -> SiloStatus:
        if all(s.silo_id != silo_id for s in self.silo_list):
            raise ConfigError(f"nobody has let {silo_id} in")
        self.revoked.append(silo_id)
        return next(s for s in self.silo_list if s.silo_id == silo_id)

    async def _move(self, run_id: str, before: RunState, after: RunState) -> RunSummary:
        run = await self.run(run_id)
        assert run is not None
        if run.state != before:
            if self.ends_meanwhile:
                self._change_run(run_id, "FINISHED")
            raise ConfigError(f"run {run_id} is {run.state.lower()}")
        return self._change_run(run_id, after)

    def _change_run(self, run_id: str, state: RunState) -> RunSummary:
        (place,) = (i for i, run in enumerate(self.run_list) if run.run_id == run_id)
        self.run_list[place] = self.run_list[place].model_copy(update={"state": state})
        return RunSummary(**self.run_list[place].model_dump())

    def _change_silo(self, silo_id: str, dropped: str | None) -> SiloStatus:
        (place,) = (i for i, silo in enumerate(self.silo_list) if silo.silo_id == silo_id)
        self.silo_list[place] = self.silo_list[place].model_copy(update={"dropped": dropped})
        return self.silo_list[place]
