import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from domo.errors import CoordinatorUnavailableError, DeadlineError
from domo_server.rpc import transfers as progress
from domo_server.rpc.transfers import Progress, Transfers


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 60))


async def transfer(
    transfers: Transfers, silo_id: str, begun: asyncio.Queue[Progress], lock: asyncio.Lock
) -> str:
    """Hold a lock until something else ends this; `done` when everything had arrived."""
    async with transfers.newest(silo_id) as mine, lock:
        await begun.put(mine)
        await asyncio.Event().wait()
    return "never"


def test_a_newer_transfer_ends_the_older_and_gets_its_lock() -> None:
    async def main() -> None:
        transfers, begun, lock = Transfers(), asyncio.Queue(), asyncio.Lock()
        tasks = []
        for _ in range(4):
            tasks.append(asyncio.create_task(transfer(transfers, "a", begun, lock)))
            await begun.get()
        for task in tasks[:3]:
            with pytest.raises(CoordinatorUnavailableError, match="a newer transfer"):
                await task
        assert not tasks[3].done()
        tasks[3].cancel()
        await asyncio.wait(tasks)
        assert not transfers._newest

    run(main())


def test_one_that_still_waits_is_replaced_too() -> None:
    async def main() -> None:
        transfers, begun, lock = Transfers(), asyncio.Queue(), asyncio.Lock()
        async with lock:
            waits = asyncio.create_task(transfer(transfers, "a", begun, lock))
            await asyncio.sleep(0)
            last = asyncio.create_task(transfer(transfers, "a", begun, lock))
            with pytest.raises(CoordinatorUnavailableError):
                await waits
        await begun.get()
        assert begun.empty()
        last.cancel()
        await asyncio.wait([last])

    run(main())


def test_silos_do_not_end_each_other() -> None:
    async def main() -> None:
        transfers, begun = Transfers(), asyncio.Queue()
        tasks = [
            asyncio.create_task(transfer(transfers, name, begun, asyncio.Lock())) for name in "ab"
        ]
        for _ in tasks:
            await begun.get()
        assert not any(t.done() for t in tasks)
        for t in tasks:
            t.cancel()
        await asyncio.wait(tasks)

    run(main())


def test_silence_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "STALL_S", 0.05)

    async def main() -> None:
        transfers = Transfers()
        with pytest.raises(DeadlineError, match="nothing moved for"):
            await transfer(transfers, "a", asyncio.Queue(), asyncio.Lock())
        assert not transfers._newest

    run(main())


def test_progress_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "STALL_S", 0.5)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Transfers().newest("a") as mine:
            end = loop.time() + 1.0
            while loop.time() < end:
                mine.made()
                await asyncio.sleep(0.01)
            mine.made(1000.0)  # a long poll
            await asyncio.sleep(0.6)

    run(main())


def test_what_has_arrived_is_neither_limited_nor_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "STALL_S", 0.05)

    async def main() -> None:
        async with Transfers().newest("a") as mine:
            mine.done()
            mine.made()
            mine.replace()
            await asyncio.sleep(0.1)

    run(main())


def test_a_transfer_is_replaced_once() -> None:
    async def main() -> None:
        async def twice() -> None:
            async with Transfers().newest("a") as mine:
                mine.replace()
                mine.replace()
                await asyncio.Event().wait()

        with pytest.raises(CoordinatorUnavailableError):
            await twice()

    run(main())
