"""Durable work of a run: a full disk is waited out, and a shutdown waits for the work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from domo.errors import TransportError
from domo.ops.console import in_words
from domo_server.events import kinds
from domo_server.runs.run import COMMIT, END, ROUND, Run
from domo_server.store.rows import RunChanges

T = TypeVar("T")

DISK_S = 2.0
"""Pause between attempts to write to a full disk."""


class Durable:
    """Writes for a run.

    Args:
        run: Is told why it is held up.
        writing: Held while something is being written.
        who: `ROUND`; `COMMIT`, while the run goes on; or `END`, which is waited for where the run
            is to stop too.
    """

    def __init__(self, run: Run, writing: asyncio.Lock, who: str = ROUND):
        self._run, self._writing, self._who = run, writing, who

    async def __call__(self, work: Callable[..., T], *args: Any) -> T:
        """Do work on a thread, as often as it takes until the disk and the database let it.

        Raises:
            OSError, TransportError: They do not, and the run is to stop.
        """
        run, before, failures = self._run, self._run.detail, 0
        while True:
            try:
                async with self._writing:
                    done = await to_its_end(asyncio.to_thread(work, *args))
            except (OSError, TransportError) as error:
                if run.stop_text is not None and self._who != END:
                    run.hold_up(self._who, None)
                    raise
                failures += 1
                stop = "" if run.stop_text is None else f"{run.stop_text}; "
                text = f"{stop}{said_by_disk(error)}; it goes on by itself once it can"
                self._show(text, text)
                if failures == 1:
                    run.say(kinds.DISK, text)
                    run.changes.shown()  # why the run waits
            else:
                if failures:
                    self._show(None, before)
                    run.say(kinds.DISK, "there is room again: the run goes on")
                return done
            await run.changes.loops.until(
                lambda: None if self._who == END else run.stop_text, DISK_S
            )

    def _show(self, why: str | None, detail: str) -> None:
        self._run.hold_up(self._who, why)
        if self._who != COMMIT:
            self._run.waits_for(detail)


async def to_its_end(work: Awaitable[T]) -> T:
    """Work that is not left half done: a call that is cancelled meanwhile, however often, waits."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # nobody listens any more
        raise cancelled
    return task.result()


def said_by_disk(error: OSError | TransportError) -> str:
    """Why something could not be written or read, in words."""
    if not isinstance(error, OSError):
        return str(error)
    return f"the coordinator's disk says: {in_words(error)}"


async def set_state(run: Run, durably: Durable, changes: RunChanges) -> None:
    """Record a state of a run, with its text, and tell everybody."""
    said: RunChanges = {**changes, "detail": run.detail}
    await durably(lambda: run.store.update_run(run.run_id, **said))
    run.changes.moved()  # the run's state
