"""Names that nobody vouches for and no run wants: a few at a time, and not for ever.

Without client certificates anybody may join under any name. A name that has been in a run, that the
roster of a run has, or that a certificate is for, is no stranger's.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from domo.errors import CoordinatorUnavailableError
from domo_server.silos.rates import Bucket
from domo_server.silos.session import Process
from domo_server.silos.sessions import Sessions
from domo_server.store.store import Store

MOST_STRANGERS = 200
"""At a time, beside as many as runs without a roster wait for."""
MAX_NEW_NAMES, NEW_NAMES_PER_S = 5000, 1.0
"""Silos that may join for the first time at once, and a second on average."""
AWAY_S, FORGET_S = 60.0, 3600.0
"""After so long without a word a stranger's name is free: where room is needed, and in any case."""
WANTED_S = 5.0
"""For how long it is remembered whom runs want."""


class Wanted(NamedTuple):
    """Whom runs want that have not ended.

    Attributes:
        names: Of their rosters.
        places: Of runs that have no roster.
    """

    names: frozenset[str]
    places: int


class Strangers:
    """Used from the event loop only.

    Args:
        store: Where silos and runs are.
        sessions: Who is connected.
        on_gone: Told which names are nobody's any more.

    Attributes:
        names: Of all strangers.
    """

    def __init__(
        self, store: Store, sessions: Sessions, on_gone: Callable[[Collection[str]], None]
    ):
        self._store, self._sessions, self._on_gone = store, sessions, on_gone
        self.names: set[str] = set()
        self._new_names = Bucket(MAX_NEW_NAMES, NEW_NAMES_PER_S)
        self._wanted, self._looked = Wanted(frozenset(), 0), -WANTED_S
        self._began = sessions.now()

    def load(self) -> None:
        """Those of before this start."""
        self.names |= set(self._store.never_enrolled())

    async def admit(self, silo_id: str, process: Process) -> bool:
        """Whether a name that is new is a stranger's, which it is from now on.

        Raises:
            CoordinatorUnavailableError: There are too many, or too many are new.
        """
        wanted = await self._runs_want()
        if silo_id in wanted.names:
            return False
        if not process.vouched and len(self.names) >= MOST_STRANGERS + wanted.places:
            await self.forget(AWAY_S)
            if len(self.names) >= MOST_STRANGERS + wanted.places:
                raise CoordinatorUnavailableError(
                    f"{len(self.names)} silos are known that no run names: name this one in the "
                    "roster of a run, or let silos show certificates"
                )
        if not self._new_names.take():
            raise CoordinatorUnavailableError("many new silos join at once; ask again")
        if not process.vouched:
            self.names.add(silo_id)
        return not process.vouched

    async def _runs_want(self) -> Wanted:
        now = time.monotonic()
        if now - self._looked >= WANTED_S:
            self._looked = now
            configs = [row.run_config() for row in await asyncio.to_thread(self._store.open_runs)]
            named = {name for c in configs for name in (*(c.roster or ()), *c.required_silos)}
            places = sum(c.num_silos or 1 for c in configs if c.roster is None)
            self._wanted = Wanted(frozenset(named), places)
        return self._wanted

    async def forget(self, away_s: float) -> None:
        """Let the names go of which nothing was heard for so long.

        One that comes at this moment has to join again.
        """
        gone = {name for name in self.names if self._away_s(name) >= away_s}
        if not gone:
            return
        await asyncio.to_thread(self._store.forget_silos, sorted(gone))
        self.names -= gone
        self._sessions.forget(gone)
        self._on_gone(gone)

    def _away_s(self, name: str) -> float:
        session = self._sessions.of(name)
        return self._sessions.now() - (self._began if session is None else session.last_seen)
