"""Ctrl-C and SIGTERM end a process within seconds, whatever its main thread is in.

Python hands a signal to its main thread, which hears nothing of it while it waits for a drive that
is gone, and may swallow it in the user's code. A thread of its own hears of it too.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from domo.stages import processes, workers
from domo.stages.limited import leave
from domo.stages.now import now_of
from domo.stages.watch import where

OWN_S = 5.0
"""How long what is the user's may go on after a signal."""
CLOSE_S = 30.0
"""How long everything else may: a goodbye, a model that is written."""
WORKERS_S = 1.0
"""After so long loader processes are ended: one that hangs is waited for."""
GOODBYE_S = 2.5
END_S = 10.0
"""How long what is left may take then: threads of the user's, what libraries do at exit."""
TWICE_S = 0.3
"""A signal so soon after the first is the same one."""
ENDS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class Ended(SystemExit):
    """A signal has ended this program: not what the user's code raises, wherever it is heard."""


_sent_again: list[int] = []
_heard_first: list[int] = []


def send_again(number: int) -> None:
    """Send this process a signal that its main thread has lost: it is no second one."""
    _sent_again.append(number)
    os.kill(os.getpid(), number)


@contextmanager
def stops(
    goodbye: Callable[[str], None],
    own_s: float = OWN_S,
    close_s: float = CLOSE_S,
    hangs_up: bool = False,
) -> Iterator[None]:
    """Around all that a command does; a second signal ends it at once, with 128 and its number.

    Args:
        goodbye: Called with what is said, for at most `GOODBYE_S`, before the process is ended by
            force.
        own_s: How long what is the user's may go on after a signal.
        close_s: How long everything else may.
        hangs_up: Whether it ends when its terminal is closed, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hears, tells = os.pipe()
    os.set_blocking(tells, False)
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    thread = threading.get_ident()
    heard = partial(_heard, hears, ENDS if hangs_up else ENDS[:2])
    waiter = threading.Thread(
        target=_wait, args=(heard, thread, goodbye, own_s, close_s), name="stopping", daemon=True
    )
    waiter.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)
        waiter.join()
        os.close(hears)


def end_soon(tell: Callable[[str], None], limit_s: float = END_S) -> None:
    """The end of a process whose command a signal has ended: it waits for no thread without end."""
    if _heard_first:
        threading.Thread(target=_end, args=(tell, limit_s), name="ending", daemon=True).start()


def _end(tell: Callable[[str], None], limit_s: float) -> None:
    time.sleep(limit_s)
    own = (threading.main_thread(), threading.current_thread())
    left = [t.name for t in threading.enumerate() if not t.daemon and t not in own]
    what = f": the thread {left[0]!r} goes on" if left else ", in what is called at exit"
    _force(tell, f"ended by force{what}", _heard_first[0])


def _wait(
    heard: Callable[[float | None], int | None],
    thread: int,
    goodbye: Callable[[str], None],
    own_s: float,
    close_s: float,
) -> None:
    """Until the block is left, or has to be."""
    number = heard(None)
    if not number:
        return
    _heard_first.append(number)
    began, ended_workers = time.monotonic(), False
    while (took := time.monotonic() - began) < close_s:
        if took >= own_s and now_of(thread) is not None:
            break
        if took >= WORKERS_S and not ended_workers:
            ended_workers = True
            processes.kill(workers.pids())
        again = heard(0.2)
        if again == 0:
            processes.kill(workers.pids())  # what is left would wait for them
            return
        if again is not None and again in _sent_again:
            _sent_again.remove(again)
        elif again is not None and time.monotonic() - began >= TWICE_S:
            leave(128 + again)
    _leave(thread, number, goodbye)


def _heard(hears: int, ends: Collection[int], limit_s: float | None) -> int | None:
    """The number of a signal that ends; 0: the block was left; None: nothing for so long."""
    while select.select([hears], [], [], limit_s)[0]:
        told = os.read(hears, 1)
        if not told or told[0] in ends:
            return told[0] if told else 0
    return None


def _leave(thread: int, number: int, goodbye: Callable[[str], None]) -> None:
    now = now_of(thread)
    place = where(thread, "" if now is None else now.stage)
    _force(goodbye, f"ended by force{f', in {place}' if place else ''}", number)


def _force(goodbye: Callable[[str], None], text: str, number: int) -> None:
    said = threading.Thread(target=_quietly, args=(goodbye, text), daemon=True)
    said.start()
    said.join(GOODBYE_S)
    leave(128 + number)


def _quietly(goodbye: Callable[[str], None], text: str) -> None:
    with suppress(Exception):
        goodbye(text)
