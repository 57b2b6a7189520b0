"""One thing to wait for: that something changed."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Broadcast:
    """Wakes everybody who waits. Used from the event loop only."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait."""
        self._event.set()
        self._event = asyncio.Event()

    async def changed(self, timeout_s: float | None = None) -> None:
        """Wait for the next `notify`, or until the time is over."""
        event = self._event
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass

    async def until(self, look: Callable[[], T | None], timeout_s: float) -> T | None:
        """The first value of `look` that is not None; None when the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while True:
            found = look()
            left = end - loop.time()
            if found is not None or left <= 0:
                return found
            await self.changed(left)
