"""Runs calls one after the other, and leaves one that does not end: what is the user's may hang.

They run in a thread of their own, so that who waits for them can be interrupted, and goes on
without one whose thread waits for a drive that is gone and can be ended by nobody.
"""

import contextvars
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import util
from queue import SimpleQueue
from typing import NoReturn

from domo.stages import processes
from domo.stages.now import now_of
from domo.stages.watch import Seen, where

STILL_S, MOVES_S = 30.0, 120.0
"""How long a call may take, while nothing is computed or read, and while something is."""
TOLD_S = 10.0
"""After so long it is said that it is still at work."""
TIDY_S = 1.0
"""For what multiprocessing takes away at the end, such as semaphores."""
BEYOND_S = 15.0
"""Then this process is ended by force: something keeps all of Python from running."""


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
        self._thread: threading.Thread | None = None
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

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

        if self._thread is None:
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(
                target=_work, args=(self._jobs,), name="limited", daemon=True
            )
            self._thread.start()
        if self._by_force and sys.__stderr__ is not None:
            limit_s = self._moves_s + BEYOND_S
            faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__)
        try:
            self._jobs.put(job)
            left = self._wait(done, tell)
        finally:
            if self._by_force:
                faulthandler.cancel_dump_traceback_later()
        if left is not None:
            self._thread = None
        elif raised:
            raise raised[0]
        return left

    def _wait(self, done: threading.Event, tell: Callable[[Seen], None]) -> Seen | None:
        assert self._thread is not None
        thread, began, told = self._thread.ident or 0, time.monotonic(), False
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

    def close(self) -> None:
        """No more calls."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread = None


def _work(jobs: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (job := jobs.get()) is not None:
        job()


def leave(code: int) -> NoReturn:
    """End this process and all that it has started, whatever their threads are in."""
    processes.kill(processes.descendants())
    finalize = util._run_finalizers  # type: ignore[attr-defined]
    tidy = threading.Thread(target=finalize, args=(0,), daemon=True)
    tidy.start()
    tidy.join(TIDY_S)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
