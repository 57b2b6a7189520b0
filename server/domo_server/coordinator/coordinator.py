"""A coordinator: its parts, and their start and end."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from domo.errors import ConfigError
from domo_server.coordinator.queue import Queue
from domo_server.coordinator.registry import Registry
from domo_server.coordinator.submission import Submissions
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Changes
from domo_server.events.record import Record
from domo_server.identity.certify import Certifier
from domo_server.identity.guard import Guard
from domo_server.silos.allowed import HeldBack
from domo_server.silos.certificate_expiry import Expiry
from domo_server.silos.sessions import Sessions
from domo_server.store.admissions import Admissions
from domo_server.store.store import Store

LINGER_S = 2.0
"""With `--exit-when-done`: how long silos have to hear how the last run ended."""


class Coordinator:
    """Puts together the silos, the runs that are submitted, and the queue that they wait in.

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
        self.held_back = HeldBack()
        self.changes = Changes()
        self.counters = Counters()
        self.record = Record(state_dir)
        self.events = EventLog(store, self.changes.page, self.counters, self.record)
        self.expiry = Expiry(self.sessions, partial(self.events.say, kinds.CERTIFICATE))
        self.guard = Guard(Admissions(store), self.events.repeated, self.events.say, store.rostered)
        self.certifier = Certifier(None, self.guard, self.events.say)
        dropped: dict[str, str] = {}
        self.submissions = Submissions(store, state_dir, self.changes)
        self.queue = Queue(
            store, state_dir, self.sessions, dropped, self.changes, self.events, clock
        )
        self.registry = Registry(
            store, self.sessions, dropped, self.queue, self.changes, self.events
        )
        self.guard.on_revoked = self.registry.leave_out_revoked
        self.started_at = time.monotonic()
        self.stopping = False

    def start(self) -> None:
        """Go on with what the database says is unfinished."""
        self.registry.load()
        self.queue.start()

    async def revoke(self, silo_id: str, by_whom: str) -> None:
        """Let a silo in no more, with any key, end its calls, and leave it out of its run.

        Raises:
            ConfigError: Nobody has let it in, or silos show no certificates here.
            CoordinatorUnavailableError: The database does not answer.
        """
        if not self.guard.rules.mutual:
            raise ConfigError(
                "silos show no certificate here, so nobody can be held back by it: drop leaves "
                f"{silo_id} out of runs"
            )
        if await asyncio.to_thread(self.guard.admissions.of, silo_id) is None:
            raise ConfigError(f"nobody has let {silo_id} in, so there is nothing to revoke")
        await asyncio.to_thread(self.guard.admissions.revoke, silo_id, by_whom)
        self.events.say(kinds.REVOKED, f"{silo_id} was revoked by {by_whom}", silo_id=silo_id)
        await self.guard.changed()

    async def shutdown(self) -> None:
        """Finish what is being written, then stop; unfinished runs go on at the next start."""
        self.stopping = True
        self.changes.assigned()  # the end
        await self.queue.shutdown()
        await self.registry.seen(self.sessions.all())

    async def linger(self) -> None:
        """Give connected silos a moment to hear how the last run ended."""
        await asyncio.sleep(min(LINGER_S, self.sessions.report_interval_s))
