"""Who has an identity that two processes have."""

import asyncio
from collections.abc import Callable

import pytest

from domo_server.silos import claims
from domo_server.silos.claims import Claim, holder
from domo_server.silos.session import Process, Session
from domo_server.silos.sessions import RETURN_S, Sessions


class Ticking:
    """A clock that goes on when it is looked at, and does something at a time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.at: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        self.now += 0.05
        while self.at and self.now >= self.at[0][0]:
            self.at.pop(0)[1]()
        return self.now


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def sessions(clock: Ticking, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(claims, "LOOK_S", 0.0)
    made = Sessions(2.0, clock)
    clock.now += 2 * RETURN_S  # not just started
    return made


def join(sessions: Sessions, before: str = "", place: str = "a (10.0.0.7)") -> Session:
    process = Process(place, before, attends=True)
    session = sessions.join("site-a", "i", None, "trainer", "cpu", "1.0", process)
    sessions.broke(session)  # until it is said to attend
    return session


def asked(sessions: Sessions, before: str = "") -> Session | None:
    return asyncio.run(holder(sessions, Claim("site-a", "i", Process("b (10.0.0.8)", before))))


def test_a_process_that_lives_keeps_its_name(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    first.attending = 1
    clock.at = [(clock.now + 1.9, lambda: sessions.get(first.token) and None)]
    assert asked(sessions) is first
    told = str(claims.refusal(Claim("site-a", "i", Process()), first))
    assert "a (10.0.0.7), since " in told
    assert "a new --state-dir" in told
    assert "stop the other one first" in told


def test_one_that_was_killed_has_it_no_more(sessions: Sessions, clock: Ticking) -> None:
    join(sessions)  # its stream broke
    began = clock.now
    assert asked(sessions) is None
    assert clock.now - began < 1.0


def test_nor_one_whose_stream_breaks_while_another_waits(
    sessions: Sessions, clock: Ticking
) -> None:
    first = join(sessions)
    first.attending = 1

    def ends() -> None:
        first.attending = 0

    clock.at = [(clock.now + 0.5, ends)]
    assert asked(sessions) is None
    assert clock.now < first.heard_at + 1.0


def test_a_stream_that_only_looks_open_is_nobody(sessions: Sessions, clock: Ticking) -> None:
    """The machine lost its power: no FIN, and no heartbeat."""
    first = join(sessions)
    first.attending = 1
    first.last_seen = clock.now + 100  # bytes that were written to it say nothing
    assert asked(sessions) is None
    assert 4.4 < clock.now - first.heard_at < 5.0
    assert asked(sessions) is None  # and a second time nobody waits


def test_a_heartbeat_that_was_on_its_way_is_no_life(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    first.attending = 1
    clock.at = [(clock.now + 0.3, lambda: sessions.get(first.token) and None)]
    assert asked(sessions) is None


def test_a_silo_that_was_away_for_a_moment_takes_its_name_back_once(
    sessions: Sessions, clock: Ticking
) -> None:
    first = join(sessions)
    clone = join(sessions, place="b (10.0.0.8)")  # while the first one's connection was broken
    clone.attending = 1
    assert asked(sessions, before=first.token) is None
    again = join(sessions, before=first.token)
    again.attending = 1
    clock.at = [(clock.now + 2.0, lambda: sessions.get(again.token) and None)]
    assert asked(sessions, before=clone.token) is again


def test_not_after_long(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    moved = join(sessions, place="b (10.0.0.8)")
    moved.attending = 1
    clock.now += RETURN_S
    sessions.get(moved.token)
    clock.at = [(clock.now + 2.0, lambda: sessions.get(moved.token) and None)]
    assert asked(sessions, before=first.token) is moved


def test_after_a_restart_of_the_coordinator_who_was_there_has_it(clock: Ticking) -> None:
    sessions = Sessions(2.0, clock)
    clone = join(sessions)
    clone.attending = 1
    assert asked(sessions, before="of-the-coordinator-before") is None
    again = join(sessions, before="of-the-coordinator-before")
    again.attending = 1
    clock.at = [(clock.now + 2.0, lambda: sessions.get(again.token) and None)]
    assert asked(sessions, before=clone.token) is again


def test_one_that_has_just_joined_is_given_a_moment(sessions: Sessions, clock: Ticking) -> None:
    """Two copies that are started at once: the second one waits for what the first one does."""
    first = join(sessions)
    first.broken_at = None  # it has no stream yet

    def attends() -> None:
        first.attending = 1
        sessions.get(first.token)

    clock.at = [(clock.now + 1.5, attends)]
    assert asked(sessions) is first
