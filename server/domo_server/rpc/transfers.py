"""Transfers that move or end: a watch on progress, and one of a kind for each silo."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from domo.errors import CoordinatorUnavailableError, DeadlineError

STALL_S = 120.0
"""Longest silence within a transfer."""


class Progress:
    """The progress of one transfer."""

    def __init__(self, limit: asyncio.Timeout):
        self._limit, self._replaced, self._over = limit, False, False

    def made(self, hold_s: float = 0.0) -> None:
        """It has moved; `hold_s` is how long it may rest now on top of what any may."""
        if not self._over:
            self._limit.reschedule(asyncio.get_running_loop().time() + STALL_S + hold_s)

    def done(self) -> None:
        """Everything has arrived; what is left to do here is not limited."""
        self._over = True
        self._limit.reschedule(None)

    def replace(self) -> None:
        """A newer transfer takes its place: it ends now, unless everything has arrived."""
        if not self._over and not self._limit.expired():
            self._replaced = self._over = True
            self._limit.reschedule(asyncio.get_running_loop().time())

    def error(self) -> DeadlineError | CoordinatorUnavailableError:
        """Why it was ended."""
        if self._replaced:
            return CoordinatorUnavailableError("a newer transfer has taken the place of this one")
        return DeadlineError(f"nothing moved for {STALL_S:.0f} s")


class Transfers:
    """Transfers in one direction; of each silo, the newest counts.

    A silo makes one at a time. If it begins another, it has lost the connection of the one before,
    which may look alive here for a long time.
    """

    def __init__(self) -> None:
        self._newest: dict[str, Progress] = {}

    @contextlib.asynccontextmanager
    async def newest(self, silo_id: str) -> AsyncIterator[Progress]:
        """Begin a transfer; the one before is told to end.

        Raises:
            DeadlineError: Nothing moved for too long.
            CoordinatorUnavailableError: A newer transfer has begun.
        """
        if silo_id in self._newest:
            self._newest.pop(silo_id).replace()
        try:
            async with asyncio.timeout(STALL_S) as limit:
                mine = self._newest[silo_id] = Progress(limit)
                yield mine
        except TimeoutError:
            raise mine.error() from None
        finally:
            if self._newest.get(silo_id) is mine:
                del self._newest[silo_id]
