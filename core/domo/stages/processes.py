"""This process and those that it has started: what they use, and what they wait for (Linux)."""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
BUSY, READS, WAKES = 0.1, 32_000, 12.0
"""Share of a core, bytes a second, and returns of the thread from waiting, a second, from which on
something moves. Heartbeats need less; a slow line and a scan of a slow drive wait and return often,
and what looks ten times a second whether it may go on does so less often."""
NUM_SAMPLES = 12
_TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """What processes have used so far.

    Attributes:
        cpu_s: Of all cores.
        num_bytes: Read and written by them, from caches too; not what sockets receive.
        num_wakes: How often the thread that is looked at, and the first one of each other process,
            has waited and gone on.
        blocked: Whether the thread that is looked at, or one of the other processes, waits for a
            device and cannot be interrupted.
    """

    cpu_s: float
    num_bytes: int
    num_wakes: int
    blocked: bool


def descendants() -> list[int]:
    """Processes that this one has started, and those that they have started."""
    found, left = list[int](), [os.getpid()]
    while left:
        children = _children(left.pop())
        found += children
        left += children
    return found


def _children(pid: int) -> list[int]:
    told = list[int]()
    try:
        for task in (PROC / f"{pid}/task").iterdir():
            told += map(int, (task / "children").read_text("ascii").split())
    except (OSError, ValueError):
        pass  # it has ended, or the system does not tell
    return told


def used(thread: int) -> Used | None:
    """What this process and its descendants have used; None: that is not known here.

    Args:
        thread: The identifier of the one that is looked at.
    """
    own = _stat(PROC / "self")
    if own is None:
        return None
    native = next((t.native_id for t in threading.enumerate() if t.ident == thread), None)
    looked_at, wakes = _stat(PROC / f"self/task/{native}"), _wakes(f"self/task/{native}")
    cpu, moved, blocked = _cpu(own), _moved("self"), looked_at is not None and looked_at[0] == "D"
    for pid in descendants():
        if (fields := _stat(PROC / str(pid))) is not None:
            cpu += _cpu(fields)
            moved += _moved(str(pid))
            wakes += _wakes(str(pid))
            blocked |= fields[0] == "D"
    return Used(cpu / _TICKS, moved, wakes, blocked)


class Moves:
    """Looks again and again whether something is computed or read.

    Args:
        thread: The identifier of the one that is looked at.
        still_s: How long it may be still; a judgement needs a sixth of that.
    """

    def __init__(self, thread: int, still_s: float):
        self._thread, self._least_s = thread, still_s / 6
        self._samples: deque[tuple[float, Used]] = deque(maxlen=NUM_SAMPLES)

    def look(self) -> str:
        """A key of `ACTIVITIES`; empty: it is not known yet."""
        found = used(self._thread)
        if found is None:
            return ""
        self._samples.append((time.monotonic(), found))
        (t0, first), (t1, last) = self._samples[0], self._samples[-1]
        took = t1 - t0
        if len(self._samples) < 3 or took < self._least_s:
            return ""
        busy = (last.cpu_s - first.cpu_s) / took >= BUSY
        reads = (last.num_bytes - first.num_bytes) / took >= READS
        if busy or reads or (last.num_wakes - first.num_wakes) / took >= WAKES:
            return "moves"
        return "blocked" if all(u.blocked for _, u in self._samples) else "still"


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    return bool(int(_status(str(pid), "SigCgt") or "0", 16) >> (number - 1) & 1)


def kill(pids: Iterable[int]) -> None:
    """End processes at once; that which tidies up Python's shared memory ends by itself."""
    tidies = getattr(resource_tracker._resource_tracker, "_pid", None)
    for pid in pids:
        if pid != tidies:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


def _stat(folder: Path) -> list[str] | None:
    """The fields of its `stat` after the name: state, parent, ..."""
    try:
        return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def _cpu(fields: list[str]) -> int:
    """In ticks, with children that have ended."""
    return sum(map(int, fields[11:15]))


def _wakes(folder: str) -> int:
    return int(_status(folder, "voluntary_ctxt_switches") or "0")


def _status(folder: str, key: str) -> str:
    """One value of a `status`; empty: it is not there."""
    try:
        text = (PROC / folder / "status").read_text("ascii", "replace")
    except OSError:
        return ""
    return text.partition(f"\n{key}:")[2].partition("\n")[0].strip()


def _moved(pid: str) -> int:
    try:
        lines = (PROC / pid / "io").read_text("ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines[:2])  # rchar, wchar
    except (OSError, ValueError, IndexError):
        return 0
