"""Make the stored state of tests/integration/stored again, with the domo of another checkout.

    python tests/support/live/stored_state.py CHECKOUT [FOLDER]

CHECKOUT is a folder with that domo and its .venv. A coordinator and two silos train, all of them
are killed with a round open and one of its two updates accepted, and their folders are packed. A
second federation of the same run is left alone: its last checkpoint is what is expected.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
TASK = "tests.support.tasks.stored:StoredTask"
SILOS = ("site-a", "site-b")
HELD = 3
"""The round that is left open: site-b waits in it."""
WAIT_S = 900.0
RUN = f"""
[[runs]]
name = "stored"
task = "{TASK}"
method = "DOMO-avg"
num_rounds = 6
roster = ["site-a", "site-b"]
local_steps = 2
batch_size = 4
local_lr = 0.25
server_momentum = 0.5
local_momentum = 0.5
fusion_coef = 0.5
update_dtype = "bfloat16"
initial_model = "x0.safetensors"
seed = 5
"""


class Federation:
    """One coordinator and two silos of another checkout, in a folder."""

    def __init__(self, checkout: Path, folder: Path):
        self.bin, self.folder = checkout / ".venv" / "bin", folder
        with contextlib.ExitStack() as free:
            sockets = [free.enter_context(socket.socket()) for _ in range(2)]
            for s in sockets:
                s.bind(("127.0.0.1", 0))
            self.silos_at, self.page_at = (f"127.0.0.1:{s.getsockname()[1]}" for s in sockets)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for number, name in enumerate(SILOS):
            data = folder / f"data-{name}"
            data.mkdir(parents=True)
            (data / "silo.txt").write_text(str(number))
        (folder / "federation.toml").write_text(RUN)

    def call(self, *command: str) -> subprocess.Popen[bytes]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOMO_")}
        env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "DOMO_CLIENT_POLICY": "open"}
        log = (self.folder / "log.txt").open("ab")
        where = {"cwd": self.folder, "env": env, "stdout": log, "stderr": log}
        return subprocess.Popen([str(self.bin / command[0]), *command[1:]], **where)  # type: ignore[call-overload]

    def start(self) -> None:
        made = self.call("domo", "init", TASK, "--seed", "5", "--out", "x0.safetensors")
        assert made.wait(WAIT_S) == 0, (self.folder / "log.txt").read_text()
        flags = ("--listen", self.silos_at, "--dashboard", self.page_at)
        where = ("--config", "federation.toml", "--state-dir", "coordinator")
        self.running["coordinator"] = self.call("domo-server", *where, *flags)
        for name in SILOS:
            who = ("--server", self.silos_at, "--name", name, "--state-dir", f"state-{name}")
            what = (
                "--data",
                f"data-{name}",
                "--task",
                TASK,
                "--device",
                "cpu",
                "--connect-timeout",
                "600",
            )
            self.running[name] = self.call("domo-client", *who, *what)

    def kill(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGKILL)
            process.wait()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.page_at}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def until(self, good: Callable[[Any], bool]) -> Any:
        """The run, once it is as wanted."""
        end, run = time.monotonic() + WAIT_S, None
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if good(run := self.get("/runs/1-stored")):
                    return run
            time.sleep(0.2)
        raise SystemExit(f"still {run}\n{(self.folder / 'log.txt').read_text()}")


@contextlib.contextmanager
def federation(checkout: Path, folder: Path) -> Iterator[Federation]:
    it = Federation(checkout, folder)
    try:
        yield it
    finally:
        it.kill()


def main(checkout: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        with federation(checkout, Path(temporary) / "whole") as whole:
            whole.start()
            end = whole.until(lambda run: run["state"] in ("FINISHED", "FAILED"))
            assert end["state"] == "FINISHED", end
        with federation(checkout, Path(temporary) / "state") as cut:
            (cut.folder / f"data-site-b/hold-{HELD}").touch()
            cut.start()
            left = cut.until(
                lambda run: (
                    run["rounds_done"] == HELD
                    and run["waiting_for"] == ["site-b"]
                    and [p["num_silos"] for p in run["metrics"]] == [2] * (HELD + 1)
                )
            )
        with tarfile.open(out / "state.tar.xz", "w:xz") as archive:
            for name in ("coordinator", "state-site-a", "state-site-b"):
                archive.add(cut.folder / name, name)
    expected = {
        "checkpoint_digest": end["checkpoint_digest"],
        "rounds_done": left["rounds_done"],
        "metrics": end["metrics"],
    }
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "tests" / "integration" / "stored"
    main(Path(sys.argv[1]).absolute(), folder)
