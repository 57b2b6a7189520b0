"""What happens, for people: logged at once, recorded in order on one thread of its own."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from domo_server.broadcast import Broadcast
from domo_server.store import Store

log = logging.getLogger(__name__)


class EventLog:
    """Used from the event loop only.

    Args:
        store: Where events are recorded.
        broadcast: Told once one is.
    """

    def __init__(self, store: Store, broadcast: Broadcast):
        self._store, self._broadcast = store, broadcast
        self._thread = ThreadPoolExecutor(1, "events")

    def say(
        self, kind: str, text: str, run_id: str | None = None, silo_id: str | None = None
    ) -> None:
        """Log and record an event."""
        log.info("%s", text, extra={"run": run_id, "silo": silo_id})
        written = asyncio.get_running_loop().run_in_executor(
            self._thread, self._store.add_event, kind, text, run_id, silo_id
        )
        written.add_done_callback(self._written)

    def _written(self, written: asyncio.Future[None]) -> None:
        if not written.cancelled() and (error := written.exception()) is not None:
            log.error("an event was not recorded: %s", error)
        self._broadcast.notify()

    async def close(self) -> None:
        """Wait until all events are recorded; none may follow."""
        await asyncio.to_thread(self._thread.shutdown)
