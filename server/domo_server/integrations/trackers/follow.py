"""Feeds one tracker with what the dashboard reads, on threads that nobody waits for."""

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from domo.api.schema import ENDED, RunDetail
from domo.names import one_line
from domo.ops.proxies import note_of_http
from domo_server.integrations.trackers.points import Point, ends_of, points_of
from domo_server.view.interfaces import ReadModel

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Between two looks at what is new."""
RETRY_S = 60.0
"""After a failure, unless a round is committed before."""
CLOSE_S = 10.0
"""How long the end of the coordinator waits for the last points."""


class Writer(Protocol):
    """A tracker."""

    name: str
    uri: str
    """Where it writes over HTTP; empty: nowhere."""

    def prepare(self) -> None:
        """Import what it needs: seconds that no round should share the interpreter with."""
        ...

    def write(self, run: RunDetail, points: Sequence[Point]) -> None:
        """Write what is not there yet. Blocks; may raise anything, and is then called again."""
        ...


class Follower:
    """Keeps a tracker up to date: all runs, those that have ended too.

    Args:
        read: What is followed.
        writer: Where it goes.
        say: Records an event: its text, and the run that it is about.
    """

    def __init__(self, read: ReadModel, writer: Writer, say: Callable[[str, str | None], None]):
        self._read, self._writer, self._say = read, writer, say
        self._done: dict[str, Any] = {}
        self._written: dict[str, dict[int, float]] = {}
        self._failing, self._retry_at = False, 0.0
        self._failed_with: Any = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self._task = asyncio.create_task(self._follow(), name=f"tracker {self._writer.name}")

    async def close(self) -> None:
        """Once changes have ended: wait a little for what is still to be written."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_S)
            if not self._task.done():
                log.warning("%s: left without its last points", self._writer.name)
                self._task.cancel()

    async def _follow(self) -> None:
        with contextlib.suppress(Exception):  # the first write says why
            await on_a_thread(self._writer.prepare)
        async for _ in self._read.changes():
            await self.look()
            await asyncio.sleep(PAUSE_S)
        await self.look(last=True)

    async def look(self, last: bool = False) -> None:
        """Write what is new; after a failure only if there is, or it was long ago, or the last."""
        now, run_id, news = asyncio.get_running_loop().time(), None, None
        try:
            runs = await self._read.runs()
            news = {r.run_id: (r.rounds_done, r.state in ENDED) for r in runs}
            waits = self._failing and self._failed_with == news and now < self._retry_at
            if waits and not last:
                return
            for run_id, key in news.items():
                if self._done.get(run_id) != key:
                    self._done[run_id] = await self._write(run_id)
        except Exception as error:
            if not self._failing:
                again = "it is tried again with the next round"
                reason = _reason(error) + note_of_http(self._writer.uri)
                self._say(f"{self._writer.name}: {reason}; {again}", run_id)
            log.debug("%s", self._writer.name, exc_info=True)
            self._failing, self._failed_with, self._retry_at = True, news, now + RETRY_S
        else:
            if self._failing:
                self._say(f"{self._writer.name}: it has everything again", None)
            self._failing = False

    async def _write(self, run_id: str) -> tuple[int, bool] | None:
        """Write a run's new rounds: all of them at first, and after a failure.

        Returns:
            How far it has come, and whether it had ended when that was read.
        """
        earlier = self._written.pop(run_id, {})
        run = await self._read.run(run_id)
        rounds = await self._read.rounds(run_id, after=len(earlier) - 1)
        if run is None or rounds is None:
            return None

        def write() -> None:  # a long run has many points: not on the event loop
            points, closes = points_of(run, rounds, earlier), bool(earlier) and run.state in ENDED
            if points or closes:  # the last point may have been there before the end
                self._writer.write(run, points)

        await on_a_thread(write)
        if run.state not in ENDED:
            self._written[run_id] = earlier | ends_of(run, rounds)
        return run.rounds_done, run.state in ENDED


def _reason(error: Exception) -> str:
    """One line, without the password of an address."""
    text = re.sub(r"//[^/@\s]*@", "//", str(error))
    return one_line(text) or type(error).__name__


async def on_a_thread(work: Callable[..., None], *args: Any) -> None:
    """Do work on a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work(*args)
        except Exception as caught:
            error = caught
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=run, name="tracker", daemon=True).start()
    await done
