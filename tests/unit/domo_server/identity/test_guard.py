"""Who is let in: what the check of a call says without a server."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from domo.errors import AccessError
from domo_server.events.repeated import Repeated
from domo_server.identity import guard
from domo_server.identity.admitted import Rules
from domo_server.identity.guard import ROSTER, ROSTER_S, Guard
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_database
from domo_server.store.store import Store

A, B = "site-a", "site-b"


class Nobody:
    """A call without a certificate."""

    def auth_context(self) -> dict[str, Any]:
        return {}

    def peer(self) -> str:
        return "ipv4:10.0.0.7:1234"


@pytest.fixture
def admissions(tmp_path: Path) -> Iterator[Admissions]:
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    yield Admissions(store)
    store.close()


def test_a_call_without_a_certificate_is_none_where_silos_must_show_one(
    admissions: Admissions,
) -> None:
    """TLS sees to it; were that set wrongly one day, nobody would be checked."""
    said: list[str] = []

    async def calls() -> None:
        it = Guard(admissions, Repeated(lambda *of: said.append(of[1])), print, list)
        with it.call(Nobody()):
            it.speaks_for(A)  # no certificates here: anybody may
        it.rules = Rules(mutual=True)
        with pytest.raises(AccessError, match="must show a certificate"), it.call(Nobody()):
            pass

    asyncio.run(calls())
    assert len(said) == 1
    assert "10.0.0.7" in said[0]


def test_who_only_rosters_named_goes_out_some_time_after_the_last_of_them(
    admissions: Admissions,
) -> None:
    named = {A, B}
    later = [0.0]
    it = Guard(admissions, Repeated(print), print, lambda: named, lambda: time.time() + later[0])
    for name in (A, B):
        admissions.admit(name, ROSTER)
    admissions.admit("site-c", "an admin")
    it.admitted.load()
    named.discard(B)
    later[0] = ROSTER_S - 60
    it.sweep()
    assert not it.admitted.load()
    later[0] = ROSTER_S + 60
    named.discard(A)
    it.sweep()
    assert it.admitted.load()
    assert [row.silo_id for row in admissions.all()] == ["site-c"]


def test_a_bug_does_not_end_the_watch(
    admissions: Admissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would be cut off any more, and nobody would know."""
    looks: list[int] = []

    async def watches() -> None:
        found = Guard(admissions, Repeated(print), print, list)
        found.rules = Rules(mutual=True)

        async def changed() -> None:
            looks.append(1)
            raise RuntimeError("a bug")

        monkeypatch.setattr(found, "changed", changed)
        watch = asyncio.create_task(found.watch())
        await asyncio.wait([watch], timeout=0.5)
        watch.cancel()

    monkeypatch.setattr(guard, "LOOK_S", 0.001)
    asyncio.run(watches())
    assert len(looks) > 1
