"""Which processes of a command are there, those that it has started itself among them."""

import os
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.live.federation import Process

MARK = "TESTS_MARK"
GONE_S = 30.0
"""How long a process may outlive its parent; on a quiet machine it is a fraction of a second."""


class Family:
    """A command and all that descends from it, known by a variable of their environment; Linux."""

    def __init__(self, command: Sequence[str], log: Path, **variables: str):
        self._mark = uuid.uuid4().hex
        self.first = Process(command, log, log.parent, **variables, **{MARK: self._mark})

    def __enter__(self) -> "Family":
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.first.kill()

    def pids(self) -> list[int]:
        """Those that run."""
        sign = f"{MARK}={self._mark}".encode()
        return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _has(p, sign)]

    def until(self, good: Callable[[list[int]], bool], timeout_s: float = 60.0) -> list[int]:
        """The processes, once they are as wanted."""
        end = time.monotonic() + timeout_s
        while not good(pids := self.pids()):
            assert time.monotonic() < end, f"{list(map(_name, pids))}\n{self.first.output}"
            time.sleep(0.05)
        return pids

    def die(self, sig: signal.Signals) -> None:
        """The first one gets a signal; after it nobody is left.

        Raises:
            AssertionError: Somebody is.
        """
        os.kill(self.first.pid, sig)
        self.first.wait(20)
        self.until(lambda pids: not pids, GONE_S)


def _name(pid: int) -> str:
    with suppress(OSError):
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()}"
    return str(pid)


def _has(process: Path, sign: bytes) -> bool:
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and sign in (process / "environ").read_bytes()
    except (OSError, IndexError):
        return False
