"""The silos as the dashboard sees them: rows, sessions and how fast they move bytes."""

import asyncio
from collections.abc import Sequence

from domo.api.schema import SiloStatus
from domo.api.silo_log import SiloLog
from domo_server.coordinator.coordinator import Coordinator
from domo_server.silos.rates import Pace
from domo_server.store.rows import SiloRow


class SilosView:
    """All silos that have ever joined.

    Args:
        coordinator: Whose they are.
    """

    def __init__(self, coordinator: Coordinator):
        self._store, self._sessions, self._pace = coordinator.store, coordinator.sessions, Pace()

    async def all(self) -> Sequence[SiloStatus]:
        """By id."""
        return [self._status(row) for row in await asyncio.to_thread(self._store.all_silos)]

    async def log(self, silo_id: str) -> SiloLog | None:
        """What one has shared of its log; None: it has never joined."""
        session = self._sessions.of(silo_id)
        if session is not None:
            log = session.log
            return SiloLog(shared=log.shared, lines=log.after(0), began_at=log.began_at)
        row = await asyncio.to_thread(self._store.silo, silo_id)
        return None if row is None else SiloLog(shared=False, lines=[], began_at=None)

    def _status(self, row: SiloRow) -> SiloStatus:
        silo_id = row.silo_id
        silo = self._sessions.status(
            silo_id, row.role, row.software_version, row.dropped, row.last_seen
        )
        session = self._sessions.of(silo_id)
        counted = session is not None and session.counted
        return self._pace.add_to(silo, session.token if session and counted else None)
