"""What happens, for people: logged at once, recorded in order on one thread of its own."""

import asyncio
import logging
import threading
from collections.abc import Collection, Container
from concurrent.futures import ThreadPoolExecutor

from domo.errors import TransportError
from domo.names import MOST_SAID, one_line
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Notifier
from domo_server.events.record import Record
from domo_server.events.repeated import Repeated
from domo_server.silos.rates import Bucket
from domo_server.store.store import Store, now_text

log = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause before an event is tried again that a full disk refused."""
BURST = 60
"""Events that one silo may cause at once."""
PER_MINUTE = 10
"""And on average. What is above is counted, and said once a minute."""
BURST_OF_STRANGERS = 300
"""The same of all silos together that no run knows."""
TELL_S = 60.0
NOT_CAUSED = (
    kinds.DROPPED,
    kinds.READMITTED,
    kinds.REBOUND,
    kinds.ADMITTED,
    kinds.REVOKED,
    kinds.CERTIFICATE,
    kinds.LEFT_OUT,
    kinds.SILO_CONFLICT,
)
"""Events of a silo that no silo causes: the admin does, or they are said once."""
FLUSH_S = 1.0
"""How long who asks for events waits for those that are still being recorded."""


class EventLog:
    """Used from the event loop only.

    Args:
        store: Where events are recorded.
        page: Told once one is.
        counters: Count them.
        record: Puts them down for good; None: nobody does.

    Attributes:
        repeated: Says what is refused before anybody has proved who it is.
        record: As it was given.
        strangers: Silos that nobody knows; they have one rate together beside their own.
    """

    def __init__(
        self, store: Store, page: Notifier, counters: Counters, record: Record | None = None
    ):
        self._store, self._page, self.counters, self.record = store, page, counters, record
        self._thread, self._closing = ThreadPoolExecutor(1, "events"), threading.Event()
        self._newest: asyncio.Future[None] | None = None
        self._refused = False
        self._rates: dict[str, Bucket] = {}
        self._rate_of_strangers = Bucket(BURST_OF_STRANGERS, PER_MINUTE / 60)
        self.strangers: Container[str] = ()
        self._left_out: dict[str | None, int] = {}
        self._telling: asyncio.TimerHandle | None = None
        self.recorded = Notifier()
        self.repeated = Repeated(self._put)

    def say(
        self, kind: EventKind, text: str, run_id: str | None = None, silo_id: str | None = None
    ) -> None:
        """Log and record an event, unless its silo causes too many."""
        if silo_id is not None and kind not in NOT_CAUSED and not self._may_cause(silo_id):
            return
        self._put(kind, text, run_id, silo_id)

    def _put(self, kind: EventKind, text: str, run_id: str | None, silo_id: str | None) -> None:
        text = one_line(text, MOST_SAID)
        log.info("%s", text, extra={"run": run_id, "silo": silo_id})
        self.counters.event(kind, silo_id)
        written = asyncio.get_running_loop().run_in_executor(
            self._thread, self._record, kind.name, text, run_id, silo_id, now_text()
        )
        written.add_done_callback(self._written)
        self._newest = written

    def _may_cause(self, silo_id: str) -> bool:
        if silo_id not in self._rates:
            self._rates[silo_id] = Bucket(BURST, PER_MINUTE / 60)
        whose: str | None = silo_id
        if self._rates[silo_id].take():
            if silo_id not in self.strangers or self._rate_of_strangers.take():
                return True
            whose = None
        self._left_out[whose] = self._left_out.get(whose, 0) + 1
        if self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(TELL_S, self._tell_left_out)
        return False

    def forget(self, silo_ids: Collection[str]) -> None:
        """These names are nobody's any more."""
        for silo_id in silo_ids:
            self._rates.pop(silo_id, None)
        self.counters.forget(silo_ids)

    def _tell_left_out(self) -> None:
        left_out, self._left_out, self._telling = self._left_out, {}, None
        for silo_id, n in left_out.items():
            whose, cause = silo_id or "silos that were in no run so far", "they cause"
            why = f"{cause if silo_id is None else 'it causes'} more than {PER_MINUTE} a minute"
            text = f"{n} more of {whose} were left out: {why}"
            self.say(kinds.LEFT_OUT, text, silo_id=silo_id)

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
                if self.record is not None:
                    self.record.event(*event[:4])  # type: ignore[arg-type]
                return

    def _written(self, written: asyncio.Future[None]) -> None:
        if not written.cancelled() and (error := written.exception()) is not None:
            log.error("an event was not recorded: %s", error)
        self._page.notify()
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
        if self._telling is not None:
            self._telling.cancel()
            self._tell_left_out()
        self.repeated.tell()
        self.repeated.close()
        await asyncio.to_thread(self._thread.shutdown)
        if self.record is not None:
            self.record.close()
