"""Names that nobody vouches for: bounded, and not for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from domo.errors import CoordinatorUnavailableError
from domo.run_config import RunConfig
from domo_proto.errors import TooManyCallsError
from domo_server.coordinator import strangers
from domo_server.coordinator.coordinator import Coordinator
from domo_server.coordinator.strangers import AWAY_S, FORGET_S
from domo_server.events import event_log
from domo_server.silos import allowed
from domo_server.silos.session import Process
from domo_server.store.database import open_database
from domo_server.store.rows import Enrolment
from domo_server.store.store import Store
from tests.support.played.clock import Clock

Work = Callable[[Coordinator, Clock], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MOST_STRANGERS", 3)
    monkeypatch.setattr(strangers, "WANTED_S", 0.0)


def played(folder: Path, work: Work) -> None:
    clock, store = Clock(), Store(open_database(f"sqlite:///{folder / 'c.db'}"))

    async def main() -> None:
        c = Coordinator(store, folder / "state", clock=clock)
        c.registry.load()
        await work(c, clock)
        await c.events.close()

    asyncio.run(main())
    store.close()


async def join(c: Coordinator, name: str, vouched: bool = False, instance: str = "") -> None:
    who = {"silo_id": name, "instance_id": instance or name, "role": "trainer"}
    process = Process(vouched=vouched)
    await c.registry.join({**who, "device": "", "software_version": ""}, process)


async def submit(c: Coordinator, **given: Any) -> None:
    config = RunConfig(task="digits", method="FedAvg", num_rounds=1, local_steps=1, **given)
    await c.submissions.submit_once(config, config.title)


def test_strangers_are_few_and_a_certificate_or_a_roster_makes_no_stranger(tmp_path: Path) -> None:
    async def work(c: Coordinator, clock: Clock) -> None:
        for name in ("a", "b", "c"):
            await join(c, name)
        with pytest.raises(CoordinatorUnavailableError, match="3 silos are known that no run name"):
            await join(c, "d")
        await join(c, "b")  # who is known comes back
        await join(c, "with-a-certificate", vouched=True)
        await submit(c, name="named", roster=["site-a", "site-b"])
        await join(c, "site-b")
        with pytest.raises(CoordinatorUnavailableError):
            await join(c, "site-c")
        await submit(c, name="open", num_silos=2)
        await join(c, "e")
        await join(c, "f")
        with pytest.raises(CoordinatorUnavailableError):
            await join(c, "g")
        assert len(await asyncio.to_thread(c.store.all_silos)) == 7

    played(tmp_path, work)


def test_a_stranger_that_is_away_makes_room_and_goes_after_a_while(tmp_path: Path) -> None:
    async def work(c: Coordinator, clock: Clock) -> None:
        for name in ("a", "b", "c"):
            await join(c, name)
        place = Enrolment("trainer", 1, 0)
        await asyncio.to_thread(c.store.enroll, "1-r", "a", place)
        c.registry.strangers.names.discard("a")
        clock.now += AWAY_S
        b = c.sessions.of("b")
        assert b is not None
        c.sessions.get(b.token)  # is heard
        await join(c, "d")
        await join(c, "e")  # in the place of c
        known = {row.silo_id for row in await asyncio.to_thread(c.store.all_silos)}
        assert known == {"a", "b", "d", "e"}
        assert c.sessions.of("c") is None
        with pytest.raises(CoordinatorUnavailableError):
            await join(c, "c")
        clock.now += AWAY_S
        await join(c, "c", instance="another")  # its name was free
        clock.now += FORGET_S
        await c.registry.strangers.forget(FORGET_S)
        known = {row.silo_id for row in await asyncio.to_thread(c.store.all_silos)}
        assert known == {"a"}
        assert [s.silo_id for s in c.sessions.all()] == ["a"]
        assert not c.registry._joins.keys() - {"a"}
        assert not c.events._rates.keys() - {"a"}
        assert b'silo="b"' not in metrics_of(c)
        assert b'silo="a"' in metrics_of(c)

    def metrics_of(c: Coordinator) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(c.counters.registry)

    played(tmp_path, work)


def test_who_was_a_stranger_is_known_after_a_restart(tmp_path: Path) -> None:
    async def first(c: Coordinator, clock: Clock) -> None:
        for name in ("a", "b", "c"):
            await join(c, name)
        await asyncio.to_thread(c.store.enroll, "1-r", "a", Enrolment("trainer", 1, 0))
        await asyncio.to_thread(c.store.mark_silo, "b", dropped="for a reason")

    async def second(c: Coordinator, clock: Clock) -> None:
        assert c.registry.strangers.names == {"c"}
        await join(c, "d")
        await join(c, "e")
        with pytest.raises(CoordinatorUnavailableError):
            await join(c, "f")
        clock.now += AWAY_S
        await join(c, "f")

    played(tmp_path, first)
    played(tmp_path, second)


def test_many_names_cause_no_more_events_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "MOST_STRANGERS", 40)
    monkeypatch.setattr(event_log, "BURST_OF_STRANGERS", 10)

    async def work(c: Coordinator, clock: Clock) -> None:
        for i in range(40):
            await join(c, f"s{i}")
        await join(c, "known", vouched=True)

    played(tmp_path, work)
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))
    texts = [e.text for e in store.events_after(0, 99)]
    store.close()
    assert len(texts) == 12
    assert "known joined" in texts
    text = "30 more of silos that were in no run so far were left out: they cause more than 10 a"
    assert texts[-1] == f"{text} minute"


def test_one_that_joins_in_a_loop_is_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowed, "MOST_JOINS", 5)
    monkeypatch.setattr(allowed, "JOINS_PER_S", 0.0)

    async def work(c: Coordinator, clock: Clock) -> None:
        for _ in range(6):
            await join(c, "a")
        with pytest.raises(TooManyCallsError, match="a joins too often"):
            await join(c, "a")
        await join(c, "b")

    played(tmp_path, work)
