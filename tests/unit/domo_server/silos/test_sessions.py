import time

import pytest

from domo.errors import SiloConflictError
from domo_proto.errors import SessionError
from domo_server.silos.session import Session
from domo_server.silos.sessions import (
    BROKE,
    MOST_BEATS,
    NOT_SEEN,
    SILENT,
    Sessions,
    lease_s,
    quiet_s,
)
from domo_server.store.store import time_text
from tests.support.played.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(2.0, clock)


def join(sessions: Sessions, instance: str, known: str | None, silo: str = "site-a") -> Session:
    return sessions.join(silo, instance, known, "trainer", "cpu", "1.0")


def test_a_new_name_joins(sessions: Sessions) -> None:
    session = join(sessions, "i1", None)
    assert sessions.get(session.token) is session
    assert sessions.of("site-a") is session
    assert sessions.is_online("site-a")
    assert not sessions.is_online("site-b")
    assert sessions.of("site-b") is None


def test_the_same_instance_replaces_its_session_at_once(sessions: Sessions) -> None:
    old = join(sessions, "i1", None)
    old.bytes_sent, old.bytes_received = 7, 9
    new = join(sessions, "i1", "i1")
    with pytest.raises(SessionError, match="join again"):
        sessions.get(old.token)
    assert sessions.get(new.token) is sessions.of("site-a") is new
    assert (new.bytes_sent, new.bytes_received) == (7, 9)


def test_another_instance_is_refused_while_the_first_is_online(sessions: Sessions) -> None:
    first = join(sessions, "i1", None)
    with pytest.raises(SiloConflictError, match="taken by another silo, which is connected now"):
        join(sessions, "i2", "i1")
    assert sessions.get(first.token) is first


@pytest.mark.parametrize("left", [True, False])
def test_and_afterwards_too(left: bool, sessions: Sessions, clock: Clock) -> None:
    first = join(sessions, "i1", None)
    if left:
        sessions.leave(first)
    else:
        clock.now += lease_s(first.interval_s)
    assert not sessions.is_online("site-a")
    with pytest.raises(SiloConflictError) as caught:
        join(sessions, "i2", "i1")
    assert "connected now" not in str(caught.value)
    assert "domo rebind site-a" in str(caught.value)


def test_a_name_from_before_a_restart_is_kept_for_its_instance(sessions: Sessions) -> None:
    with pytest.raises(SiloConflictError):
        join(sessions, "i2", "i1")
    assert join(sessions, "i1", "i1").silo_id == "site-a"


def test_a_silo_whose_name_was_let_go_comes_with_a_new_instance(sessions: Sessions) -> None:
    """`known_instance` is None then: the coordinator has forgotten the old one."""
    old = join(sessions, "i1", None)
    new = join(sessions, "i2", None)
    assert sessions.of("site-a") is new
    with pytest.raises(SessionError):
        sessions.get(old.token)


def test_calls_keep_a_lease_alive(sessions: Sessions, clock: Clock) -> None:
    session = join(sessions, "i1", None)
    assert lease_s(session.interval_s) == 10.0
    for _ in range(3):
        clock.now += 9.9
        assert sessions.is_online("site-a")
        sessions.get(session.token)
    clock.now += 10.0
    assert not sessions.is_online("site-a")
    assert sessions.get(session.token) is session  # late, but nobody else took its place
    assert sessions.is_online("site-a")


def test_short_intervals_still_give_five_seconds() -> None:
    assert lease_s(0.1) == 5.0


def test_a_silo_that_left_has_no_session(sessions: Sessions, clock: Clock) -> None:
    session = join(sessions, "i1", None)
    clock.now += 3
    sessions.leave(session)
    with pytest.raises(SessionError):
        sessions.get(session.token)
    assert not sessions.is_online("site-a")
    clock.now += 60
    status = sessions.status("site-a", "trainer", "1.0")
    assert (status.phase, status.last_seen_s) == ("offline", 60.0)


def test_status(sessions: Sessions, clock: Clock) -> None:
    unseen = sessions.status("site-b", "evaluator", "0.9")
    assert (unseen.phase, unseen.role, unseen.last_seen_s) == ("offline", "evaluator", None)
    before = time_text(time.time() - 7200)
    known = sessions.status("site-b", "trainer", "0.9", last_seen=before)
    assert known.last_seen_s == pytest.approx(7200, abs=5)
    session = join(sessions, "i1", None)
    session.phase, session.step, session.num_steps = "training", 3, 12
    clock.now += 1.25
    status = sessions.status("site-a", "trainer", "1.0")
    assert (status.phase, status.step, status.num_steps, status.last_seen_s) == (
        "training",
        3,
        12,
        1.25,
    )
    clock.now += 10
    assert sessions.status("site-a", "trainer", "1.0").phase == "offline"


def test_tokens_do_not_repeat(sessions: Sessions) -> None:
    tokens = {join(sessions, "i", None, f"s{i}").token for i in range(20)}
    assert len(tokens) == 20
    assert all(len(t) == 32 for t in tokens)


def test_why_a_silo_is_away(sessions: Sessions, clock: Clock) -> None:
    session = join(sessions, "i1", None)
    assert sessions.away("site-a") is None
    assert sessions.away("site-b") == NOT_SEEN
    clock.now += 4.4
    assert sessions.away("site-a") is None
    clock.now += 0.1
    assert sessions.away("site-a") == SILENT
    assert sessions.is_online("site-a"), "rounds wait longer"
    session.attending = 1
    sessions.broke(session)
    assert sessions.away("site-a") == SILENT, "another call is still held"
    session.attending = 0
    sessions.broke(session)
    assert sessions.away("site-a") == BROKE
    sessions.get(session.token)
    assert sessions.away("site-a") is None
    sessions.broke(session)
    assert sessions.away("site-a", broken_s=3.0) is None
    clock.now += 3.0
    assert sessions.away("site-a", broken_s=3.0) == BROKE
    sessions.leave(session, "stopped by its operator")
    assert sessions.away("site-a") == "left: stopped by its operator"
    assert sessions.away_text("site-a") == "left: stopped by its operator"
    assert not sessions.is_current(session)


def test_long_intervals_are_waited_for() -> None:
    assert quiet_s(10.0) == 20.5


def test_of_more_silos_each_reports_less_often(sessions: Sessions, clock: Clock) -> None:
    """Together they send `MOST_BEATS` a second; each is waited for as it was told itself."""
    first = join(sessions, "i1", None)
    assert sessions.next_report_s(first) == 2.0
    many = [
        sessions.join(f"s{k}", f"j{k}", None, "trainer", "cpu", "1.0")
        for k in range(3 * int(MOST_BEATS) - 1)
    ]
    assert sessions.next_report_s(many[0]) == 3.0
    assert sessions.next_report_s(first) == 3.0
    clock.now += 6.4
    assert sessions.away("site-a") is None
    assert sessions.away("s0") is None
    assert sessions.away("s1") == SILENT, "it was told of 2 s, and nothing since"
    clock.now += 0.1
    assert sessions.away("site-a") == SILENT
    for session in many[1:]:
        sessions.leave(session)
    assert sessions.next_report_s(first) == 2.0
