"""Runs calls one after the other, and leaves one that does not end: what is the user's may hang.

They run in the main thread, as a silo's do, for a task may set signal handlers there. What asks for
them is another thread, so that it goes on without one that waits for a drive that is gone; after
that each call has a thread of its own.
"""

import contextvars
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from queue import SimpleQueue
from typing import NamedTuple, NoReturn, TypeVar

from domo.stages import processes, workers
from domo.stages.now import now_of
from domo.stages.watch import Seen, where

STILL_S, MOVES_S = 30.0, 120.0
"""How long a call may take, while nothing is computed or read, and while something is."""
TOLD_S = 10.0
"""After so long it is said that it is still at work."""
TIDY_S = 1.0
"""For what multiprocessing takes away at the end, such as semaphores, and for what is printed."""
BEYOND_S = 15.0
"""Then this process is ended by force: something keeps all of Python from running."""

T = TypeVar("T")


class _Serving(NamedTuple):
    """A thread that runs what it is given."""

    jobs: "SimpleQueue[Callable[[], None] | None]"
    thread: int


class Limited:
    """Runs calls, each within limits.

    Args:
        still_s: How long one may take in which nothing moves.
        moves_s: How long one may take otherwise.
        by_force: Whether this process ends, with a look at all its threads, where even that cannot
            be told.
    """

    def __init__(self, still_s: float = STILL_S, moves_s: float = MOVES_S, by_force: bool = False):
        self._still_s, self._moves_s, self._by_force = still_s, moves_s, by_force
        self._serving: _Serving | None = None

    def serve(self, drive: Callable[[], T]) -> T:
        """Run what `drive` asks for in this thread, and `drive` in another one.

        Where a call was left, this thread is in it: `drive` has to end the process, by `leave`.

        Returns:
            What `drive` returns; what it raises is raised here.
        """
        jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._serving = _Serving(jobs, threading.get_ident())
        returned, raised = list[T](), list[BaseException]()
        context = contextvars.copy_context()

        def driven() -> None:
            try:
                returned.append(context.run(drive))
            except BaseException as error:
                raised.append(error)
            jobs.put(None)

        threading.Thread(target=driven, name="checks", daemon=True).start()
        while (job := jobs.get()) is not None:
            job()
        self._serving = None
        if raised:
            raise raised[0]
        return returned[0]

    def run(self, call: Callable[[], None], tell: Callable[[Seen], None]) -> Seen | None:
        """Run one call; what it raises is raised here.

        Args:
            call: Is to end by itself.
            tell: Told once if it takes long.

        Returns:
            At what it was when it was left; None: it has ended.
        """
        done, raised = threading.Event(), list[BaseException]()
        context = contextvars.copy_context()

        def job() -> None:
            try:
                context.run(call)
            except BaseException as error:
                raised.append(error)
            done.set()

        if self._by_force and sys.__stderr__ is not None:
            limit_s = self._moves_s + BEYOND_S
            faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__)
        try:
            left = self._wait(self._begin(job), done, tell)
        finally:
            if self._by_force:
                faulthandler.cancel_dump_traceback_later()
        if left is not None:
            self._serving = None
        elif raised:
            raise raised[0]
        return left

    def _begin(self, job: Callable[[], None]) -> int:
        """Have it run; returns by which thread."""
        if self._serving is not None:
            self._serving.jobs.put(job)
            return self._serving.thread
        thread = threading.Thread(target=job, name="limited", daemon=True)
        thread.start()
        return thread.ident or 0

    def _wait(
        self, thread: int, done: threading.Event, tell: Callable[[Seen], None]
    ) -> Seen | None:
        began, told = time.monotonic(), False
        moves = processes.Moves(thread, self._still_s)
        tick = min(1.0, self._still_s / 8)
        while not done.wait(tick):
            for_s = time.monotonic() - began
            activity = moves.look() if for_s >= self._still_s / 3 else ""
            at_end = for_s >= (self._moves_s if activity in ("moves", "") else self._still_s)
            if at_end or (for_s >= TOLD_S and not told):
                now = now_of(thread)
                stage = "" if now is None else now.stage
                seen = Seen(stage, for_s, activity, at_end, where(thread, stage))
                if at_end:
                    return None if done.is_set() else seen
                tell(seen)
                told = True
        return None


def leave(code: int) -> NoReturn:
    """End this process and all that it has started, whatever their threads are in."""
    processes.kill(processes.descendants())
    tidy = threading.Thread(target=_tidy, daemon=True)
    tidy.start()
    tidy.join(TIDY_S)
    os._exit(code)


def _tidy() -> None:
    """Each may wait for what another thread holds, such as a terminal that takes no more."""
    workers.forget()
    with suppress(Exception):
        util._run_finalizers(0)  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
