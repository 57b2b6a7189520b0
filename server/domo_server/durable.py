"""Durable work of a run: a full disk is waited out, and a shutdown waits for the work."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from domo.errors import TransportError
from domo_server.run import Run

T = TypeVar("T")

DISK_S = 2.0
"""Pause between attempts to write to a full disk."""


class Durable:
    """Writes for a run.

    Args:
        run: Shows in its detail what it waits for.
        writing: Held while something is being written.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._writing = run, writing

    async def __call__(self, work: Callable[..., T], *args: Any) -> T:
        """Do work on a thread, as often as it takes until the disk and the database let it."""
        run, before, failures = self._run, self._run.detail, 0
        while True:
            try:
                async with self._writing:
                    done = await asyncio.to_thread(work, *args)
            except (OSError, TransportError) as error:
                failures += 1
                run.detail = f"{said_by_disk(error)}; it goes on by itself once it can"
                if failures == 1:
                    run.say("disk", run.detail)
                    run.broadcast.notify()
            else:
                if failures:
                    run.detail = before
                    run.say("disk", "there is room again: the run goes on")
                return done
            await asyncio.sleep(DISK_S)


def said_by_disk(error: OSError | TransportError) -> str:
    """Why something could not be written or read, in words."""
    if not isinstance(error, OSError):
        return str(error)
    where = f" ({error.filename})" if error.filename else ""
    return f"the coordinator's disk says: {error.strerror or error}{where}"
