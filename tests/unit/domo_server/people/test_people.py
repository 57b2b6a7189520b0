"""Whose a secret is, and until when."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from domo.errors import AccessError, CoordinatorUnavailableError
from domo_server.people.credentials import digest
from domo_server.people.people import CODE_S, IDLE_S, SEEN_S, SESSION_S, USED_S, People
from domo_server.people.person import ANYBODY, ROLES, THE_ADMIN, Person
from domo_server.store.database import open_database
from domo_server.store.people import PeopleRows, TokenRow
from domo_server.store.store import Store, now_text, time_text
from tests.support.played.people import TOKEN, made_people, rows_in_memory


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rows() -> PeopleRows:
    return rows_in_memory()


@pytest.fixture
def people(rows: PeopleRows, clock: Clock) -> Iterator[People]:
    people = made_people(TOKEN, rows, clock)
    yield people
    people.close()


def test_a_role_may_what_those_before_it_may() -> None:
    may = {role: [r for r in ROLES if Person("x", role).may(r)] for role in ROLES}
    assert may == {
        "viewer": ["viewer"],
        "auditor": ["viewer", "auditor"],
        "admin": ["viewer", "auditor", "admin"],
    }
    assert ANYBODY.role == "viewer"


def test_a_session_ends_at_its_end_and_when_it_rests(people: People, clock: Clock) -> None:
    async def go() -> None:
        anna = Person("anna", "auditor")
        cookie = await people.begin(anna, "oidc")
        began = clock.now
        while clock.now + IDLE_S / 2 < began + SESSION_S:
            clock.now += IDLE_S / 2
            assert await people.find(cookie) == anna
        clock.now = began + SESSION_S
        assert await people.find(cookie) is None, "however often it was used"
        resting = await people.begin(anna, "oidc")
        clock.now += IDLE_S + 1
        assert await people.find(resting) is None
        ended = await people.begin(anna, "oidc")
        await people.end(ended)
        assert await people.find(ended) is None
        assert await people.find("") is None

    asyncio.run(go())


def test_what_has_ended_is_forgotten_with_the_next_log_in(
    people: People, rows: PeopleRows, clock: Clock
) -> None:
    async def go() -> None:
        await people.begin(Person("anna", "viewer"), "oidc")
        people.make_code("anna", "viewer")
        clock.now += SESSION_S + 1
        cookie = await people.begin(Person("berta", "viewer"), "oidc")
        assert [row.digest for row in rows.sessions()] == [digest(cookie)]

    asyncio.run(go())


def test_a_code_is_good_once_and_soon(people: People, clock: Clock) -> None:
    async def go() -> None:
        code = people.make_code("anna", "viewer")
        person, cookie = await people.by_code(code)
        assert person == Person("anna", "viewer")
        assert await people.find(cookie) == person
        late = people.make_code("anna", "viewer")
        clock.now += CODE_S
        for wrong in (code, late, "", TOKEN):
            with pytest.raises(AccessError, match=r"not valid \(any more\)"):
                await people.by_code(wrong)
        with pytest.raises(AccessError, match="no token"):
            await people.log_in(people.make_code("anna", "admin"))

    asyncio.run(go())


def test_of_many_who_use_a_code_at_once_one_gets_in(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"
    open_database(url).dispose()
    several = [People(PeopleRows(Store(open_database(url)))) for _ in range(4)]

    async def go() -> None:
        for _ in range(5):
            code = several[0].make_code("anna", "viewer")
            tries = [people.by_code(code) for people in several for _ in range(2)]
            found = await asyncio.gather(*tries, return_exceptions=True)
            assert sum(not isinstance(one, BaseException) for one in found) == 1
            assert all(isinstance(one, AccessError | tuple) for one in found)

    asyncio.run(go())
    for people in several:
        people.close()
        people._rows._store.close()


def test_tokens_that_ended_or_were_revoked_say_so_to_who_has_them(
    people: People, rows: PeopleRows, clock: Clock
) -> None:
    def put(name: str, ends_in_s: float) -> str:
        at = time_text(clock.now + ends_in_s)
        rows.put_token(TokenRow(name, "viewer", digest(f"domo_{name}"), now_text(), at))
        return f"domo_{name}"

    async def go() -> None:
        assert await people.by_token(put("grafana", 60)) == Person("grafana", "viewer")
        _, cookie = await people.log_in("domo_grafana")
        assert await people.find(cookie) == Person("grafana", "viewer")
        clock.now += 60
        with pytest.raises(AccessError, match=r"the token grafana ended at \d"):
            await people.by_token("domo_grafana")
        assert await people.find(cookie) is None, "it ends with its token"
        await people.by_token(put("berta", 60))
        _, cookie = await people.log_in("domo_berta")
        assert rows.revoke_token("berta", now_text()) == 1
        with pytest.raises(AccessError, match="the token berta was revoked at"):
            await people.by_token("domo_berta")
        assert await people.find(cookie) is None
        for wrong in ("", "domo_", digest(TOKEN), TOKEN + "x", "\ud800"):
            with pytest.raises(AccessError, match="no token of this coordinator"):
                await people.by_token(wrong)

    asyncio.run(go())


def test_another_admin_token_ends_the_old_one_and_what_it_began(people: People) -> None:
    async def go() -> None:
        person, cookie = await people.log_in(TOKEN)
        assert person == Person(THE_ADMIN, "admin")
        people.keep_local(TOKEN)  # a restart
        assert await people.find(cookie) == person
        people.keep_local("domo_another-one-that-is-long")
        assert await people.find(cookie) is None
        with pytest.raises(AccessError):
            await people.by_token(TOKEN)
        assert await people.by_token("domo_another-one-that-is-long") == person

    asyncio.run(go())


def test_the_database_has_no_secret(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    people = made_people(TOKEN, PeopleRows(store))

    async def go() -> list[str]:
        cookie = await people.begin(Person("anna", "admin"), "oidc")
        return [TOKEN, cookie, people.make_code("anna", "admin")]

    secrets = asyncio.run(go())
    people.close()
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert digest(TOKEN).encode() in kept
    for secret in secrets:
        assert secret.encode() not in kept


def test_the_last_use_is_kept_at_a_coarse_rate_and_a_full_disk_turns_nobody_away(
    people: People, rows: PeopleRows, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go() -> None:
        cookie = await people.begin(Person("anna", "viewer"), "oidc")
        written = []
        for name in ("used_session", "used_token"):
            real = getattr(rows, name)

            def write(digest: str, at: str, real: object = real, name: str = name) -> None:
                written.append((name, datetime.fromisoformat(at).timestamp()))
                real(digest, at)  # type: ignore[operator]

            monkeypatch.setattr(rows, name, write)
        for _ in range(60):
            clock.now += SEEN_S / 4
            await people.find(cookie)
            await people.by_token(TOKEN)
        sessions = sum(name == "used_session" for name, _ in written)
        assert 8 <= sessions <= 15
        assert sum(name == "used_token" for name, _ in written) == 60 * SEEN_S / 4 // USED_S + 1

        def full(*_: object) -> None:
            raise CoordinatorUnavailableError("the coordinator's database says: full")

        monkeypatch.setattr(rows, "used_session", full)
        clock.now += SEEN_S + 1
        assert await people.find(cookie) is not None

    asyncio.run(go())


def test_a_restart_finds_the_sessions_that_there_were(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'coordinator.db'}"

    def opened() -> tuple[People, Store]:
        store = Store(open_database(url))
        return made_people(TOKEN, PeopleRows(store)), store

    people, store = opened()
    cookie = asyncio.run(people.begin(Person("anna", "admin"), "oidc"))
    people.close()
    store.close()
    people, store = opened()
    assert asyncio.run(people.find(cookie)) == Person("anna", "admin")
    people.close()
    store.close()


def test_with_a_start_people_of_a_provider_log_in_again() -> None:
    """Its settings may give them other roles now, or none."""
    people = made_people()

    async def main() -> None:
        anna = await people.begin(Person("anna@example.org", "admin"), "oidc")
        _, otto = await people.by_code(people.make_code("otto", "viewer"))
        people.start(TOKEN)
        assert await people.find(anna) is None
        assert await people.find(otto) == Person("otto", "viewer")

    asyncio.run(main())
    people.close()
