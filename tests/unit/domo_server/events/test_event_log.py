import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import domo_server.events.event_log
from domo.errors import CoordinatorUnavailableError
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import BURST, EventLog
from domo_server.events.kinds import EventKind
from domo_server.events.notifier import Notifier
from domo_server.store.database import open_database
from domo_server.store.store import Store

KIND = EventKind("kind")


def test_events_are_recorded_in_order_before_the_log_closes(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))

    async def main() -> None:
        events = EventLog(store, Notifier(), Counters())
        for i in range(50):
            events.say(KIND, f"{i}", "1-r" if i % 2 else None, "site-a")
        await events.close()

    asyncio.run(main())
    recorded = store.events_after(0, 99)
    assert [e.text for e in recorded] == [str(i) for i in range(50)]
    assert (recorded[1].run_id, recorded[1].silo_id) == ("1-r", "site-a")
    store.close()


def test_whoever_waits_is_told(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))

    async def main() -> None:
        page = Notifier()
        events = EventLog(store, page, Counters())
        async with asyncio.timeout(60):
            changed = asyncio.create_task(page.changed())
            await asyncio.sleep(0)
            events.say(KIND, "text")
            await changed
        assert len(store.events_after(0, 9)) == 1
        await events.close()

    asyncio.run(main())
    store.close()


def test_an_event_that_cannot_be_recorded_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "add_event", full)

    async def main() -> None:
        page = Notifier()
        events = EventLog(store, page, Counters())
        changed = asyncio.create_task(page.changed())
        await asyncio.sleep(0)
        events.say(KIND, "text")
        async with asyncio.timeout(60):
            await changed
        await events.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "an event was not recorded: [Errno 28] No space left on device" in caplog.text
    store.close()


def test_on_a_full_disk_who_asks_is_not_kept_waiting_and_all_follows_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))
    monkeypatch.setattr(domo_server.events.event_log, "RETRY_S", 0.01)
    monkeypatch.setattr(domo_server.events.event_log, "FLUSH_S", 0.05)
    add, room = store.add_event, threading.Event()

    def may_be_full(*args: Any) -> None:
        if not room.is_set():
            raise CoordinatorUnavailableError("database or disk is full")
        add(*args)

    monkeypatch.setattr(store, "add_event", may_be_full)

    async def main() -> None:
        events = EventLog(store, Notifier(), Counters())
        async with asyncio.timeout(30):
            for i in range(3):
                events.say(KIND, f"{i}")
                await events.flush()
            assert store.events_after(0, 9) == []
            room.set()
            while len(store.events_after(0, 9)) < 3:
                await events.recorded.changed(0.1)
            events.say(KIND, "3")
            await events.flush()
        assert [e.text for e in store.events_after(0, 9)] == ["0", "1", "2", "3"]
        room.clear()
        events.say(KIND, "lost")
        events.hurry()
        async with asyncio.timeout(30):
            await events.close()

    asyncio.run(main())
    store.close()


def test_what_one_silo_causes_beyond_the_rate_is_counted_and_said_once(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))

    async def main() -> None:
        events = EventLog(store, Notifier(), Counters())
        for i in range(BURST + 12):
            events.say(kinds.SILO_FAILED, f"a {i}", "1-r", "a")
        events.say(kinds.SILO_FAILED, "b", "1-r", "b")
        events.say(kinds.DROPPED, "a is left out by the admin", "1-r", "a")
        events.say(kinds.STARTED, "the run started", "1-r")
        await events.close()

    asyncio.run(main())
    texts = [e.text for e in store.events_after(0, 99)]
    assert texts == [
        *(f"a {i}" for i in range(BURST)),
        "b",
        "a is left out by the admin",
        "the run started",
        "12 more of a were left out: it causes more than 10 a minute",
    ]
    store.close()


def test_what_was_left_out_is_said_while_the_coordinator_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.events.event_log, "TELL_S", 0.01)
    store = Store(open_database(f"sqlite:///{tmp_path / 'c.db'}"))

    def told() -> list[str]:
        return [event.kind for event in store.events_after(0, 1000)]

    async def main() -> None:
        events = EventLog(store, Notifier(), Counters())
        async with asyncio.timeout(60):
            for times in (1, 2):
                for i in range(BURST + 1):
                    events.say(kinds.JOINED, f"{i}", silo_id="a")
                while told().count("left-out") < times:
                    await events.recorded.changed(0.1)
        await events.close()

    asyncio.run(main())
    said = [e.text for e in store.events_after(0, 999) if e.kind == "left-out"]
    assert [text.partition(" more of a ")[0] for text in said] == ["1", str(BURST + 1)]
    store.close()
