"""Who has an identity that two processes have."""

import asyncio
from collections.abc import Callable

import pytest

from domo.errors import CoordinatorUnavailableError
from domo_server.silos import claims
from domo_server.silos.claims import Claim, holder
from domo_server.silos.session import Process, Session
from domo_server.silos.sessions import RETURN_S, SOON_S, Sessions


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
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    monkeypatch.setattr(claims, "LOOK_S", 0.0)
    return Ticking()


@pytest.fixture
def sessions(clock: Ticking) -> Sessions:
    made = Sessions(2.0, clock)
    clock.now += 2 * RETURN_S  # not just started
    return made


def join(sessions: Sessions, before: str = "", place: str = "a (10.0.0.7)") -> Session:
    process = Process(place, before, attends=True)
    session = sessions.join("site-a", "i", None, "trainer", "cpu", "1.0", process)
    session.attended = True  # for a while, until it is said to attend
    return session


def beats(sessions: Sessions, clock: Ticking, session: Session, *after_s: float) -> None:
    """Heartbeats of a session, so many seconds from now."""

    def beat() -> None:
        sessions.next_report_s(sessions.get(session.token))

    clock.at = [(clock.now + s, beat) for s in after_s]


def asked(sessions: Sessions, before: str = "") -> Session | None:
    return asyncio.run(holder(sessions, Claim("site-a", "i", Process("b (10.0.0.8)", before))))


def test_a_process_that_lives_keeps_its_name(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    first.attending = 1
    beats(sessions, clock, first, 1.9, 2.4)
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


def test_what_was_on_its_way_is_no_life(sessions: Sessions, clock: Ticking) -> None:
    """It was killed on a slow link: megabytes are before its last heartbeat, and its end behind."""
    first = join(sessions)
    first.attending = 1
    beats(sessions, clock, first, 3.5)

    def ends() -> None:
        first.attending = 0

    clock.at.append((clock.now + 4.0, ends))
    assert asked(sessions) is None


def test_one_whose_name_is_wanted_is_heard_sooner(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    first.attending, sessions.report_interval_s = 1, 20.0
    assert sessions.next_report_s(first) == 20.0
    beats(sessions, clock, first, 19.0)
    first.awaited = True
    assert sessions.next_report_s(first) == SOON_S
    assert first.interval_s == 20.0
    beats(sessions, clock, first, 19.0, 19.0 + SOON_S)
    assert asked(sessions) is first


def test_a_silo_that_was_away_for_a_moment_takes_its_name_back_once(
    sessions: Sessions, clock: Ticking
) -> None:
    first = join(sessions)
    clone = join(sessions, place="b (10.0.0.8)")  # while the first one's connection was broken
    clone.attending = 1
    assert asked(sessions, before=first.token) is None
    again = join(sessions, before=first.token)
    again.attending = 1
    beats(sessions, clock, again, 2.0, 2.5)
    assert asked(sessions, before=clone.token) is again


def test_not_after_long(sessions: Sessions, clock: Ticking) -> None:
    first = join(sessions)
    moved = join(sessions, place="b (10.0.0.8)")
    moved.attending = 1
    clock.now += RETURN_S
    sessions.get(moved.token)
    beats(sessions, clock, moved, 2.0, 2.5)
    assert asked(sessions, before=first.token) is moved


def test_after_a_restart_of_the_coordinator_who_was_there_has_it(clock: Ticking) -> None:
    sessions = Sessions(2.0, clock)
    clone = join(sessions)
    clone.attending = 1
    assert asked(sessions, before="of-the-coordinator-before") is None
    again = join(sessions, before="of-the-coordinator-before")
    again.attending = 1
    beats(sessions, clock, again, 2.0, 2.5)
    assert asked(sessions, before=clone.token) is again


def test_one_that_has_no_stream_yet_is_there_too(sessions: Sessions, clock: Ticking) -> None:
    """It has just joined, or somebody in between lets no stream through."""
    first = join(sessions)
    first.attended = False
    beats(sessions, clock, first, 1.5, 3.5)
    assert asked(sessions) is first
    sessions.broke(first)
    assert asked(sessions) is None


def test_few_wait_for_one_name(sessions: Sessions, clock: Ticking) -> None:
    """Each looks ten times a second: a silo that asks a thousand times at once costs no more."""
    first = join(sessions)
    first.attending = 1

    async def many() -> list[object]:
        claim = Claim("site-a", "i", Process())
        return await asyncio.gather(
            *(holder(sessions, claim) for _ in range(50)), return_exceptions=True
        )

    found = asyncio.run(many())
    assert found.count(None) == claims.MOST_CLAIMS  # it says nothing any more
    refused = [one for one in found if one is not None]
    assert all(isinstance(one, CoordinatorUnavailableError) for one in refused)
    assert first.claims == 0
