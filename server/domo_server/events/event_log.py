"""What happens, for people: logged at once, recorded in order on one thread of its own."""

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from domo.errors import TransportError
from domo_server.events.counters import Counters
from domo_server.events.notifier import Broadcast
from domo_server.store.store import Store, now_text

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause before an event is tried again that a full disk refused."""
FLUSH_S = 1.0
"""How long who asks for events waits for those that are still being recorded."""


class EventLog:
    """Used from the event loop only.

    Args:
        store: Where events are recorded.
        broadcast: Told once one is.
        counters: Count them.
    """

    def __init__(self, store: Store, broadcast: Broadcast, counters: Counters):
        self._store, self._broadcast, self.counters = store, broadcast, counters
        self._thread, self._closing = ThreadPoolExecutor(1, "events"), threading.Event()
        self._newest: asyncio.Future[None] | None = None
        self._refused = False
        self.recorded = Broadcast()

    def say(
        self, kind: str, text: str, run_id: str | None = None, silo_id: str | None = None
    ) -> None:
        """Log and record an event."""
        log.info("%s", text, extra={"run": run_id, "silo": silo_id})
        self.counters.event(kind, silo_id)
        written = asyncio.get_running_loop().run_in_executor(
            self._thread, self._record, kind, text, run_id, silo_id, now_text()
        )
        written.add_done_callback(self._written)
        self._newest = written

    def _record(self, *event: str | None) -> None:
        """On the thread: wait out a full disk, so that all events follow once there is room."""
        while True:
            try:
                self._store.add_event(*event)  # type: ignore[arg-type]
            except TransportError:
                self._refused = True
                if self._closing.wait(RETRY_S):
                    raise
            else:
                self._refused = False
                return

    def _written(self, written: asyncio.Future[None]) -> None:
        if not written.cancelled() and (error := written.exception()) is not None:
            log.error("an event was not recorded: %s", error)
        self._broadcast.notify()
        self.recorded.notify()

    async def flush(self) -> None:
        """Wait until what was said so far is recorded, so that who asks next finds it.

        Not for long, and not while the disk or the database takes nothing.
        """
        if self._newest is not None and not self._refused:
            await asyncio.wait([self._newest], timeout=FLUSH_S)

    def hurry(self) -> None:
        """From now on each event is tried once: the coordinator stops, on a full disk too."""
        self._closing.set()

    async def close(self) -> None:
        """Wait until all events are recorded, or given up on a full disk; none may follow."""
        self.hurry()
        await asyncio.to_thread(self._thread.shutdown)
