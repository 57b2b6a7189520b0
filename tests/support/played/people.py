"""People of a test: a database in memory, the admin's token, and persons with other roles."""

import time
from collections.abc import Callable

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from domo_server.people.credentials import digest
from domo_server.people.people import People
from domo_server.people.person import Person, Role
from domo_server.store.people import PeopleRows, TokenRow
from domo_server.store.store import Store, time_text
from domo_server.store.tables import metadata

TOKEN = "a-token-of-the-admin-that-is-long-enough"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def rows_in_memory() -> PeopleRows:
    """An empty database; it goes with whoever has it."""
    engine = create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    metadata.create_all(engine)
    return PeopleRows(Store(engine))


def made_people(
    token: str = TOKEN,
    rows: PeopleRows | None = None,
    clock: Callable[[], float] = time.time,
) -> People:
    """People among whom is the admin, with this token."""
    people = People(rows or rows_in_memory(), clock)
    people.keep_local(token)
    return people


def token_of(people: People, name: str, role: Role, ends_in_s: float = 3600.0) -> str:
    """A named token of somebody."""
    token, now = f"domo_of-{name}", time.time()
    row = TokenRow(name, role, digest(token), time_text(now), time_text(now + ends_in_s))
    people._rows.put_token(row)
    return token


def session_of(people: People, name: str, role: Role) -> str:
    """The cookie of somebody who is logged in."""
    return people._begin(Person(name, role), "code")
