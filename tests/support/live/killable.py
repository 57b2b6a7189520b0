"""A coordinator and four silos, real processes that can be killed and started again."""

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from domo.model.model_file import save_model
from domo.tasks import load_task
from domo.training.initial import build_initial
from tests.support.live.federation import Process

SILOS = tuple(f"site-{c}" for c in "abcd")
COORDINATOR = "coordinator"
RUN_ID = "1-chaos"
POLL_S = 0.1
FRESH_S = 0.1
TAKEN = Path(tempfile.gettempdir())
"""Where the locks of ports are that test processes have been given."""
STOP_S = 60.0


def is_fresh(path: Path) -> bool:
    """Whether a file is being written."""
    try:
        return time.time() - path.stat().st_mtime < FRESH_S
    except FileNotFoundError:
        return False


def free_port() -> int:
    """A port that no outgoing connection takes while its owner is dead, nor another test process.

    Those of pytest-xdist have a thousand each. Until this process ends no other one that runs tests
    is given it, of another tree either.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20000 + 1000 * (worker % 12)
    for _ in range(100):
        port = random.SystemRandom().randrange(first, first + 1000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            mine = TAKEN / f"domo-test-port-{os.getuid()}-{port}"
            lock = os.open(mine, os.O_RDWR | os.O_CREAT, 0o600)  # held until this process ends
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def table(task: str, num_rounds: int, **other: Any) -> dict[str, Any]:
    """The configuration of a run of all four silos, as [[runs]] has it."""
    return {
        "name": "chaos",
        "task": task,
        "num_rounds": num_rounds,
        "roster": list(SILOS),
        "local_steps": 1,
        "batch_size": 8,
        "local_lr": 0.02,
        "initial_model": "x0.safetensors",
        "seed": 0,
        **other,
    }


class Federation:
    """One coordinator and four silos that can be killed and started again.

    Args:
        folder: An empty folder.
        run: A `table`, of a task such as `tests.support.tasks.chaos`.
        step_s: How long its local steps sleep.
        queued: Whether the coordinator has the run.
        workers: Loader processes of each silo.
        disks: Where the state of a process lies, by its name; in the folder by default.
        server: Keys of [server].

    Attributes:
        via: Addresses through which silos reach the coordinator, by name; else its own.
        mark: In the environment of every process of this federation.
    """

    def __init__(
        self,
        folder: Path,
        run: Mapping[str, Any],
        step_s: float = 0.0,
        *,
        queued: bool = True,
        workers: int = 0,
        disks: Mapping[str, Path] | None = None,
        **server: Any,
    ):
        self.folder, self._run, self._workers = folder, run, workers
        self._disks, self.via = disks or {}, dict[str, str]()
        self.mark = f"FEDERATION={folder}"
        self.state_dir = self._disks.get(COORDINATOR, folder) / "coordinator"
        self.address, page = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.url = f"http://{page}/api/v1"
        self.processes: dict[str, Process] = {}
        self._starts = 0
        save_model(folder / "x0.safetensors", *build_initial(load_task(run["task"]), run["seed"]))
        self.data = {name: folder / f"data-{name}" for name in SILOS}
        for i, data in enumerate(self.data.values()):
            data.mkdir()
            (data / "samples.txt").write_text(str(20 + 7 * i))
            (data / "step_s.txt").write_text(str(step_s))
        given = {"listen": self.address, "dashboard": page, "state_dir": str(self.state_dir)}
        tables = {"[server]": {"report_interval_s": 0.1, **given, **server}}
        if queued:
            tables["[[runs]]"] = dict(run)
        lines = [
            "\n".join([name, *(f"{k} = {json.dumps(v)}" for k, v in table.items()), ""])
            for name, table in tables.items()
        ]
        (folder / "federation.toml").write_text("".join(lines))

    def state_of(self, name: str) -> Path:
        """The state folder of a silo."""
        return self._disks.get(name, self.folder) / f"state-{name}"

    def command(self, name: str, /, **other: object) -> list[str]:
        """What starts a process; `other`: flags of a silo with another value than usual."""
        if name == COORDINATOR:
            return ["domo-server", "--config", str(self.folder / "federation.toml")]
        flags = {
            "server": self.via.get(name, self.address),
            "name": name,
            "task": self._run["task"],
            "state-dir": self.state_of(name),
            "data": self.data[name],
            "workers": self._workers,
        } | {key.replace("_", "-"): value for key, value in other.items()}
        return ["domo-client", *(str(part) for k, v in flags.items() for part in (f"--{k}", v))]

    def process(self, name: str, /, **other: object) -> Process:
        """A process of this federation that is none of those in `processes`."""
        self._starts += 1
        log = self.folder / f"{name}-{self._starts:03d}.log"
        key, _, value = self.mark.partition("=")
        return Process(self.command(name, **other), log, self.folder, **{key: value})

    def start(self, name: str, /, **other: object) -> None:
        """Start a process, and do not wait for it."""
        self.processes[name] = self.process(name, **other)

    def all_processes(self) -> dict[int, str]:
        """What runs of this federation, orphans too: command lines by pid."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and self.mark.encode() in (
                    entry / "environ"
                ).read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(entry.name)] = line
        return {pid: line for pid, line in found.items() if line}  # not those that ended

    def kill(self, name: str) -> None:
        process = self.processes[name]
        assert process.poll() is None, f"{name} ended by itself:\n{process.output}"
        process.kill()

    def get(self, path: str, timeout_s: float = 2.0) -> Any:
        """An answer of REST; None while the coordinator does not answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout_s) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def post(self, path: str) -> Any:
        """Change something, as the admin."""
        token = (self.state_dir / "admin-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.url + path, b"{}", headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def phase(self, name: str) -> str:
        """What a process is doing, as REST says."""
        status, run = self.get("/status"), self.get(f"/runs/{RUN_ID}")
        if status is None or run is None:
            return "starting" if name == COORDINATOR else "while the coordinator is away"
        silos = {s["silo_id"]: s["phase"] for s in status["silos"]}
        if name == COORDINATOR:
            if run["state"] == "CLOSING":
                return "commit"
            return "open, receiving" if "uploading" in silos.values() else run["state"].lower()
        phase = {"offline": "joining"}.get(silos[name], silos[name])
        wanted = run["state"] == "OPEN" and name in run["waiting_for"]
        return "fetch" if phase == "waiting" and wanted else phase

    def writing(self, name: str) -> str | None:
        """What a process writes just now, or was writing when it died, by its half files."""
        run = self.state_dir / "runs" / RUN_ID
        uploads = f"round-*/{'*' if name == COORDINATOR else name}.*.part"
        if name == COORDINATOR:
            places = {
                "commit": (run / "checkpoints", "*.tmp"),
                "receiving": (run / "spool", uploads),
            }
        else:
            own = self.state_of(name)
            places = {
                "fetch": (own / "vectors", "*.part"),
                "upload": (run / "spool", uploads),
                "saving": (own, "pending.bin"),
            }
        for phase, (folder, pattern) in places.items():
            if any(is_fresh(path) for path in folder.glob(pattern)):
                return phase
        return None

    def stop(self) -> None:
        """Stop all as Ctrl-C would, silos first; each must end well."""
        silos = [p for name, p in self.processes.items() if name != COORDINATOR]
        for process in silos:
            os.kill(process.pid, signal.SIGTERM)
        for process in silos:
            assert process.wait(STOP_S) == 0, process.output
        server = self.processes[COORDINATOR]
        assert server.stop(timeout_s=STOP_S) == 0, server.output

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for pid in self.all_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def started(
    folder: Path, run: Mapping[str, Any], step_s: float, limit_s: float, **server: Any
) -> Iterator[Federation]:
    """A federation in its first round, whose processes end with the block."""
    fed = Federation(folder, run, step_s, **server)
    try:
        fed.start(COORDINATOR)
        for name in SILOS:
            fed.start(name)
        until(fed, lambda run: run["state"] == "OPEN", time.monotonic() + limit_s)
        yield fed
    finally:
        fed.close()


def until(fed: Federation, good: Callable[[Any], bool], end: float) -> Any:
    """The run, once it is as wanted."""
    while True:
        run = fed.get(f"/runs/{RUN_ID}")
        if run is not None and good(run):
            return run
        assert time.monotonic() < end, f"still {run}\n{logs(fed)}"
        time.sleep(POLL_S)


def logs(fed: Federation) -> str:
    return "\n".join(f"--- {n}\n{p.output[-3000:]}" for n, p in fed.processes.items())
