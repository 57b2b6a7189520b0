"""Who a secret belongs to: tokens, codes that are good once, and the sessions of browsers.

All of it is in the database, by digest, so that what is revoked is revoked with the next request,
and what a restart finds is what there was.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Literal, TypeVar, cast

from domo.errors import AccessError, TransportError
from domo_server.people.credentials import digest, new_code, new_token
from domo_server.people.person import THE_ADMIN, Person, Role
from domo_server.store.people import CodeRow, PeopleRows, SessionRow, TokenRow
from domo_server.store.store import time_text

T = TypeVar("T")
Origin = Literal["token", "code", "oidc"]
"""How somebody has logged in."""

SESSION_S = 12 * 3600.0
"""How long a session may last."""
IDLE_S = 2 * 3600.0
"""How long it may rest; a page that is open does not."""
CODE_S = 300.0
"""How long a log-in code may wait for its use."""
SEEN_S = 60.0
"""How exact the last use of a session is recorded."""
USED_S = 600.0
"""How exact the last use of a token is recorded."""


class People:
    """Finds people by what they show. Used from the event loop; the database is asked on a thread.

    The thread is one for all: whoever sends wrong tokens by the thousand waits for himself, and
    takes no thread from the rounds.

    Args:
        rows: What is known.
        clock: Seconds since 1970.
    """

    def __init__(self, rows: PeopleRows, clock: Callable[[], float] = time.time):
        self._rows, self._clock = rows, clock
        self._thread = ThreadPoolExecutor(1, "people")

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    async def _ask(self, look: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    # a token with each request

    async def by_token(self, token: str) -> Person:
        """Whose token this is.

        Raises:
            AccessError: Nobody's, or it has ended or was revoked.
        """
        row = await self._ask(lambda: self._token(token))
        return Person(row.name, cast(Role, row.role))

    def _token(self, token: str) -> TokenRow:
        row, now = self._rows.token(digest(token)), self._now()
        if row is None:
            raise AccessError("this is no token of this coordinator")
        if row.revoked_at is not None:
            raise AccessError(f"the token {row.name} was revoked at {row.revoked_at}")
        if row.ends_at is not None and row.ends_at <= now:
            raise AccessError(f"the token {row.name} ended at {row.ends_at}")
        if self._is_older(row.used_at, USED_S):
            self._note(lambda: self._rows.used_token(row.digest, now))
        return row

    # logging in and out

    async def by_code(self, code: str) -> tuple[Person, str]:
        """Begin a session by a log-in code, which is used up: who, and the value of the cookie.

        Raises:
            AccessError: It was used already, has ended, or never was one.
        """
        return await self._ask(lambda: self._by_code(code))

    def _by_code(self, code: str) -> tuple[Person, str]:
        row = self._rows.take_code(digest(code))
        if row is None or row.ends_at <= self._now():
            raise AccessError(
                "this log-in code is not valid (any more): each is good once, for "
                f"{CODE_S / 60:.0f} minutes"
            )
        person = Person(row.name, cast(Role, row.role))
        return person, self._begin(person, "code")

    async def log_in(self, token: str) -> tuple[Person, str]:
        """Begin a session by a token, with which it ends: who, and the value of the cookie.

        Raises:
            AccessError: As of `by_token`.
        """
        return await self._ask(lambda: self._log_in(token))

    def _log_in(self, token: str) -> tuple[Person, str]:
        row = self._token(token)
        person = Person(row.name, cast(Role, row.role))
        return person, self._begin(person, "token", row.name, row.ends_at)

    async def begin(self, person: Person, origin: Origin) -> str:
        """Begin the session of somebody who has proved who this is; the value of the cookie."""
        return await self._ask(lambda: self._begin(person, origin))

    def _begin(
        self, person: Person, origin: Origin, token: str | None = None, ends_at: str | None = None
    ) -> str:
        cookie, now = new_token(), self._now()
        end = self._now(SESSION_S)
        if ends_at is not None:
            end = min(end, ends_at)
        row = SessionRow(digest(cookie), person.name, person.role, origin, now, now, end, token)
        self._rows.put_session(row)
        return cookie

    async def find(self, cookie: str) -> Person | None:
        """Whose session this is; None: nobody's any more."""
        row = await self._ask(lambda: self._session(cookie))
        return None if row is None else Person(row.name, cast(Role, row.role))

    def _session(self, cookie: str) -> SessionRow | None:
        row, now = self._rows.session(digest(cookie)), self._now()
        if row is None or row.ends_at <= now or self._is_older(row.seen_at, IDLE_S):
            return None
        if self._is_older(row.seen_at, SEEN_S):
            self._note(lambda: self._rows.used_session(row.digest, now))
        return row

    async def end(self, cookie: str) -> None:
        """End a session for good."""
        await self._ask(lambda: self._rows.end_session(digest(cookie)))

    # what the operator of this machine has

    def start(self, token: str) -> None:
        """Begin with the settings of this start: the token in the file, and roles at a provider.

        Sessions that began there end, as the settings may give those people other roles now, or
        none.
        """
        self.keep_local(token)
        self._rows.end_sessions_by("oidc")

    def keep_local(self, token: str) -> None:
        """The token in the file admin-token is this; with another one the old one is void."""
        known = self._rows.token_named(THE_ADMIN)
        if known is None or known.digest != digest(token):
            self._rows.put_token(TokenRow(THE_ADMIN, "admin", digest(token), self._now()))

    def make_code(self, name: str, role: Role) -> str:
        """A code that logs somebody in, once and soon."""
        code = new_code()
        self._rows.put_code(CodeRow(digest(code), name, role, self._now(CODE_S)))
        return code

    def _now(self, plus_s: float = 0.0) -> str:
        return time_text(self._clock() + plus_s)

    def _is_older(self, at: str | None, seconds: float) -> bool:
        return at is None or self._clock() - datetime.fromisoformat(at).timestamp() > seconds

    def _note(self, write: Callable[[], None]) -> None:
        """When something was used last: nobody is turned away as the disk is full."""
        try:
            write()
        except TransportError:
            return
