"""The demo: one coordinator and four silo processes on this machine, FedAvg and then DOMO.

Started by `make demo`. Real processes, real images (1,797 handwritten digits that come with domo),
gRPC on loopback. Everything it leaves is in a folder of its own: runs/demo, runs/demo-2, ...
"""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from rich.live import Live
from rich.table import Table

from domo.ops.console import console, err_console, say

NUM_SILOS = 4
ROUNDS = 15
METHODS = ("FedAvg", "DOMO")
PATIENCE_S = 180.0
RUNS = Path("runs")
BIN = Path(sys.executable).parent

FOLDER = RUNS / "demo"

LINKS = r"dashboard +(http://\S+)\s+log in +(.+) prints"
SERVER = """
[server]
report_interval_s = 0.5  # a round takes less than the default of 2 s
"""
RUN = """
[[runs]]
name = "{name}"
method = "{method}"
task = "digits"
num_rounds = {rounds}
num_silos = {silos}
similarity = 0.05
local_epochs = 1
batch_size = 32
local_lr = 0.05
"""


def free_port(first: int) -> int:
    """The first free port from `first` on."""
    for port in range(first, first + 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise SystemExit(f"no free port from {first} on")


def own_folder() -> Path:
    """runs/demo, or the next of runs/demo-2, ...: what an earlier demo has left stays."""
    RUNS.mkdir(exist_ok=True)
    for number in itertools.count(1):
        folder = RUNS / ("demo" if number == 1 else f"demo-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError


def start_guard() -> subprocess.Popen[bytes]:
    """A shell that is told the numbers of processes, and ends them once nobody tells it more."""
    script = 'while read -r n; do all="$all $n"; done; kill $all; sleep 3; kill -9 $all'
    return subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        start_new_session=True,
    )  # fmt: skip


def start(guard: subprocess.Popen[bytes], name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start one process, its output in NAME.log of the folder; it ends with this one."""
    env = os.environ | {"PYTHONUNBUFFERED": "1"}
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(BIN / command[0]), *command[1:]], stdout=log, stderr=subprocess.STDOUT, env=env,
            start_new_session=True,
        )  # fmt: skip
    assert guard.stdin is not None
    guard.stdin.write(b"%d\n" % process.pid)
    return process


def end(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Stop them all, politely first."""
    for process in processes.values():
        process.terminate()
    for process in processes.values():
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


def fail(processes: dict[str, subprocess.Popen[bytes]], text: str) -> None:
    """Say what went wrong and where the logs are."""
    end(processes)
    err_console.print(f"error: {text}; the logs are in {FOLDER}/*.log", style="red", markup=False)
    raise SystemExit(1)


def accuracies(url: str, run_id: str) -> dict[int, float]:
    """Test accuracy of each x_r that all silos have tested."""
    points = httpx.get(f"{url}/api/v1/runs/{run_id}", timeout=10).json()["metrics"]
    done = [p for p in points if p["num_silos"] == NUM_SILOS]
    return {p["model_index"]: p["metrics"]["accuracy"] for p in done}


def show(curves: dict[str, dict[int, float]], running: str) -> Table:
    """The curves side by side."""
    table = Table("after round", *METHODS, title="test accuracy", box=None)
    last = max((max(c, default=0) for c in curves.values()), default=0)
    for r in range(last + 1):
        cells = [f"{100 * curves[m][r]:.1f} %" if r in curves[m] else "" for m in METHODS]
        table.add_row(str(r), *cells)
    table.caption = running
    return table


def watch(url: str, run_ids: dict[str, str], processes: dict[str, Any]) -> dict[str, Any]:
    """Follow both runs to their end."""
    curves: dict[str, dict[int, float]] = {m: {} for m in METHODS}
    printed: set[tuple[str, int]] = set()
    end_at = time.monotonic() + PATIENCE_S
    with (
        Live(console=console, auto_refresh=False)
        if console.is_terminal
        else (contextlib.nullcontext()) as live
    ):
        while True:
            runs = {r["run_id"]: r for r in httpx.get(f"{url}/api/v1/runs", timeout=10).json()}
            for method, run_id in run_ids.items():
                curves[method] = accuracies(url, run_id)
                if runs[run_id]["state"] in ("FAILED", "STOPPED"):
                    fail(processes, f"{run_id}: {runs[run_id]['detail']}")
            now = next((r for r in runs.values() if r["state"] not in ("QUEUED", "FINISHED")), None)
            text = f"{now['name']}: {now['detail'] or now['state'].lower()}" if now else ""
            if live is not None:
                live.update(show(curves, text), refresh=True)
            for method in METHODS:
                for r, value in curves[method].items():
                    if live is None and (method, r) not in printed:
                        printed.add((method, r))
                        say(f"{method:6s} after round {r:2d}: {100 * value:5.1f} %")
            whole = all(len(c) == ROUNDS + 1 for c in curves.values())
            if whole and all(runs[i]["state"] == "FINISHED" for i in run_ids.values()):
                return curves
            dead = [n for n, p in processes.items() if p.poll() is not None]
            if dead:
                fail(processes, f"{', '.join(dead)} ended early")
            if time.monotonic() > end_at:
                fail(processes, f"not done after {PATIENCE_S:.0f} s")
            time.sleep(0.3)


def main() -> None:
    """Run the demo."""
    global FOLDER
    began = time.monotonic()
    FOLDER = own_folder()
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is nohup's
        signal.signal(signal.SIGHUP, _interrupt)
    config = FOLDER / "federation.toml"
    runs = (RUN.format(name=m.lower(), method=m, rounds=ROUNDS, silos=NUM_SILOS) for m in METHODS)
    config.write_text(SERVER + "".join(runs))
    address = f"127.0.0.1:{free_port(50051)}"
    say(f"starting a coordinator and {NUM_SILOS} silos (logs and all else in {FOLDER})")
    server_command = (
        "domo-server", "--config", str(config), "--listen", address,
        "--state-dir", str(FOLDER / "coordinator"),
    )  # fmt: skip
    guard = start_guard()
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        processes["coordinator"] = start(guard, "coordinator", *server_command)
        for i in range(NUM_SILOS):
            name = f"silo-{i}"
            processes[name] = start(
                guard, name, "domo-client", "--server", address, "--name", name,
                "--shard", f"{i}/{NUM_SILOS}", "--device", "cpu",
                "--state-dir", str(FOLDER / name),
            )  # fmt: skip
        log = FOLDER / "coordinator.log"
        while not (found := re.search(LINKS, log.read_text())):
            if processes["coordinator"].poll() is not None:
                fail(processes, "the coordinator did not start: " + log.read_text().strip())
            time.sleep(0.1)
        url, login = found.groups()
        say(f"dashboard: {url}")
        if console.is_terminal:
            say(f"  to start runs of your own there, log in: {login}")
        run_ids = {m: f"{i}-{m.lower()}" for i, m in enumerate(METHODS, 1)}
        curves = watch(url, run_ids, processes)
        if not console.is_terminal:
            console.print(show(curves, ""))
        keep(url, run_ids)
        took = time.monotonic() - began
        say(f"done in {took:.0f} s. Left in {FOLDER}, which no later demo touches:")
        say("  domo.safetensors     the final DOMO model (fedavg.safetensors: the other)")
        say("  domo.history.json    configuration, accuracy and rounds (fedavg.history.json too)")
        say("  coordinator/, silo-*/, *.log   state and logs of each process")
        if console.is_terminal:
            say("the dashboard stays up until Ctrl-C:")
            both = ",".join(run_ids.values())
            say(f"  both runs side by side            {url}/#/compare?runs={both}")
            say(f"  log in and start one of your own: {login}")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
        say("next: README.md, `domo simulate --help`, `domo-server --help`, `domo-client --help`")
    except KeyboardInterrupt:
        say("stopped")
    finally:
        end(processes)
        guard.kill()


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def keep(url: str, run_ids: dict[str, str]) -> None:
    """Download models, which takes a token, and histories."""
    token = (FOLDER / "coordinator" / "admin-token").read_text().strip()
    for method, run_id in run_ids.items():
        base = f"{url}/api/v1/runs/{run_id}"
        model = httpx.get(f"{base}/model", headers={"Authorization": f"Bearer {token}"}, timeout=60)
        model.raise_for_status()
        (FOLDER / f"{method.lower()}.safetensors").write_bytes(model.content)
        history = httpx.get(f"{base}/history.json", timeout=60)
        history.raise_for_status()
        text = json.dumps(history.json(), indent=1)
        (FOLDER / f"{method.lower()}.history.json").write_text(text)


if __name__ == "__main__":
    main()
