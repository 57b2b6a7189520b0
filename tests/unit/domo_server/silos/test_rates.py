"""How much silos may cause, how long they are in their phase, and how fast they move bytes."""

from domo.api.schema import SiloStatus
from domo_server.silos.rates import Bucket, Pace
from tests.support.played.clock import Clock


def test_seconds_in_a_phase() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    silo = SiloStatus(silo_id="a", phase="training")
    assert pace.add_to(silo, "s").phase_s == 0
    now += 3
    assert pace.add_to(silo, "s").phase_s == 3
    now += 1
    assert pace.add_to(silo.model_copy(update={"phase": "uploading"}), "s").phase_s == 0
    now += 2
    assert pace.add_to(silo.model_copy(update={"phase": "uploading"}), "s").phase_s == 2
    gone = silo.model_copy(update={"phase": "offline", "last_seen_s": 60.0})
    assert pace.add_to(gone, "s").phase_s == 60


def test_speeds_are_of_the_last_seconds() -> None:
    now = 100.0
    pace = Pace(lambda: now)

    def speeds(
        sent: int, received: int, phase: str = "uploading", source: object = "s"
    ) -> tuple[float | None, ...]:
        silo = SiloStatus(silo_id="a", phase=phase, bytes_sent=sent, bytes_received=received)
        shown = pace.add_to(silo, source)
        return shown.sent_per_s, shown.received_per_s

    assert speeds(1000, 0) == (0, 0)
    now += 5
    assert speeds(6000, 500) == (1000, 100)
    now += 10
    assert speeds(6000, 500) == (0, 0)  # nothing moved in the last 10 s
    now += 1
    assert speeds(6000, 500, source=None) == (0, 0)  # started again: the counts are not its own
    now += 1
    assert speeds(50, 0, source="again") == (0, 0)
    now += 2
    assert speeds(250, 0, source="again") == (100, 0)
    assert speeds(250, 0, "offline", source="again") == (0, 0)
    now += 600
    assert speeds(90_000, 0, source="again") == (0, 0)  # nobody has looked for long
    # the coordinator was started again: what was sent before is not sent now
    assert speeds(0, 0, source=None) == (0, 0)
    now += 1
    assert speeds(5 * 10**9, 0, source="third") == (0, 0)
    now += 1
    assert speeds(5 * 10**9 + 300, 0, source="third") == (300, 0)


def test_so_much_at_once_and_so_much_a_second() -> None:
    clock = Clock()
    bucket = Bucket(3, 0.5, clock)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    clock.now += 4
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock.now += 1e9
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
