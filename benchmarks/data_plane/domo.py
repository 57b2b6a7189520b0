"""Rounds of domo: a coordinator process as users start it, and light silos or real agents."""

import json
import multiprocessing
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors import safe_open

from benchmarks.data_plane import light, papers
from domo.model.model_file import write_model
from tests.support.faults.proxy import Proxy
from tests.support.live.federation import Federation, Process, federation

TASK = "benchmarks.data_plane.wide_task:Wide"
AGENT_SHAPE = "WIDE_PARAMS"
"""Environment variable with the size of the agents' model."""


@dataclass
class Rounds:
    """What rounds have cost.

    Attributes:
        system: Who.
        case: What, in words.
        model_mb: Size of the model.
        silos: K.
        round_s: Each timed round: from the last update being ready to the last silo having the next
            model. Of peers, and of agents that train: a whole round.
        cpu_s: CPU seconds of a round, both ends.
        bare_mb: VmHWM of the coordinator before the run; 0: not known.
        server_mb: VmHWM of the coordinator at the end (peers: of the largest process).
        silo_mb: VmHWM of the largest silo.
        floor_s: The same bytes through plain sockets, in this run of the benchmark.
        correct: Whether the last model is the right one.
        note: Anything unusual.
    """

    system: str
    case: str
    model_mb: float
    silos: int
    round_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    bare_mb: float = 0.0
    server_mb: float = 0.0
    silo_mb: float = 0.0
    floor_s: float | None = None
    correct: bool = False
    note: str = ""

    @property
    def seconds(self) -> float:
        """Median of the rounds."""
        return median(self.round_s) if self.round_s else float("nan")


def usage(pid: int) -> tuple[float, float]:
    """VmHWM in MB and CPU seconds of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(peak.split()[1]) / 1000, (int(stat[11]) + int(stat[12])) / ticks


@contextmanager
def started(
    num_params: int, silos: int, rounds: int, method: str, server: str = "", mutual: bool = False
) -> Iterator[tuple[Federation, Process, float]]:
    """A coordinator with one run that starts at 0, and its VmHWM before it."""
    with tempfile.TemporaryDirectory(prefix="domo-bench-") as root, federation(Path(root)) as fed:
        zeros = torch.zeros(1 << 18)
        layout = light.layout_of(num_params)
        write_model(fed.folder / "x0.safetensors", layout, lambda _, lo, hi: zeros[: hi - lo])
        if mutual:
            papers.begin(fed.state_dir)
        process = fed.start_server(server=server, report_interval_s=light.HEARTBEAT_S)
        bare_mb, _ = usage(process.pid)
        run = {
            "name": "r",
            "task": TASK,
            "method": method,
            "num_rounds": rounds,
            "num_silos": silos,
            "local_steps": 1,
            "local_lr": 1.0,
            "batch_size": 1,
            "evaluate_every": 0,
            "norm_check": "off",
            "initial_model": str(fed.folder / "x0.safetensors"),
        }
        token = (fed.state_dir / "admin-token").read_text().strip()
        _request(fed, "/runs", token, run)
        yield fed, process, bare_mb


def _request(fed: Federation, path: str, token: str = "", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{fed.url}/api/v1{path}", data)
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def light_rounds(
    case: str,
    num_bytes: int,
    silos: int,
    rounds: int,
    *,
    method: str = "DOMO",
    keeps: bool = True,
    threads: bool = False,
    server: str = "",
    slow: int = 0,
    slow_rate: float = 2.5e6,
    pause_s: float = 0.0,
    mutual: bool = False,
) -> Rounds:
    """Rounds with light silos.

    Args:
        case: In words.
        num_bytes: Of the model.
        silos: K.
        rounds: Timed ones; one more warms up, and a last one is not timed.
        method: Of the run.
        keeps: Silos with files, or streaming ones.
        threads: Silos as threads of one process, rather than a process each.
        server: More lines of [server].
        slow: How many of the silos are behind a slow link; the times are those of the others.
        slow_rate: Bytes a second of such a link, each way.
        pause_s: How long silos do nothing before their updates are ready.
        mutual: Over mTLS, with the coordinator's own CA.
    """
    n, vectors = num_bytes // 4, 2 if method in ("FedAvgLM", "FedAvgSLM") else 1
    out = Rounds("domo", case, num_bytes / 1e6, silos)
    total = rounds + 2
    with started(n, silos, total, method, server, mutual) as (fed, process, out.bare_mb):
        links = [Proxy(fed.address, rate=slow_rate) for _ in range(slow)]
        names = [f"silo-{k:03d}" for k in range(silos)] if mutual else []
        own = [papers.enrol(fed.state_dir, fed.folder, name) for name in names]
        addresses = [*(link.address for link in links), *[fed.address] * (silos - slow)]

        def body(k: int, together: light.Barrier, stamps: light.Stamps) -> None:
            folder = fed.folder / f"silo-{k}"
            tls, where = (own[k] if mutual else None), addresses[k]
            light.run(k, where, folder, n, vectors, keeps, together, stamps, pause_s, tls)

        stamps, ends = (light.threads_of if threads else _processes_of)(silos, body)
        seen = _Seen(silos, slow)
        while not seen.complete(total):
            stamp = stamps.get(timeout=light.PATIENCE_S)
            seen.add(stamp, usage(process.pid)[1])
        for end in ends:
            end.join()
        for link in links:
            link.close()
        out.round_s = [seen.seconds(r) for r in range(1, total - 1)]
        out.cpu_s = median(seen.cpu_s(r, threads) for r in range(1, total - 1))
        out.silo_mb, (out.server_mb, _) = seen.silo_mb, usage(process.pid)
        out.correct = _is_right(fed, n, silos, total, method)
    return out


class _Seen:
    """Stamps by round."""

    def __init__(self, silos: int, slow: int):
        self._silos, self._slow = silos, slow
        self._at: dict[tuple[str, int], dict[int, light.Stamp]] = {}
        self._server: dict[int, float] = {}
        self.silo_mb = 0.0

    def add(self, stamp: light.Stamp, server_cpu_s: float) -> None:
        self._at.setdefault((stamp.what, stamp.round_index), {})[stamp.silo] = stamp
        self.silo_mb = max(self.silo_mb, stamp.peak_mb)
        if stamp.what == "got" and self.complete(stamp.round_index):
            self._server[stamp.round_index] = server_cpu_s

    def complete(self, r: int) -> bool:
        """Whether all silos have x_r."""
        return len(self._at.get(("got", r), {})) == self._silos

    def _times(self, what: str, r: int) -> list[float]:
        fast = range(self._slow, self._silos)
        return [self._at[what, r][k].at_s for k in fast]

    def seconds(self, r: int) -> float:
        """Of round r; with slow silos: the fast ones' transfers, up and down."""
        ready, got = max(self._times("ready", r)), max(self._times("got", r + 1))
        if not self._slow:
            return got - ready
        up = max(self._times("sent", r)) - ready
        closed = max(s.at_s for s in self._at["sent", r].values())
        return up + got - closed

    def cpu_s(self, r: int, one_process: bool) -> float:
        """Of all processes."""
        before, after = self._at["got", r], self._at["got", r + 1]
        each = [after[k].cpu_s - before[k].cpu_s for k in range(self._silos)]
        silos = max(each) if one_process else sum(each)
        return silos + self._server[r + 1] - self._server[r]


