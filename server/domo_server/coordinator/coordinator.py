"""The coordinator: a queue of runs, one at a time, and the silos that serve them."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from domo.api.schema import ENDED
from domo.errors import ConfigError, CoordinatorUnavailableError, ProtocolError, TransportError
from domo.ops.config_file import validate
from domo.ops.logs import log_context
from domo.run_config import RunConfig, sort_roster
from domo.tasks import TASKS
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Broadcast
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.durable import said_by_disk
from domo_server.runs.loop import RunLoop
from domo_server.runs.run import Run
from domo_server.silos.certificate_expiry import Expiry
from domo_server.silos.sessions import Session, Sessions
from domo_server.store.store import Store, now_text

log = logging.getLogger(__name__)

RETRY_S = 10.0
"""Pause before a run is tried again that could not even be loaded, or whose end not recorded."""
BY_ADMIN = "stopped by the admin"


class Coordinator:
    """Owns the sessions, the queue and the current run.

    Args:
        store: Durable metadata.
        state_dir: Where runs keep their vectors.
        report_interval_s: How often silos report.
        long_poll_s: How long a silo's question may wait for an answer.
        durable_updates: fsync each update before it is accepted.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        state_dir: Path,
        report_interval_s: float = 2.0,
        long_poll_s: float = 20.0,
        durable_updates: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.store, self.state_dir = store, state_dir
        self.long_poll_s, self.durable_updates = long_poll_s, durable_updates
        self.clock = clock
        self.sessions = Sessions(report_interval_s, clock)
        self.broadcast = Broadcast()
        self.counters = Counters()
        self.events = EventLog(store, self.broadcast, self.counters)
        self.expiry = Expiry(self.sessions, self.events.say)
        self.dropped: dict[str, str] = {}
        self._stops: dict[str, str] = {}
        self.current: Run | None = None
        self.recent: dict[str, Run] = {}
        self.started_at = time.monotonic()
        self.stopping = False
        self._writing, self._joining, self._queueing = (asyncio.Lock() for _ in range(3))
        self._task: asyncio.Task[None] | None = None

    # life

    def start(self) -> None:
        """Go on with what the database says is unfinished."""
        rows = self.store.all_silos()
        self.dropped |= {r["silo_id"]: r["dropped"] for r in rows if r["dropped"] is not None}
        self._task = asyncio.create_task(self._work(), name="runs")

    async def shutdown(self) -> None:
        """Finish what is being written, then stop; unfinished runs go on at the next start."""
        self.stopping = True
        self.broadcast.notify()
        async with self._writing:
            saving = self.current.saving if self.current is not None else None
            for task in (saving, self._task):
                if task is not None:
                    task.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            try:
                rows = await asyncio.to_thread(self.store.all_runs)
                waiting = [row for row in reversed(rows) if row["state"] not in ENDED]
                if not waiting:
                    await self.broadcast.changed(1.0)  # a run may have come while we looked
                    continue
                await self._execute(waiting[0])
            except (OSError, TransportError) as error:  # such as a full disk: no restart is needed
                self._hold(f"{said_by_disk(error)}; the coordinator tries again")
                await self._rest()
            except Exception as error:
                log.exception("the run cannot go on")
                self._hold(f"internal error: {error!r}; the log has the details; it is tried again")
                await self._rest()
            finally:
                self.current = None
            self.broadcast.notify()

    def _hold(self, text: str) -> None:
        log.error("%s", text)
        if self.current is not None:
            self.current.detail = self.current.stuck = text
        self.broadcast.notify()

    async def _rest(self) -> None:
        """Before a run is tried again; one that is now to stop is at once."""
        run = self.current
        asked = run is not None and run.stop_text is not None
        await self.broadcast.until(lambda: run.stop_text if run and not asked else None, RETRY_S)

    async def _execute(self, row: Mapping[str, Any]) -> None:
        run = self._make(row)
        if (tried := self.find(run.run_id)) is not None and tried.stuck is not None:
            run.detail = run.stuck = tried.stuck  # until it is loaded
        self.current = self.recent[run.run_id] = run
        self.recent = dict(list(self.recent.items())[-4:])
        self.broadcast.notify()
        log_context(run=run.run_id)
        try:
            await RunLoop(run, self._writing).execute(row)
            self._stops.pop(run.run_id, None)
        finally:
            log_context(run=None)

    async def linger(self) -> None:
        """Give connected silos a moment to hear how the last run ended."""
        await asyncio.sleep(min(2.0, self.sessions.report_interval_s))

    def _make(self, row: Mapping[str, Any]) -> Run:
        run = Run(
            row["run_id"],
            RunConfig.model_validate(row["config"]),
            self.folder(row["run_id"]),
            self.store,
            self.sessions,
            self.broadcast,
            self.events,
            self.dropped,
            self.clock,
        )
        run.stop_text = self._stops.get(run.run_id, row["stop_text"])
        return run

    def folder(self, run_id: str) -> Path:
        """Where a run keeps its files."""
        return self.state_dir / "runs" / run_id

    # control

    async def submit(self, config: RunConfig | Mapping[str, Any]) -> dict[str, Any]:
        """Queue a run; returns its row.

        Raises:
            ConfigError: A field is wrong, the name is taken, or x_0 cannot be made.
        """
        if not isinstance(config, RunConfig):
            config = validate(RunConfig, dict(config), "run")
        check_submission(config)
        async with self._queueing:  # two at once must not take one name, or one number
            name, number = config.title, 2
            if config.name is None:
                while await asyncio.to_thread(self.store.run_by_name, name):
                    name, number = f"{config.title}-{number}", number + 1
            elif await asyncio.to_thread(self.store.run_by_name, name):
                raise ConfigError(
                    f"there is a run named {name!r} already; give this one another name"
                )
            return await self._queue(name, config)

    async def submit_once(self, config: RunConfig, name: str) -> dict[str, Any]:
        """Queue a run of the configuration file, unless it is there from an earlier start.

        Raises:
            ConfigError: As `submit`, or the run was started with another configuration.
        """
        row = await asyncio.to_thread(self.store.run_by_name, name)
        if row is None:
            check_submission(config)
            return await self._queue(name, config)
        old = RunConfig.model_validate(row["config"])  # not by digest: versions may differ in it
        differ = [f for f in RunConfig.model_fields if getattr(old, f) != getattr(config, f)]
        if differ:
            raise ConfigError(
                f"the run {name!r} in {self.state_dir} was started with other settings "
                f"({', '.join(differ)}); give the changed run another name, or use another "
                "--state-dir"
            )
        if row["state"] in ENDED:
            log.info("[%s] has ended already: %s", row["run_id"], row["state"].lower())
        return row

    async def _queue(self, name: str, config: RunConfig) -> dict[str, Any]:
        values = {
            "name": name,
            "config": config.model_dump(mode="json"),
            "config_digest": config.digest,
        }
        row = await asyncio.to_thread(self.store.create_run, values)
        log.info("[%s] queued: %s on %s", row["run_id"], config.method, config.task)
        self.broadcast.notify()
        return row

    async def stop(self, run_id: str) -> None:
        """Stop a run that has not ended: at once, or as soon as the disk lets it.

        Raises:
            ConfigError: No such run, or it has ended.
            CoordinatorUnavailableError: It is in the queue, and the database takes nothing.
        """
        row = await asyncio.to_thread(self.store.run, run_id)
        if row is None:
            raise ConfigError(f"there is no run {run_id!r}")
        if row["state"] in ENDED:
            raise ConfigError(f"run {run_id} has ended already: {row['state'].lower()}")
        if self.current is not None and self.current.run_id == run_id:
            self._want_stop(run_id)
            with contextlib.suppress(TransportError):  # its loop records it as soon as it can
                await asyncio.to_thread(self.store.update_run, run_id, stop_text=BY_ADMIN)
            return
        text = BY_ADMIN + (" before it started" if row["state"] == "QUEUED" else "")
        values = {"state": "STOPPED", "detail": text, "finished_at": now_text()}
        await asyncio.to_thread(self.store.update_run, run_id, **values)
        self.events.say("stopped", f"{row['name']}: {text}", run_id)
        self._want_stop(run_id)  # its turn may have come meanwhile

    def _want_stop(self, run_id: str) -> None:
        self._stops[run_id] = BY_ADMIN
        if self.current is not None and self.current.run_id == run_id:
            self.current.stop_text = BY_ADMIN
        self.broadcast.notify()

    def _in_rounds(self, run_id: str, row: Mapping[str, Any] | None) -> Run:
        run = self.current
        if row is None:
            raise ConfigError(f"there is no run {run_id!r}")
        phases = (Phase.OPEN, Phase.CLOSING, Phase.PAUSED)
        if run is None or run.run_id != run_id or run.state.phase not in phases:
            state = run.state.phase if run and run.run_id == run_id else row["state"]
            raise ConfigError(f"run {run_id} is {state.lower()}, not in its rounds")
        return run

    async def pause(self, run_id: str) -> None:
        """Hold a run; updates that come are still taken.

        Raises:
            ConfigError: No such run, or it is not in its rounds.
        """
        run = self._in_rounds(run_id, await asyncio.to_thread(self.store.run, run_id))
        run.pause_wanted = True
        self.broadcast.notify()

    async def resume(self, run_id: str) -> None:
        """Go on with a paused run.

        Raises:
            ConfigError: No such run, or it is not paused.
        """
        run = self._in_rounds(run_id, await asyncio.to_thread(self.store.run, run_id))
        if not run.pause_wanted:
            raise ConfigError(f"run {run_id} is not paused")
        run.pause_wanted = False
        self.broadcast.notify()

    async def drop(self, silo_id: str, reason: str) -> None:
        """Leave a silo out of all rounds from the open one on.

        Raises:
            ConfigError: No such silo, or it is out already.
        """
        await self._known(silo_id)
        if silo_id in self.dropped:
            raise ConfigError(f"{silo_id} is left out already: {self.dropped[silo_id]}")
        reason = reason.strip()[:500] or "no reason given"
        await asyncio.to_thread(self.store.mark_silo, silo_id, dropped=reason)
        self.dropped[silo_id] = reason
        if self.current is not None:
            self.current.leave_out(silo_id)
        self._say("dropped", f"{silo_id} is left out by the admin: {reason}", silo_id)

    async def readmit(self, silo_id: str) -> None:
        """Take a dropped silo back, and let one that is not connected join with a new state folder.

        Raises:
            ConfigError: No such silo.
        """
        await self._known(silo_id)
        was_dropped = silo_id in self.dropped
        free = not (was_dropped and self.sessions.is_online(silo_id))  # else its folder is not lost
        values = {"dropped": None, **({"readmitted": True} if free else {})}
        await asyncio.to_thread(self.store.mark_silo, silo_id, **values)
        self.dropped.pop(silo_id, None)
        if was_dropped and self.current is not None:
            self.current.take_back(silo_id)
        self._say("readmitted", f"{silo_id} is re-admitted by the admin", silo_id)

    async def _known(self, silo_id: str) -> None:
        if await asyncio.to_thread(self.store.silo, silo_id) is None:
            raise ConfigError(f"no silo named {silo_id!r} has ever joined")

    def _say(self, kind: str, text: str, silo_id: str) -> None:
        run_id = self.current.run_id if self.current is not None else None
        self.events.say(kind, text, run_id, silo_id)
        self.broadcast.notify()

    # silos

    async def join(self, session_values: Mapping[str, str]) -> Session:
        """Open a session for a silo (fields of `Sessions.join`).

        Raises:
            SiloConflictError: The name is taken.
        """
        silo_id = session_values["silo_id"]
        async with self._joining:  # of two that take a new name at once, one gets it
            row = await asyncio.to_thread(self.store.silo, silo_id)
            known = row["instance_id"] if row and not row["readmitted"] else None
            session = self.sessions.join(known_instance=known, **session_values)
            values = {k: v for k, v in session_values.items() if k != "silo_id"}
            await asyncio.to_thread(self.store.save_silo, silo_id, readmitted=False, **values)
        self.events.say("joined", f"{silo_id} joined", silo_id=silo_id)
        return session

    async def decline(self, session: Session, run_id: str, reason: str) -> None:
        """A silo will not take part in a run; it is not asked again in this session."""
        before = session.declined.get(run_id)
        if self.find(run_id) is None or before or before == reason:
            return  # no such run, or it is known already
        session.declined[run_id] = session.error = reason
        text = f"{session.silo_id} declined {run_id}: {reason}"
        self.events.say("declined", text, run_id, session.silo_id)
        self.broadcast.notify()

    def find(self, run_id: str) -> Run | None:
        """The current run, or one that ended lately, by id."""
        return self.recent.get(run_id)

    async def locate(self, run_id: str) -> Run:
        """The run that a silo speaks of: ready for it, or ended, before a restart too.

        Raises:
            ProtocolError: There never was one.
            CoordinatorUnavailableError: It is in the queue or being loaded; ask again.
        """
        run = self.find(run_id)
        if run is None:
            row = await asyncio.to_thread(self.store.run, run_id)
            if row is None:
                raise ProtocolError(f"there is no run {run_id!r} here")
            run = self.find(run_id)
            if run is None and row["state"] in ENDED:
                run = self._make(row)
                run.state = RoundState(Phase(row["state"]), row["rounds_done"])
                run.detail = row["detail"]
        if run is None or not (run.ready or run.state.ended):
            raise CoordinatorUnavailableError(f"the coordinator has not loaded run {run_id} yet")
        return run


def check_submission(config: RunConfig) -> None:
    """What a coordinator needs beyond a valid configuration.

    Raises:
        ConfigError: Nobody is said to take part, a table lacks a silo, or x_0 cannot be made here.
    """
    if config.num_silos is None and config.roster is None:
        raise ConfigError("say who takes part: num_silos = 4, or roster = ['site-a', 'site-b']")
    if config.roster is not None:
        config.check_tables(sort_roster(config.roster))
    if config.initial_model:
        path = Path(config.initial_model)
        if not path.is_file():
            raise ConfigError(f"initial_model: there is no file {path}")
    elif config.task.split(":")[0] not in TASKS:
        if ":" not in config.task:
            raise ConfigError(
                f"there is no task {config.task!r}; `domo tasks` lists those there are"
            )
        raise ConfigError(
            f"the task {config.task} is code of your own, which the coordinator does not run: make "
            f"the initial model with `domo init {config.task} --seed {config.seed} --out "
            "x0.safetensors` and set initial_model to that file"
        )
