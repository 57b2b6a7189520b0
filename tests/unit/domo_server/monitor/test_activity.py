from domo_server.monitor.activity import GROWTH, MULTIPLE, PATIENCE_S, Signs
from domo_server.silos.session import Session

FLOOR_S = 3.0


def hear(signs: Signs, session: Session, now: float) -> None:
    """A heartbeat with nothing new."""
    session.last_seen = now
    signs.look(session, now)


def steps(signs: Signs, session: Session, looks: int) -> None:
    """40 steps between looks, which are 2 s apart."""
    for i in range(looks):
        session.step = 40 * i
        signs.look(session, 2.0 * i)


def silo() -> Session:
    return Session("t", "site-a", "i", "trainer", "cpu", "1.0", 0.0, 2.0)


def test_a_silo_that_was_not_seen_through_a_phase_is_given_time() -> None:
    signs, session = Signs(FLOOR_S), silo()
    assert not signs.rests("site-a", 1e9), "never looked at"
    signs.look(session, 0.0)
    hear(signs, session, 2.0)
    assert not signs.rests("site-a", PATIENCE_S)
    assert signs.rests("site-a", PATIENCE_S + 1)


def test_quick_steps_make_the_floor_the_limit() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase, session.num_steps = "training", 1000
    steps(signs, session, 3)
    assert signs.limit_s("site-a") == FLOOR_S
    assert not signs.rests("site-a", 9.0), "nothing was heard of it at all"
    hear(signs, session, 6.0)
    assert not signs.rests("site-a", 4.0 + FLOOR_S)
    assert signs.rests("site-a", 4.1 + FLOOR_S)


def test_slow_steps_are_waited_for() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase = "training"
    signs.look(session, 0.0)
    session.step = 2
    signs.look(session, 20.0)
    assert signs.limit_s("site-a") == MULTIPLE * 10.0


def test_a_rest_that_was_too_long_makes_the_next_limit_a_little_longer() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase = "training"
    steps(signs, session, 3)
    hear(signs, session, 6.0)
    assert signs.rests("site-a", 14.0)
    session.step += 40
    signs.look(session, 14.0)
    assert signs.limit_s("site-a") == GROWTH * FLOOR_S
    hear(signs, session, 14.0 + GROWTH * FLOOR_S + 1.0)
    assert signs.rests("site-a", 14.0 + GROWTH * FLOOR_S + 1.0), "it hangs again"


def test_a_hang_that_a_silo_counts_as_a_step_is_learned_once() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase, session.longest_step_s = "training", 0.1
    steps(signs, session, 3)
    session.longest_step_s = 60.0
    for i in range(5):
        session.step += 1
        signs.look(session, 70.0 + i)
    assert signs.limit_s("site-a") == GROWTH * FLOOR_S


def test_bytes_and_phases_are_signs_and_each_phase_has_its_own_limit() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase = "evaluating"
    signs.look(session, 0.0)
    session.phase = "training"
    signs.look(session, 30.0)
    assert signs.limit_s("site-a") == PATIENCE_S
    session.phase = "uploading"
    signs.look(session, 31.0)
    session.bytes_sent = 1
    signs.look(session, 32.0)
    assert signs.limit_s("site-a") == MULTIPLE * 1.0
    session.frames = 1
    hear(signs, session, 37.0)
    assert not signs.rests("site-a", 37.0)
    session.phase = "evaluating"
    signs.look(session, 38.0)
    assert signs.limit_s("site-a") == MULTIPLE * 30.0


def test_what_a_silo_says_of_its_steps_counts_from_its_first_heartbeat_on() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase = "evaluating"
    signs.look(session, 0.0)
    session.phase, session.step, session.longest_step_s = "training", 1, 0.25
    signs.look(session, 2.0)
    assert signs.limit_s("site-a") == FLOOR_S
    session.step, session.longest_step_s = 2, 2.0
    signs.look(session, 4.0)
    assert signs.limit_s("site-a") == MULTIPLE * 2.0


def test_the_rest_at_the_end_of_a_round_is_no_step() -> None:
    signs, session = Signs(FLOOR_S), silo()
    session.phase, session.round_index = "training", 0
    steps(signs, session, 2)
    session.round_index, session.step = 1, 10
    signs.look(session, 4.0)
    session.phase = "uploading"
    signs.look(session, 6.0)
    session.phase = "training"
    signs.look(session, 8.0)
    assert signs.limit_s("site-a") == FLOOR_S
