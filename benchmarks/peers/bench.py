"""What a peer is started with: commands on a side, free ports, and when to give up."""

import re
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .processes import Processes

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Trouble(Exception):
    """A measurement cannot go on."""


class Bench:
    """What a peer is started with."""

    def __init__(
        self, processes: Processes, bin_folder: Path, folder: Path, num_silos: int, end: float
    ):
        self.folder, self.num_silos = folder, num_silos
        self._processes, self._bin, self._end = processes, bin_folder, end
        self._must_run: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, *command: str | Path) -> None:
        """Start a process that must go on running; the command's first word is the peer's."""
        self._must_run[role] = self._launch(role, command, f"{role}.log")

    def call(self, role: str, *command: str | Path, log: str) -> None:
        """Run a command to its end."""
        process = self._launch(role, command, log)
        while process.poll() is None:
            self.check()
            time.sleep(0.1)
        self.check()
        if process.returncode:
            words = " ".join(map(str, command[:3]))
            raise Trouble(f"{words} ended with {process.returncode}: {self._last_line(log)}")

    def wait_for_port(self, port: int) -> None:
        """Wait until something listens."""
        while True:
            self.check()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)

    def check(self) -> None:
        """Raise where there is no point in waiting any longer."""
        if self._processes.trouble:
            raise Trouble(self._processes.trouble)
        for role, process in self._must_run.items():
            if process.poll() is not None:
                last = self._last_line(f"{role}.log")
                raise Trouble(f"the {role} ended with {process.returncode}: {last}")
        if time.monotonic() > self._end:
            raise Trouble("the time limit was reached")

    def _launch(
        self, role: str, command: Sequence[str | Path], log: str
    ) -> "subprocess.Popen[bytes]":
        return self._processes.start(role, [self._bin / command[0], *command[1:]], log)

    def _last_line(self, log: str) -> str:
        text = COLOURS.sub("", (self.folder / log).read_text(errors="replace"))
        return (text.strip() or "it said nothing").splitlines()[-1]


def free_ports(number: int) -> list[int]:
    """Ports on loopback that nothing listens on."""
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
