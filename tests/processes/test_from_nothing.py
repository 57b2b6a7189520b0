"""From nothing to two silos that train over mTLS, in four commands and two a silo; then a third."""

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.live.federation import Process
from tests.support.live.killable import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

RUN = """
[[runs]]
task = "digits"
name = "first"
method = "FedAvg"
num_rounds = 5000
num_silos = 2
local_steps = 1
batch_size = 8
evaluate_every = 0
"""


class Machine:
    """A user with a home, and the commands that were typed there."""

    def __init__(self, folder: Path):
        folder.mkdir()
        self.folder, self.typed = folder, 0
        self._running: list[Process] = []

    def start(self, *command: str) -> Process:
        self.typed += 1
        home = {"HOME": str(self.folder), "XDG_STATE_HOME": str(self.folder / "state")}
        log = self.folder / f"{self.typed}.log"
        process = Process(command, log, self.folder, **home)
        self._running.append(process)
        return process

    def run(self, *command: str) -> str:
        """What a command says that ends."""
        process = self.start(*command)
        assert process.wait(60) == 0, process.output
        return process.output

    def files(self) -> dict[str, str]:
        """SHA-256 of what is kept: identity, configuration, state."""
        found = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # what is being written is renamed
                if path.is_file() and path.suffix != ".log":
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def modes(self) -> dict[str, int]:
        """Of all that is kept of state."""
        found = (self.folder / "state").rglob("*")
        return {f"{p}{'/' * p.is_dir()}": stat.S_IMODE(p.stat().st_mode) for p in found}

    def end(self) -> None:
        for process in self._running:
            process.kill()


@pytest.fixture
def no_umask() -> Iterator[None]:
    """All commands inherit it."""
    before = os.umask(0)
    yield
    os.umask(before)


@contextlib.contextmanager
def machines(folder: Path, *names: str) -> Iterator[list[Machine]]:
    made = [Machine(folder / name) for name in names]
    try:
        yield made
    finally:
        for machine in made:
            machine.end()


def enrolled(home: Machine, name: str) -> str:
    """The code, which is the one line of its own."""
    (code,) = [
        line
        for line in home.run("domo-server", "enroll", name).splitlines()
        if line.startswith("domo1.")
    ]
    return code


@pytest.mark.usefixtures("no_umask")
def test_from_nothing_to_two_silos_that_train_and_a_third_in_the_middle(tmp_path: Path) -> None:
    silos_port, page_port = free_port(), free_port()
    with machines(tmp_path, "home", "north", "south", "east") as (home, north, south, east):
        (home.folder / "federation.toml").write_text(
            f'[server]\nlisten = "127.0.0.1:{silos_port}"\ndashboard = "127.0.0.1:{page_port}"\n'
            f"long_poll_s = 2.0\nreport_interval_s = 0.5\n{RUN}"
        )
        url = f"http://127.0.0.1:{page_port}/api/v1"
        listen = f"127.0.0.1:{silos_port}"
        home.run("domo-server", "pki", "init", "--host", "localhost", "--listen", listen)
        coordinator = home.start("domo-server", "--config", "federation.toml")
        coordinator.wait_for("mTLS")
        coordinator.wait_for("domo-client --data DIR")
        for machine, name in ((north, "north"), (south, "south")):
            machine.run("domo-client", "enroll", enrolled(home, name))
            machine.start("domo-client", "--shard", f"{int(name == 'south')}/2")
        assert home.typed == 4
        assert (north.typed, south.typed) == (2, 2)

        def rounds() -> int:
            with urlopen(f"{url}/runs", timeout=20) as answer:
                runs = json.load(answer)
            return int(runs[0]["rounds_done"])

        wait(lambda: rounds() >= 2)
        for machine in (home, north):
            wide = {
                p: oct(m) for p, m in modes(machine).items() if m != (0o600, 0o700)[p[-1] == "/"]
            }
            assert not wide, "of files made by all commands, without a umask"
        assert any(p.endswith("coordinator.db-wal") for p in modes(home))
        keys = {p: d for m in (north, south) for p, d in m.files().items() if "identity" in p}
        keys |= {p: d for m in (north, south) for p, d in m.files().items() if "client.toml" in p}
        keys |= {p: d for p, d in home.files().items() if "/pki/" in p or p.endswith(".toml")}
        assert len(keys) == 2 * 4 + 6
        east.run("domo-client", "enroll", enrolled(home, "east"))
        east.start("domo-client")
        wait(lambda: "east" in online(url))
        joined = rounds()
        assert joined < 5000, "the run was over before the third came"
        wait(lambda: rounds() >= joined + 3)
        assert all(hashlib.sha256(Path(p).read_bytes()).hexdigest() == d for p, d in keys.items())
        with urlopen(f"{url}/runs/1-first/rounds", timeout=20) as answer:
            closed = json.load(answer)
        took_part = {tuple(sorted(p["silo_id"] for p in r["participants"])) for r in closed}
        assert took_part == {("north", "south")}
        assert [r["round_index"] for r in closed] == list(range(len(closed)))
        with urlopen(f"{url}/events?level=problem", timeout=20) as answer:
            assert [e for e in json.load(answer) if e["kind"] != "no-place"] == []


def modes(machine: Machine) -> dict[str, int]:
    """They come and go while they are looked at."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return machine.modes()


def online(url: str) -> set[str]:
    with urlopen(f"{url}/silos", timeout=20) as answer:
        return {s["silo_id"] for s in json.load(answer) if s["phase"] != "offline"}


def wait(good: Callable[[], bool], timeout_s: float = 240.0) -> None:
    end = time.monotonic() + timeout_s
    while not good():
        assert time.monotonic() < end
        time.sleep(0.1)
