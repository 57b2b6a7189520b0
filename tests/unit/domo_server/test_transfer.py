import asyncio
import threading

import pytest

from domo_server.transfer import _on_thread


def test_a_cancelled_call_ends_after_its_work() -> None:
    """The file that the work writes to is closed next; another file may get its number."""
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert release.wait(60)
        finished.set()

    async def main() -> None:
        task = asyncio.create_task(_on_thread(work))
        await asyncio.to_thread(started.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert finished.is_set()

    asyncio.run(main())


def test_results_and_errors_come_through() -> None:
    async def main() -> None:
        assert await _on_thread(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await _on_thread(divmod, 1, 0)

    asyncio.run(main())
