import asyncio
import threading

import pytest

from domo_server.runs.durable import to_its_end


def test_work_is_waited_for_however_often_its_caller_is_cancelled() -> None:
    go_on, done = threading.Event(), []

    def work() -> None:
        go_on.wait(30)
        done.append(True)

    async def main() -> None:
        caller = asyncio.create_task(to_its_end(asyncio.to_thread(work)))
        for _ in range(3):
            await asyncio.sleep(0.01)
            caller.cancel()
        await asyncio.sleep(0.01)
        assert not caller.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert done

    asyncio.run(main())


def test_what_it_returns_or_raises_is_passed_on() -> None:
    async def main() -> None:
        assert await to_its_end(asyncio.to_thread(int, "7")) == 7
        with pytest.raises(ValueError, match="invalid literal"):
            await to_its_end(asyncio.to_thread(int, "x"))

    asyncio.run(main())
