"""The queue of runs: one at a time, in the order in which they were submitted."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from domo.api.schema import ENDED
from domo.errors import ConfigError, CoordinatorUnavailableError, ProtocolError, TransportError
from domo.names import plain
from domo.ops.logs import log_context
from domo_server.events import kinds
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Changes
from domo_server.people.person import THE_ADMIN
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.durable import said_by_disk
from domo_server.runs.loop import RunLoop
from domo_server.runs.run import PAUSED_BY, QUEUE, Run
from domo_server.silos.sessions import Sessions
from domo_server.store.rows import RunRow
from domo_server.store.store import Store, now_text

log = logging.getLogger(__name__)

RETRY_S = 10.0
"""Pause before a run is tried again that could not even be loaded, or whose end not recorded."""
NUM_RECENT = 4
"""Runs that silos may still ask about: the current one, and those that ended lately."""


class Queue:
    """Brings one run after the other to its end; pauses, resumes and stops them.

    Args:
        store: Durable metadata.
        state_dir: Where runs keep their vectors.
        sessions: Who is connected.
        dropped: Silos that an admin has left out, and why.
        changes: Told what changes.
        events: What happens, for people.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        state_dir: Path,
        sessions: Sessions,
        dropped: Mapping[str, str],
        changes: Changes,
        events: EventLog,
        clock: Callable[[], float],
    ):
        self._store, self._state_dir = store, state_dir
        self._sessions, self._dropped = sessions, dropped
        self._changes, self._events, self._clock = changes, events, clock
        self.current: Run | None = None
        self._recent: dict[str, Run] = {}
        self._stops: dict[str, str] = {}
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # life

    def start(self) -> None:
        """Go on with what the database says is unfinished."""
        self._task = asyncio.create_task(self._work(), name="runs")

    async def shutdown(self) -> None:
        """Finish what is being written, then stop; unfinished runs go on at the next start."""
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
                row = await asyncio.to_thread(self._store.next_run)
                if row is None:
                    await self._changes.loops.changed(1.0)  # a run may have come while we looked
                    continue
                await self._execute(row)
            except (OSError, TransportError) as error:  # such as a full disk: no restart is needed
                self._hold(f"{said_by_disk(error)}; the coordinator tries again")
                await self._rest()
            except Exception as error:
                log.exception("the run cannot go on")
                self._hold(f"internal error: {error!r}; the log has the details; it is tried again")
                await self._rest()
            finally:
                self.current = None
            self._changes.assigned()  # the current run

    def _hold(self, text: str) -> None:
        log.error("%s", text)
        if self.current is not None:
            self.current.hold_up(QUEUE, text)
            self.current.waits_for(text)
        self._changes.shown()  # why a run is held

    async def _rest(self) -> None:
        """Before a run is tried again; one that is now to stop is at once."""
        run = self.current
        asked = run is not None and run.stop_text is not None
        wish = self._changes.loops.until
        await wish(lambda: run.stop_text if run and not asked else None, RETRY_S)

    async def _execute(self, row: RunRow) -> None:
        run = self._make(row)
        self._succeed(run)
        self.current = self._recent[run.run_id] = run
        self._recent = dict(list(self._recent.items())[-NUM_RECENT:])
        self._changes.assigned()  # the current run
        log_context(run=run.run_id)
        try:
            await RunLoop(run, self._writing).execute(row)
            self._stops.pop(run.run_id, None)
        finally:
            log_context(run=None)

    def _succeed(self, run: Run) -> None:
        """Take over from an earlier try of a run: what it has said, until it is loaded; a pause."""
        tried = self.find(run.run_id)
        if tried is None:
            return
        if tried.stuck is not None:
            run.hold_up(QUEUE, tried.stuck)
            run.waits_for(tried.stuck)
        run.pause_wanted, run.paused_by = tried.pause_wanted, tried.paused_by

    def _make(self, row: RunRow) -> Run:
        run = Run(
            row.run_id,
            row.run_config(),
            self.folder(row.run_id),
            self._store,
            self._sessions,
            self._changes,
            self._events,
            self._dropped,
            self._clock,
        )
        run.stop_text = self._stops.get(run.run_id, row.stop_text)
        run.pause_wanted = row.state == "PAUSED"
        if run.pause_wanted and row.detail.startswith(PAUSED_BY):
            run.paused_by = row.detail.removeprefix(PAUSED_BY)
        ended = row.state in ENDED
        run.left_at(RoundState(Phase(row.state if ended else "WAITING"), row.rounds_done))
        run.waits_for(row.detail if ended else "")
        return run

    # runs by id

    def folder(self, run_id: str) -> Path:
        """Where a run keeps its files; an id of older versions may be a whole path."""
        name = run_id if Path(run_id).name == run_id else plain(run_id)
        return self._state_dir / "runs" / name

    def find(self, run_id: str) -> Run | None:
        """The current run, or one that ended lately, by id."""
        return self._recent.get(run_id)

    async def locate(self, run_id: str) -> Run:
        """The run that a silo speaks of: ready for it, or ended, before a restart too.

        Raises:
            ProtocolError: There never was one.
            CoordinatorUnavailableError: It is in the queue or being loaded; ask again.
        """
        run = self.find(run_id)
        if run is None:
            row = await asyncio.to_thread(self._store.run, run_id)
            if row is None:
                raise ProtocolError(f"there is no run {run_id!r} here")
            run = self.find(run_id)
            if run is None and row.state in ENDED:
                run = self._make(row)
        if run is None or not (run.ready or run.state.ended):
            raise CoordinatorUnavailableError(f"the coordinator has not loaded run {run_id} yet")
        return run

    # what the admin wants

    async def stop(self, run_id: str, by: str = THE_ADMIN) -> None:
        """Stop a run that has not ended: at once, or as soon as the disk lets it.

        Args:
            run_id: The run.
            by: Who wants it, in words.

        Raises:
            ConfigError: No such run, or it has ended.
            CoordinatorUnavailableError: It is in the queue, and the database takes nothing.
        """
        row = await asyncio.to_thread(self._store.run, run_id)
        if row is None:
            raise ConfigError(f"there is no run {run_id!r}")
        if row.state in ENDED:
            raise ConfigError(f"run {run_id} has ended already: {row.state.lower()}")
        wish = f"stopped by {by}"
        if self.current is not None and self.current.run_id == run_id:
            self._want_stop(run_id, wish)
            with contextlib.suppress(TransportError):  # its loop records it as soon as it can
                await asyncio.to_thread(self._store.update_run, run_id, stop_text=wish)
            return
        text = wish + (" before it started" if row.state == "QUEUED" else "")
        await asyncio.to_thread(
            self._store.update_run, run_id, state="STOPPED", detail=text, finished_at=now_text()
        )
        self._events.say(kinds.STOPPED, f"{row.name}: {text}", run_id)
        self._want_stop(run_id, wish)  # its turn may have come meanwhile

    def _want_stop(self, run_id: str, wish: str) -> None:
        self._stops[run_id] = wish
        if self.current is not None and self.current.run_id == run_id:
            self.current.want_stop(wish)

    async def pause(self, run_id: str, by: str = THE_ADMIN) -> None:
        """Hold a run; updates that come are still taken.

        Args:
            run_id: The run.
            by: Who wants it, in words.

        Raises:
            ConfigError: No such run, it is not in its rounds, or its last one is being closed.
        """
        run = self._in_rounds(run_id, await asyncio.to_thread(self._store.run, run_id))
        if run.closes_last:
            raise ConfigError(f"run {run_id} closes its last round: no other follows to be held")
        run.want_pause(by=by)

    async def resume(self, run_id: str, by: str = THE_ADMIN) -> None:
        """Go on with a paused run.

        Args:
            run_id: The run.
            by: Who wants it, in words.

        Raises:
            ConfigError: No such run, or it is not paused.
        """
        run = self._in_rounds(run_id, await asyncio.to_thread(self._store.run, run_id))
        if not run.pause_wanted:
            raise ConfigError(f"run {run_id} is not paused")
        run.want_pause(False, by)

    def _in_rounds(self, run_id: str, row: RunRow | None) -> Run:
        run = self.current
        if row is None:
            raise ConfigError(f"there is no run {run_id!r}")
        phases = (Phase.OPEN, Phase.CLOSING, Phase.PAUSED)
        if run is None or run.run_id != run_id or run.state.phase not in phases:
            state = run.state.phase if run and run.run_id == run_id else row.state
            raise ConfigError(f"run {run_id} is {state.lower()}, not in its rounds")
        return run
