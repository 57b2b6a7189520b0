"""Where loader processes are: each tells when it is asked by a signal, whatever it is in."""

import ctypes
import faulthandler
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from domo.stages.place import Place, of_dump
from domo.stages.processes import catches, descendants

SIGNAL: int | None = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else None
"""One that nobody else is likely to use; None: there are none of these here."""
ANSWER_S, LOOK_S = 0.5, 0.02
PR_SET_PDEATHSIG = 1
"""Of linux/prctl.h: the signal that a process gets when its parent dies."""


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Where the answers are written; it goes with this process."""
    return tempfile.TemporaryDirectory(prefix="domo-")


def forget() -> None:
    """Take that folder away, and ask no loader process any more."""
    if _folder.cache_info().currsize:
        with suppress(OSError):
            _folder().cleanup()
        _folder.cache_clear()


def at_start() -> Callable[[int], None]:
    """What a loader process is to do first."""
    return partial(_listen, _folder().name)


def _listen(folder: str, _worker: int) -> None:
    if SIGNAL is not None:
        file = (Path(folder) / str(os.getpid())).open("w", encoding="ascii")
        faulthandler.register(SIGNAL, file, all_threads=False)
    with suppress(OSError, AttributeError):  # Linux: no orphan, whatever it waits for
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def where() -> Place | None:
    """Where a loader process is that has something in hand; None: none has, or tells."""
    for pid in pids():
        if (place := _ask(pid)) is not None:
            return place
    return None


def pids() -> list[int]:
    """The loader processes that have begun."""
    if SIGNAL is None or not _folder.cache_info().currsize:
        return []
    return [pid for pid in descendants() if catches(pid, SIGNAL)]


def _ask(pid: int) -> Place | None:
    assert SIGNAL is not None
    path = Path(_folder().name) / str(pid)
    try:
        before = path.stat().st_size
        os.kill(pid, SIGNAL)
        end = time.monotonic() + ANSWER_S
        size = before
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            now = path.stat().st_size
            if now > before and now == size:
                break
            size = now
        return of_dump(path.read_bytes()[before:].decode("ascii", "replace"))
    except OSError:
        return None
