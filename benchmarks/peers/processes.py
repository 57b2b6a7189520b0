"""The processes of a peer: started, found again, measured and ended.

Some peers start processes that leave their parent's session or outlive it. All of them inherit the
environment, so a variable with a value of its own tells them from everything else that runs here,
and the part of it behind the slash says which side they are on.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

MARK = "PEER_BENCH_PROCESS"
SERVER = "server"
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
INTERVAL_S = 0.2
YOUNG_S = 1.0
"""Until this age a process may be one that has not got its own environment yet."""
LEAST_FREE_MB = 3 * 1024
"""Less free memory on the machine than this ends the measurement."""
PATIENCE_S = 5.0
"""How long processes may take to end after they were asked to."""


@dataclass
class Seen:
    """A process as it was when last seen."""

    role: str
    started: int
    """In clock ticks since boot; tells two processes with the same number apart."""
    parent: int
    running: bool
    """False for a process that has ended but was not waited for yet."""
    cpu_s: float
    """With that of children which it has waited for."""
    rss_mb: float
    peak_mb: float


def free_mb() -> float:
    """Memory that the machine can still give, in MB."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return float("inf")


def started_at(pid: int) -> int | None:
    """When a process was started, in ticks since boot, or None if there is none."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _peak_mb(pid: int) -> float:
    """The most memory that a process has had at any time; 0 once it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


class Processes:
    """All processes of one peer in one measurement, looked at every 0.2 s by a thread."""

    def __init__(self, env: dict[str, str], folder: Path):
        self._env, self._folder = env, folder
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._known: dict[int, Seen] = {}
        self._others: dict[int, int] = {}
        """Processes that are not the peer's: number and start."""
        self._gone_cpu_s = 0.0
        self._cpu: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._started: list[subprocess.Popen[bytes]] = []
        self._sampler = threading.Thread(target=self._sample_on, daemon=True)
        self.server_peak_mb = 0.0
        self.server_sum_mb = 0.0
        self.trouble = ""
        """Why the measurement was ended, if it was."""

    def __enter__(self) -> "Processes":
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()
        self._end()

    def start(
        self, role: str, command: Sequence[str | Path], log: str
    ) -> "subprocess.Popen[bytes]":
        """Start a process on a side, its output in a file of the folder."""
        with (self._folder / log).open("ab") as out:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._env | {MARK: f"{self._token}/{role}"},
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def cpu_s(self, begin: float, end: float) -> float:
        """CPU seconds of all processes between two times of `time.monotonic`, both in the past."""
        self._sample()
        return self._cpu_until(end) - self._cpu_until(begin)

    def _cpu_until(self, t: float) -> float:
        """The sum up to a time, between two looks on a straight line."""
        before = (0.0, 0.0)
        for look in self._cpu:
            if look[0] >= t:
                share = (t - before[0]) / (look[0] - before[0])
                return before[1] + share * (look[1] - before[1])
            before = look
        return before[1]

    def _sample_on(self) -> None:
        while not self._ended.wait(INTERVAL_S):
            self._sample()
            if not self.trouble and (free := free_mb()) < LEAST_FREE_MB:
                self.trouble = (
                    f"memory ran out: {free:.0f} MB left on the machine, where the server's "
                    f"processes had up to {self.server_sum_mb:.0f} MB"
                )
                self._signal(signal.SIGKILL)

    def _sample(self) -> None:
        with self._lock:
            self._look()
            servers = [seen for seen in self._known.values() if seen.role == SERVER]
            peaks = [self.server_peak_mb, *(seen.peak_mb for seen in servers)]
            self.server_peak_mb = max(peaks)
            self.server_sum_mb = max(self.server_sum_mb, sum(seen.rss_mb for seen in servers))
            total = self._gone_cpu_s + sum(seen.cpu_s for seen in self._known.values())
            self._cpu.append((time.monotonic(), total))

    def _look(self) -> None:
        """Bring what is known up to date."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        pids = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
        for pid in pids:
            fields = _stat(pid)
            if not fields:
                continue
            started = int(fields[19])
            seen = self._known.get(pid)
            if seen is None or seen.started != started:
                if self._others.get(pid) == started:
                    continue
                role = self._role(pid)
                if role is None:
                    if now - started * TICK_S > YOUNG_S:
                        self._others[pid] = started
                    continue
                self._leave({pid})
                seen = self._known[pid] = Seen(role, started, 0, True, 0.0, 0.0, 0.0)
            seen.running = fields[0] not in "ZX"
            seen.parent = int(fields[1])
            seen.cpu_s = sum(map(int, fields[11:15])) * TICK_S
            seen.rss_mb = int(fields[21]) * PAGE_MB
            seen.peak_mb = max(seen.peak_mb, _peak_mb(pid))
        self._leave(self._known.keys() - pids)
        self._others = {pid: start for pid, start in self._others.items() if pid in pids}

    def _leave(self, pids: Set[int]) -> None:
        """Processes have gone. A parent that is still there has their CPU time in its own."""
        gone = [self._known.pop(pid) for pid in pids if pid in self._known]
        self._gone_cpu_s += sum(seen.cpu_s for seen in gone if seen.parent not in self._known)

    def _role(self, pid: int) -> str | None:
        """The side that a process is on, or None if it is not the peer's."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        start = f"{MARK}={self._token}/".encode()
        for variable in variables:
            if variable.startswith(start):
                return variable[len(start) :].decode()
        return None

    def _running(self) -> list[tuple[int, int]]:
        """Number and start of all that run."""
        for process in self._started:
            process.poll()
        with self._lock:
            self._look()
            return [(pid, seen.started) for pid, seen in self._known.items() if seen.running]

    def _signal(self, sig: signal.Signals) -> None:
        """Send a signal to all that run."""
        for pid, started in self._running():
            if started_at(pid) == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, sig)

    def _end(self) -> None:
        """End all processes: some start others while they end, so until none is found."""
        self._signal(signal.SIGTERM)
        until = time.monotonic() + PATIENCE_S
        while self._running():
            if time.monotonic() > until:
                self._signal(signal.SIGKILL)
            time.sleep(INTERVAL_S)
        for process in self._started:
            process.wait()
