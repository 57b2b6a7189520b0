"""What survives of people: tokens, log-in codes and sessions; of their secrets the digests only."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sqlalchemy import delete, insert, select, update

from domo_server.store.store import Store
from domo_server.store.tables import login_codes, people_sessions, people_tokens

T = TypeVar("T")
MOST_SESSIONS = 50
"""Of one person in one role; with one more the oldest ends."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A named token; times as ISO 8601 in UTC.

    Attributes:
        name: Whose it is, as people read it.
        role: What it opens.
        digest: Hex, of the token.
        made_at: When it was made.
        ends_at: When it ends; None: never.
        used_at: When it was last used, about.
        revoked_at: When it was taken back.
    """

    name: str
    role: str
    digest: str
    made_at: str
    ends_at: str | None = None
    used_at: str | None = None
    revoked_at: str | None = None


@dataclass(frozen=True, slots=True)
class CodeRow:
    """A log-in code that has not been used.

    Attributes:
        digest: Hex, of the code.
        name: Who logs in with it.
        role: What the session opens.
        ends_at: When it ends.
    """

    digest: str
    name: str
    role: str
    ends_at: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A browser that is logged in.

    Attributes:
        digest: Hex, of its id.
        name: Who.
        role: What it opens.
        origin: How this person logged in, such as `token`, `code`, `oidc`.
        made_at: When.
        seen_at: When it was last used, about.
        ends_at: When it ends at the latest.
        token: The name of the token that it ends with; None: none.
    """

    digest: str
    name: str
    role: str
    origin: str
    made_at: str
    seen_at: str
    ends_at: str
    token: str | None = None


class PeopleRows:
    """The statements about people; each method is one transaction.

    Args:
        store: Of the coordinator; or opened beside it.
    """

    def __init__(self, store: Store):
        self._store = store

    def _all(self, make: Callable[..., T], statement: Any) -> list[T]:
        with self._store.transaction() as c:
            return [make(**row) for row in c.execute(statement).mappings()]

    def _one(self, make: Callable[..., T], statement: Any) -> T | None:
        found = self._all(make, statement)
        return found[0] if found else None

    # tokens

    def tokens(self) -> list[TokenRow]:
        """All tokens, those that have ended too, by name."""
        return self._all(TokenRow, select(people_tokens).order_by(people_tokens.c.name))

    def token_named(self, name: str) -> TokenRow | None:
        """The token of this name."""
        return self._one(TokenRow, select(people_tokens).where(people_tokens.c.name == name))

    def token(self, digest: str) -> TokenRow | None:
        """The token with this digest."""
        return self._one(TokenRow, select(people_tokens).where(people_tokens.c.digest == digest))

    def put_token(self, row: TokenRow) -> None:
        """Insert a token, in place of the one of its name; sessions of that one end."""
        s, t = people_sessions.c, people_tokens.c
        with self._store.transaction() as c:
            c.execute(delete(people_tokens).where(t.name == row.name))
            c.execute(delete(people_sessions).where(s.token == row.name))
            c.execute(insert(people_tokens).values(**asdict(row)))

    def revoke_token(self, name: str, at: str) -> int:
        """Take a token back; the sessions that it began end. Returns how many."""
        s, t = people_sessions.c, people_tokens.c
        with self._store.transaction() as c:
            c.execute(update(people_tokens).where(t.name == name).values(revoked_at=at))
            return c.execute(delete(people_sessions).where(s.token == name)).rowcount

    def used_token(self, digest: str, at: str) -> None:
        """A token was used."""
        where = people_tokens.c.digest == digest
        with self._store.transaction(in_round=True) as c:
            c.execute(update(people_tokens).where(where).values(used_at=at))

    # log-in codes

    def put_code(self, row: CodeRow) -> None:
        """Insert a code."""
        with self._store.transaction() as c:
            c.execute(insert(login_codes).values(**asdict(row)))

    def take_code(self, digest: str) -> CodeRow | None:
        """Use up a code; of several who try at once one gets it."""
        where = login_codes.c.digest == digest
        with self._store.transaction() as c:
            row = c.execute(select(login_codes).where(where)).mappings().one_or_none()
            taken = row is not None and c.execute(delete(login_codes).where(where)).rowcount == 1
            return CodeRow(**row) if row is not None and taken else None

    # sessions

    def sessions(self) -> list[SessionRow]:
        """All sessions that are kept, oldest first."""
        return self._all(SessionRow, select(people_sessions).order_by(people_sessions.c.made_at))

    def session(self, digest: str) -> SessionRow | None:
        """The session with this digest."""
        return self._one(
            SessionRow, select(people_sessions).where(people_sessions.c.digest == digest)
        )

    def put_session(self, row: SessionRow) -> None:
        """Insert a session; what has ended is forgotten, and the oldest of too many."""
        s = people_sessions.c
        own = (s.name == row.name) & (s.role == row.role)
        kept = select(s.digest).where(own).order_by(s.made_at.desc()).limit(MOST_SESSIONS - 1)
        with self._store.transaction() as c:
            c.execute(delete(people_sessions).where(s.ends_at <= row.made_at))
            c.execute(delete(login_codes).where(login_codes.c.ends_at <= row.made_at))
            c.execute(delete(people_sessions).where(own, s.digest.not_in(kept)))
            c.execute(insert(people_sessions).values(**asdict(row)))

    def used_session(self, digest: str, at: str) -> None:
        """A session was used."""
        where = people_sessions.c.digest == digest
        with self._store.transaction(in_round=True) as c:
            c.execute(update(people_sessions).where(where).values(seen_at=at))

    def end_session(self, digest: str) -> None:
        """End a session for good."""
        with self._store.transaction() as c:
            c.execute(delete(people_sessions).where(people_sessions.c.digest == digest))

    def end_sessions_of(self, name: str) -> int:
        """End all sessions of a person. Returns how many."""
        with self._store.transaction() as c:
            return c.execute(delete(people_sessions).where(people_sessions.c.name == name)).rowcount

    def end_sessions_by(self, origin: str) -> None:
        """End all sessions of people who have logged in so."""
        with self._store.transaction() as c:
            c.execute(delete(people_sessions).where(people_sessions.c.origin == origin))
