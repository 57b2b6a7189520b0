"""Who waits for what: the calls that silos hold, the loops that move runs, the page."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ANYBODY = ""


class Notifier:
    """Wakes those who wait for a change. Used from the event loop only."""

    def __init__(self) -> None:
        self._waited: dict[str, asyncio.Event] = {}

    def notify(self, who: str | None = None) -> None:
        """Wake all who wait, or those who do so under one name."""
        names = list(self._waited) if who is None else [who]
        for event in (self._waited.pop(name, None) for name in names):
            if event is not None:
                event.set()

    def coming(self, who: str = ANYBODY) -> asyncio.Event:
        """Set by the next `notify` from now on: nothing is missed until it is waited for."""
        return self._waited.setdefault(who, asyncio.Event())

    async def changed(self, timeout_s: float | None = None, who: str = ANYBODY) -> None:
        """Wait for the next `notify`, or until the time is over."""
        await happened(self.coming(who), timeout_s)

    async def until(
        self, look: Callable[[], T | None], timeout_s: float, who: str = ANYBODY
    ) -> T | None:
        """The first value of `look` that is not None; None when the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while True:
            found = look()
            left = end - loop.time()
            if found is not None or left <= 0:
                return found
            await self.changed(left, who)


async def happened(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait for an event, or until the time is over."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


class Changes:
    """A notifier for each purpose, and what is told to which.

    Attributes:
        silos: Calls that silos hold, by name: what they are to do. A heartbeat wakes none.
        loops: What moves the queue and its run: who is there, what has come, what the admin wants.
        page: All that is shown. It changes with each heartbeat: whoever reads it has a rate.
    """

    def __init__(self) -> None:
        self.silos, self.loops, self.page = Notifier(), Notifier(), Notifier()

    def shown(self) -> None:
        """Something changed that is only looked at."""
        self.page.notify()

    def moved(self) -> None:
        """Something changed that the queue, or the run under way, goes by."""
        self.loops.notify()
        self.page.notify()

    def assigned(self, silo_id: str | None = None) -> None:
        """What a silo is to do changed, or what all are."""
        self.silos.notify(silo_id)
        self.loops.notify()
        self.page.notify()
