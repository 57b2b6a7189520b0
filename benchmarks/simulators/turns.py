"""How a contender takes turns, and what a turn has cost; also read by peers that have no domo."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> float:
    """CPU-seconds of this process and of all that it has started, with those that have ended."""
    parents, seconds = dict[int, int](), dict[int, float]()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(path.name)] = int(fields[1])
            seconds[int(path.name)] = sum(map(int, fields[11:15])) * TICK_S
    me = os.getpid()

    def mine(pid: int) -> bool:
        while pid not in (0, 1, me):
            pid = parents.get(pid, 0)
        return pid == me

    return sum(s for pid, s in seconds.items() if mine(pid))


class Turns:
    """Says what a round has cost, and waits until it is this contender's turn again.

    One line out after each round, `{"steps": ..., "wall_s": ..., "cpu_s": ...}`; the next round
    begins with a line in, and the end of the input is the end. Whatever else writes to standard
    output writes to standard error.

    Args:
        alone: It starts no processes, so that the clock of this one, which is finer, will do.
        at_end: Called before this process ends.
    """

    def __init__(self, alone: bool = True, at_end: Callable[[], object] = bool) -> None:
        self._at_end = at_end
        self._cpu_s = time.process_time if alone else tree_cpu_s
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._begin()

    def _begin(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._cpu_s()

    def __call__(self, steps: int) -> None:
        """End a round of so many silo-steps, and wait."""
        wall, cpu = time.perf_counter() - self._wall, self._cpu_s() - self._cpu
        print(json.dumps({"steps": steps, "wall_s": wall, "cpu_s": cpu}), file=self._out)
        self._out.flush()
        if not sys.stdin.readline():
            self._at_end()
            os._exit(0)  # peers have threads and children that would go on
        self._begin()
