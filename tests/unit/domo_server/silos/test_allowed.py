"""How many calls peers may make."""

import asyncio

import pytest

from domo.errors import CoordinatorUnavailableError
from domo_proto.errors import SessionError, TooManyCallsError
from domo_server.silos import allowed, rates
from domo_server.silos.allowed import CALLS_PER_ROUND, MOST_CALLS, MOST_REPORTS, Allowed, HeldBack
from domo_server.silos.rates import Rates
from domo_server.silos.sessions import Sessions


def test_a_flood_of_calls_is_cut_and_each_round_is_a_reason_for_some() -> None:
    silo = Allowed(2.0)
    made = sum(silo.call(0) for _ in range(10 * MOST_CALLS))
    assert MOST_CALLS <= made < MOST_CALLS + 20
    assert [silo.call(1) for _ in range(CALLS_PER_ROUND)] == [True] * CALLS_PER_ROUND
    assert sum(silo.call(1) for _ in range(100)) < 20
    assert sum(silo.call(10**6) for _ in range(2 * MOST_CALLS)) < MOST_CALLS + 20


@pytest.mark.parametrize("interval_s", [0.05, 2.0, 60.0])
def test_heartbeats_have_a_rate_of_their_own_by_what_was_asked_for(interval_s: float) -> None:
    silo = Allowed(interval_s)
    made = sum(silo.report() for _ in range(1000))
    assert MOST_REPORTS <= made < MOST_REPORTS + 30
    assert silo.call(0)


def test_a_silo_that_joins_again_has_no_new_allowance() -> None:
    sessions = Sessions(2.0)
    join = {"silo_id": "a", "instance_id": "i", "known_instance": None, "role": "trainer"}
    first = sessions.join(**join, device="", software_version="")
    second = sessions.join(**join, device="", software_version="")
    assert first is not second
    assert first.allowed is second.allowed


def test_errors_of_one_address_end_late_where_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allowed, "MOST_ERRORS", 3)
    monkeypatch.setattr(allowed, "ERRORS_PER_S", 0.0)
    monkeypatch.setattr(allowed, "MOST_HELD_BACK", 2)
    monkeypatch.setattr(allowed, "HELD_BACK_S", 60.0)

    async def main() -> None:
        back, error = HeldBack(), SessionError("over")

        async def late(error: Exception, peer: str) -> bool:
            task = asyncio.create_task(back.errs(error, peer))
            await asyncio.sleep(0)
            return not task.done()

        assert not any([await late(error, f"ipv4:10.0.0.7:{port}") for port in range(3)])
        assert await late(error, "ipv4:10.0.0.7:9999")  # of whatever port
        assert not await late(error, "ipv4:10.0.0.8:1")
        assert not await late(CoordinatorUnavailableError("x"), "ipv6:%5B::1%5D:1")
        assert await late(TooManyCallsError("x"), "ipv4:10.0.0.9:1")
        assert not await late(error, "ipv4:10.0.0.7:1")  # so many are held at most
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
        assert await late(error, "ipv4:10.0.0.7:1")  # whose call is gone leaves its place
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(main())


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_SOURCES", 10)
    kept = Rates(2, 0.0)
    assert [kept.take("10.0.0.1") for _ in range(3)] == [True, True, False]
    for i in range(1000):
        assert kept.take(f"10.1.{i // 256}.{i % 256}")
    assert len(kept._of) == 10
