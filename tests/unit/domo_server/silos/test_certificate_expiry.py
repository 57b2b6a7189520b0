import pytest

from domo_server.silos.certificate_expiry import Expiry
from domo_server.silos.sessions import Sessions
from tests.support.played.clock import Clock

DAY_S = 86_400.0


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


def test_each_is_said_once_and_once_more_when_it_has_ended(clock: Clock) -> None:
    sessions, said = Sessions(2.0), list[tuple[str, str]]()
    expiry = Expiry(sessions, lambda text, silo_id: said.append((text, silo_id)), clock)
    for name, days in (("site-a", 20), ("site-b", 100)):
        session = sessions.join(name, "i", None, "trainer", "cpu", "1")
        session.certificate_begin, session.certificate_end = -100 * DAY_S, days * DAY_S
    sessions.join("site-c", "i", None, "trainer", "cpu", "1")
    for day in (0, 5.9):
        clock.now = day * DAY_S
        expiry.look()
    assert said == []
    for day in (6.5, 7, 19):
        clock.now = day * DAY_S
        expiry.look()
    mend = "renew it; a new one is read by itself"
    first = (f"the certificate of site-a expires in 13 days: {mend}", "site-a")
    assert said == [first]
    for day in (20, 21):
        clock.now = day * DAY_S
        expiry.look()
    ended = (f"the certificate of site-a has expired: {mend}", "site-a")
    assert said == [first, ended]


def test_a_short_one_ends_soon_in_the_last_third_of_its_time(clock: Clock) -> None:
    """It is renewed at half of it, and nobody has to look."""
    sessions, said = Sessions(2.0), list[str]()
    expiry = Expiry(sessions, lambda text, silo_id: said.append(text), clock)
    session = sessions.join("site-a", "i", None, "trainer", "cpu", "1")
    clock.now = 1000 * DAY_S
    session.certificate_begin, session.certificate_end = clock.now, clock.now + 90.0
    for seconds in (0, 45, 59):
        clock.now = 1000 * DAY_S + seconds
        expiry.look()
    assert said == []
    clock.now = 1000 * DAY_S + 61
    expiry.look()
    assert said == [
        "the certificate of site-a expires in 29 s: renew it; a new one is read by itself"
    ]


def test_the_coordinators_own_and_a_silo_that_left(clock: Clock) -> None:
    sessions, said = Sessions(2.0), list[str]()
    session = sessions.join("site-a", "i", None, "trainer", "cpu", "1")
    session.certificate_end = 1.5 * DAY_S
    sessions.leave(session)
    expiry = Expiry(sessions, lambda text, silo_id: said.append(text), clock)
    expiry.own_begin, expiry.own_end = -100 * DAY_S, 1.5 * DAY_S
    expiry.look()
    assert said == [
        "the coordinator's certificate expires in 1 day: renew it; a new one is read by itself"
    ]


def test_the_pages_own_too_and_a_new_one_of_it(clock: Clock) -> None:
    said = list[str]()
    expiry = Expiry(Sessions(2.0), lambda text, silo_id: said.append(text), clock)
    begin, end = -100 * DAY_S, 13.5 * DAY_S
    expiry.page_term = lambda: (begin, end)
    expiry.own_begin, expiry.own_end = begin, end  # of the same file: both are said
    expiry.look()
    expiry.look()
    mend = "renew it; a new one is read by itself"
    assert said == [
        f"the coordinator's certificate expires in 13 days: {mend}",
        f"the page's certificate expires in 13 days: {mend}",
    ]
    end = expiry.own_end = 90 * DAY_S
    clock.now = 20 * DAY_S
    expiry.look()
    assert len(said) == 2
