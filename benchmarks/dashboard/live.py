"""A coordinator process with a run of light silos, asked over REST."""

import contextlib
import http.client
import json
import os
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import torch

from benchmarks.dashboard.silos import NUM_PARAMS
from benchmarks.data_plane import light
from domo.model.model_file import write_model
from tests.support.live.federation import Federation, federation

T = TypeVar("T")
TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE_S = 120.0


class Coordinator:
    """One that is up."""

    def __init__(self, fed: Federation, pid: int):
        self.fed, self.pid, self.url, self.address = fed, pid, fed.url, fed.address
        self.token = (fed.state_dir / "admin-token").read_text().strip()

    def get(self, path: str) -> Any:
        """Read an answer."""
        return self._ask(urllib.request.Request(f"{self.url}/api/v1{path}"))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change something, as the admin."""
        request = urllib.request.Request(f"{self.url}/api/v1{path}", json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        return self._ask(request)

    def _ask(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def until(self, look: Callable[[], T | None], what: str, timeout_s: float = PATIENCE_S) -> T:
        """The first value that is true.

        Raises:
            TimeoutError: None was.
        """
        end = time.monotonic() + timeout_s
        while not (found := look()):
            if time.monotonic() > end:
                raise TimeoutError(f"still not {what}")
            time.sleep(0.1)
        return found

    def rounds_done(self, run_id: str) -> int:
        """Of a run."""
        return int(self.get(f"/runs/{run_id}")["rounds_done"])


@contextlib.contextmanager
def coordinator(report_interval_s: float = light.HEARTBEAT_S) -> Iterator[Coordinator]:
    """A process as users start it, with its folder below /tmp; both go with the block."""
    with (
        tempfile.TemporaryDirectory(prefix="domo-dashboard-") as root,
        federation(Path(root)) as fed,
    ):
        process = fed.start_server(report_interval_s=report_interval_s)
        yield Coordinator(fed, process.pid)


def submit_light(it: Coordinator, rounds: int, silos: int, num_params: int = NUM_PARAMS) -> str:
    """Queue a run for light silos that starts at 0; the id of the run."""
    zeros = torch.zeros(1 << 18)
    path = it.fed.folder / "x0.safetensors"
    write_model(path, light.layout_of(num_params), lambda _, lo, hi: zeros[: hi - lo])
    run = {
        "name": "light",
        "task": "benchmarks.light:Silos",
        "method": "DOMO",
        "num_rounds": rounds,
        "num_silos": silos,
        "local_steps": 1,
        "batch_size": 1,
        "norm_check": "off",
        "initial_model": str(path),
    }
    return str(it.post("/runs", run)["run_id"])


def cpu_s(pid: int) -> float:
    """CPU seconds of a process until now; 0 if it has gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(stat[11]) + int(stat[12])) / TICKS


def connection(url: str) -> http.client.HTTPConnection:
    """A connection of its own to the dashboard."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
