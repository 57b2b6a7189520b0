"""A federation of real processes, started through the command line, for end-to-end tests."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
STARTUP_S = 200.0


class Process:
    """A command, its output in a file."""

    def __init__(self, command: Sequence[str], log: Path, cwd: Path, **variables: str):
        self.log = log
        env = {k: v for k, v in os.environ.items() if not k.startswith("DOMO_")}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "DOMO_CLIENT_POLICY": "open"}
        env |= variables
        paths = [*variables.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]
        env["PYTHONPATH"] = os.pathsep.join(
            [*filter(None, paths), os.environ.get("PYTHONPATH", "")]
        )
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def poll(self) -> int | None:
        return self._popen.poll()

    def wait(self, timeout_s: float) -> int:
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.output}") from None

    def wait_for(self, pattern: str, timeout_s: float = STARTUP_S) -> re.Match[str]:
        """The first match of a pattern in the output."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            found = re.search(pattern, self.output)
            if found:
                return found
            if self.poll() is not None and not re.search(pattern, self.output):
                raise AssertionError(f"ended with {self.poll()} before {pattern!r}:\n{self.output}")
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in {timeout_s} s:\n{self.output}")

    def stop(self, sig: int = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        if self.poll() is None:
            self._popen.send_signal(sig)
        return self.wait(timeout_s)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(60)


class Federation:
    """One coordinator and any number of silos under a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.state_dir = folder / "coordinator"
        self.server: Process | None = None
        self.silos: dict[str, Process] = {}
        self.address = ""
        self.url = ""
        self._starts = 0

    def start_server(
        self,
        runs: str = "",
        *flags: str,
        server: str = "",
        listen: str = "127.0.0.1:0",
        report_interval_s: float = 0.5,
    ) -> Process:
        """Start `domo-server` with a [server] table and the text of [[runs]] tables."""
        config = self.folder / "federation.toml"
        config.write_text(
            f'[server]\nlisten = "{listen}"\ndashboard = "127.0.0.1:0"\n'
            f"report_interval_s = {report_interval_s}\n"
            f'state_dir = "{self.state_dir}"\n{server}\n{runs}'
        )
        command = ["domo-server", "--config", str(config), *flags]
        self.server = Process(command, self._log("server"), self.folder)
        self.address = self.server.wait_for(r"silos at (\S+:\d+)").group(1)
        self.url = self.server.wait_for(r"dashboard +(http://\S+)").group(1)
        return self.server

    def start_silo(self, name: str, *flags: str, address: str | None = None) -> Process:
        """Start `domo-client` with its own state folder."""
        command = [
            "domo-client",
            "--server",
            address or self.address,
            "--name",
            name,
            "--state-dir",
            str(self.folder / f"state-{name}"),
            *flags,
        ]
        self.silos[name] = Process(command, self._log(name), self.folder)
        return self.silos[name]

    def _log(self, name: str) -> Path:
        """A log of its own for each start."""
        self._starts += 1
        return self.folder / f"{name}-{self._starts}.log"

    def finish(self, timeout_s: float = 600.0) -> None:
        """Wait for a server started with --exit-when-done, then stop the silos."""
        assert self.server is not None
        code = self.server.wait(timeout_s)
        logs = "\n".join(f"--- {n}\n{p.output[-2000:]}" for n, p in self.silos.items())
        assert code == 0, f"{self.server.output}\n{logs}"
        for silo in self.silos.values():
            assert silo.stop() == 0, silo.output

    def final_state(self, run_id: str) -> dict[str, torch.Tensor]:
        """The newest checkpoint: x, m, mbar, buffers; x_prev is that before's x."""
        folder = self.state_dir / "runs" / run_id / "checkpoints"
        before, newest = sorted(folder.glob("x*.safetensors"))
        return load_file(newest) | {"x_prev": load_file(before)["x"]}

    def close(self) -> None:
        for process in [*self.silos.values(), *([self.server] if self.server else [])]:
            process.kill()


@contextlib.contextmanager
def federation(folder: Path) -> Iterator[Federation]:
    """A federation whose processes end with the block."""
    fed = Federation(folder)
    try:
        yield fed
    finally:
        fed.close()
