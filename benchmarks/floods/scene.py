"""A coordinator with 1,024 descriptors, two honest silos, and what is measured of them."""

import contextlib
import http.client
import itertools
import json
import os
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

from tests.support.live.federation import BIN, Federation, Process, federation

DESCRIPTORS = 1024
PAUSE_S = 0.05
"""Between two requests of the one who looks at the page."""
TIMEOUT_S = 10.0
PATIENCE_S = 300.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
LIMITED = (
    "import os,resource,sys; n=int(sys.argv[1]); "
    "resource.setrlimit(resource.RLIMIT_NOFILE,(n,n)); os.execv(sys.argv[2],sys.argv[2:])"
)
CONFIG = """
[server]
listen = "127.0.0.1:0"
dashboard = "127.0.0.1:0"
state_dir = "{state}"

[[runs]]
name = "floods"
task = "digits"
method = "FedAvg"
roster = ["good-a", "good-b"]
num_rounds = 1000000
local_steps = 1
batch_size = 16
evaluate_every = 0
"""


@dataclass
class Window:
    """What was measured while so many seconds passed.

    Attributes:
        seconds: How many.
        rounds: That were done.
        rest_s: How long each request took; one that failed counts as TIMEOUT_S.
        memory_mb: The peak of the coordinator above what it had before.
        database: Bytes that its database grew by.
        log: Bytes that its log grew by.
        cpu_s: Seconds that it computed.
        failed: Requests that failed.
    """

    seconds: float
    rounds: int
    rest_s: list[float]
    memory_mb: float
    database: int
    log: int
    cpu_s: float
    failed: int

    def __add__(self, other: "Window") -> "Window":
        return Window(
            self.seconds + other.seconds,
            self.rounds + other.rounds,
            self.rest_s + other.rest_s,
            max(self.memory_mb, other.memory_mb),
            self.database + other.database,
            self.log + other.log,
            self.cpu_s + other.cpu_s,
            self.failed + other.failed,
        )

    @property
    def cpu(self) -> float:
        """Its share of a core."""
        return self.cpu_s / self.seconds

    @property
    def per_s(self) -> float:
        """Rounds a second."""
        return self.rounds / self.seconds

    @property
    def p95_s(self) -> float:
        """Of the requests."""
        return quantiles(self.rest_s, n=20)[-1] if len(self.rest_s) > 1 else TIMEOUT_S


@dataclass
class Looks:
    """Somebody who asks the page for its status again and again, each time anew."""

    at: str
    took: list[float] = field(default_factory=list)
    failed: int = 0

    def forever(self, stopped: threading.Event) -> None:
        """Until it is set."""
        while not stopped.wait(PAUSE_S):
            begun = time.monotonic()
            try:
                ask(self.at, "/api/v1/status")
                self.took.append(time.monotonic() - begun)
            except (OSError, http.client.HTTPException, ValueError):
                self.failed += 1
                self.took.append(TIMEOUT_S)


def ask(at: str, path: str) -> Any:
    """One request of its own connection."""
    connection = http.client.HTTPConnection(at, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        return json.loads(answer.read())
    finally:
        connection.close()


class Scene:
    """What is attacked, and who goes on meanwhile.

    Args:
        fed: Its processes.
        folder: Of the coordinator's state.
    """

    def __init__(self, fed: Federation, folder: Path):
        assert fed.server is not None
        self._server, self._folder = fed.server, folder
        self.grpc_at, self.page_at = fed.address, urlsplit(fed.url).netloc

    def rounds(self) -> int:
        """How many are done, by the database, which no flood of requests holds up."""
        with self._database() as db:
            return int(db.execute("SELECT max(round_index) FROM rounds").fetchone()[0] or 0)

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        path = f"file:{self._folder / 'coordinator.db'}?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True, timeout=30)) as db:
            yield db

    def _size(self) -> int:
        with self._database() as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            free = db.execute("PRAGMA freelist_count").fetchone()[0]
            return int(pages - free) * int(db.execute("PRAGMA page_size").fetchone()[0])

    def _memory_mb(self, which: str) -> float:
        text = Path(f"/proc/{self._server.pid}/status").read_text()
        return int(text.partition(f"{which}:")[2].split()[0]) / 1024

    def measure(self, seconds: float) -> Window:
        """What happens in the next seconds."""
        looks, stopped = Looks(self.page_at), threading.Event()
        thread = threading.Thread(target=looks.forever, args=[stopped])
        Path(f"/proc/{self._server.pid}/clear_refs").write_text("5")  # the peak is of now
        memory, log = self._memory_mb("VmRSS"), self._server.log.stat().st_size
        size, rounds, cpu = self._size(), self.rounds(), cpu_s(self._server.pid)
        begun = time.monotonic()
        thread.start()
        time.sleep(seconds)
        took = time.monotonic() - begun
        window = Window(
            took,
            self.rounds() - rounds,
            looks.took,
            self._memory_mb("VmHWM") - memory,
            self._size() - size,
            self._server.log.stat().st_size - log,
            cpu_s(self._server.pid) - cpu,
            looks.failed,
        )
        stopped.set()
        thread.join()
        return window


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / TICKS_A_SECOND


@contextlib.contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """All of it, with rounds under way; it ends with the block."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 12_000:
        sys.exit(f"the attackers need 12,000 descriptors, and this machine allows {hard}")
    with federation(folder) as fed:
        config, state = folder / "federation.toml", folder / "state"
        config.write_text(CONFIG.format(state=state))
        command = ["python", "-c", LIMITED, str(DESCRIPTORS), str(BIN / "domo-server")]
        fed.server = Process([*command, "--config", str(config)], folder / "server.log", folder)
        fed.address = fed.server.wait_for(r"silos at (\S+:\d+)", PATIENCE_S).group(1)
        fed.url = fed.server.wait_for(r"dashboard +(http://\S+)", PATIENCE_S).group(1)
        for k, name in enumerate(("good-a", "good-b")):
            fed.start_silo(name, "--shard", f"{k}/2")
        made = Scene(fed, state)
        for _ in itertools.takewhile(lambda end: time.monotonic() < end, itertools.repeat(
            time.monotonic() + PATIENCE_S
        )):  # fmt: skip
            if made.rounds() > 50:
                break
            time.sleep(0.5)
        else:
            raise AssertionError(f"no rounds:\n{fed.server.output[-2000:]}")
        yield made
