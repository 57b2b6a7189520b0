"""When certificates end: those that silos show (mTLS), the coordinator's, the page's; in time."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from domo_proto.certificates import soon_at, term_of_file, time_left
from domo_server.silos.session import Session
from domo_server.silos.sessions import Sessions

LOOK_S = 3600.0
"""How often the watch looks."""


class Expiry:
    """Says each certificate that ends soon once, and once more when it has ended.

    Args:
        sessions: Silos with their certificates' ends.
        say: Records an event of this kind: its text, and `silo_id`.
        clock: Seconds since 1970.

    Attributes:
        own_begin, own_end: Of the coordinator's certificate, seconds since 1970; None: it has none.
        page_term: Says the same of the page's.
    """

    def __init__(
        self,
        sessions: Sessions,
        say: Callable[..., None],
        clock: Callable[[], float] = time.time,
    ):
        self._sessions, self._say, self._clock = sessions, say, clock
        self._said: set[tuple[str, float, bool]] = set()
        self.own_begin = 0.0
        self.own_end: float | None = None
        self.page_term: Callable[[], tuple[float, float] | None] = lambda: None

    def take_own(self, cert: Path) -> None:
        """The coordinator's certificate, as it is served from now on."""
        self.own_begin, self.own_end = term_of_file(cert, "tls cert")

    def look(self) -> None:
        """Say what is to be said now."""
        self._check(None, self.own_begin, self.own_end, "the coordinator's certificate")
        if (page := self.page_term()) is not None:
            self._check(None, *page, "the page's certificate")
        for session in self._sessions.all():
            if session.phase != "offline":
                self.look_at(session)

    def look_at(self, session: Session) -> None:
        """Say what is to be said of one silo's certificate."""
        name, begin = session.silo_id, session.certificate_begin
        self._check(name, begin, session.certificate_end, f"the certificate of {name}")

    def _check(self, silo_id: str | None, begin: float, end: float | None, what: str) -> None:
        now = self._clock()
        if end is None or now < soon_at(begin, end) or (what, end, end <= now) in self._said:
            return
        self._said.add((what, end, end <= now))
        when = "has expired" if end <= now else f"expires in {time_left(end - now)}"
        mend = "renew it; a new one is read by itself"
        self._say(f"{what} {when}: {mend}", silo_id=silo_id)

    async def watch(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)