def _processes_of(
    silos: int, body: Callable[[int, light.Barrier, light.Stamps], None]
) -> tuple[Any, Sequence[Any]]:
    context = multiprocessing.get_context("fork")
    together, stamps = context.Barrier(silos), context.Queue()
    ends = [context.Process(target=body, args=(k, together, stamps)) for k in range(silos)]
    for end in ends:
        end.start()
    return stamps, ends


def _is_right(fed: Federation, n: int, silos: int, rounds: int, method: str) -> bool:
    """Whether x_R is what constant updates make of 0; looks at some of its entries."""
    mean, mu_s = sum(map(light.value_of, range(silos))) / silos, 0.9
    if method in ("FedAvg", "FedAvgLM"):
        mu_s = 0.0
    x = m = 0.0
    for _ in range(rounds):
        m = mu_s * m + mean
        x -= m
    path = fed.state_dir / "runs" / "1-r" / "model.safetensors"
    end = time.monotonic() + light.PATIENCE_S
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    with safe_open(path, framework="pt") as file:
        w = file.get_slice("w")
        some = torch.cat([w[:1000], w[n // 2 : n // 2 + 1000], w[max(0, n - 1000) :]])
    return bool(torch.allclose(some, torch.tensor(x), rtol=1e-4, atol=0))


def agent_rounds(case: str, num_bytes: int, silos: int, rounds: int, method: str) -> Rounds:
    """Rounds with `domo-client`; each trains one step with constant gradients."""
    n = num_bytes // 4
    out = Rounds("domo", case, num_bytes / 1e6, silos)
    os.environ[AGENT_SHAPE] = str(n)
    with started(n, silos, rounds, method) as (fed, process, out.bare_mb):
        data = fed.folder / "data"
        data.mkdir()
        agents = [
            fed.start_silo(f"silo-{k:03d}", "--data", str(data), "--task", TASK)
            for k in range(silos)
        ]
        run: dict[str, Any] = {}
        while run.get("state") not in ("FINISHED", "FAILED", "STOPPED"):
            time.sleep(0.5)
            run = _request(fed, "/runs/1-r")
            for agent in agents:
                if agent.poll() is not None:
                    raise RuntimeError(agent.output[-2000:])
            out.silo_mb = max(out.silo_mb, *(usage(a.pid)[0] for a in agents))
        out.server_mb, _ = usage(process.pid)
        history = _request(fed, "/runs/1-r/rounds")
        out.round_s = [r["duration_s"] for r in history[1:]]
        out.correct, out.note = run["state"] == "FINISHED", run["detail"]
    return out


def trainer_mb(num_bytes: int, momentum: float, device: str = "cpu") -> float:
    """VmHWM of a bare process that trains the agents' model with torch's SGD."""
    code = (
        "import re, torch\n"
        "from benchmarks.data_plane.wide_task import Wide\n"
        "import domo_client.agent\n"
        f"model = Wide().build_model().to({device!r})\n"
        f"opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum={momentum}, fused=True)\n"
        "for _ in range(3):\n"
        f"    Wide().loss(model, torch.ones(1, device={device!r})).backward()\n"
        "    opt.step(); opt.zero_grad()\n"
        "status = open('/proc/self/status').read()\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) / 1000)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        variables = {AGENT_SHAPE: str(num_bytes // 4)}
        bare = Process(["python", "-c", code], Path(folder) / "log", Path(folder), **variables)
        if bare.wait(600):
            raise RuntimeError(bare.output)
        return float(bare.output.split()[-1])
