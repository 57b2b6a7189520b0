"""What goes wrong in a day of a federation: how it begins, what names it, how it ends."""

import contextlib
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tests.support.faults.proxy import DOWN, UP, Proxy
from tests.support.live.federation import Process
from tests.support.live.killable import COORDINATOR, Federation
from tests.support.live.silos import copy_state
from tests.support.tasks.day import HANG, LOADER, MODEL_MEMORY, STEP_MEMORY

HTTP = (
    "HTTP/1.1 {}\r\nContent-Type: text/html\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry"
)
AIM_S, MEET_S = 10.0, 90.0
SLOW_BYTES_PER_S = 30e3


@dataclass
class Scene:
    """The federation that a fault strikes.

    Attributes:
        links: Between each silo and the coordinator.
        disks: Where the state of each process lies.
        chance: A number in [0, 1) of this fault's own.
        since: When it began, `time.monotonic()`.
    """

    fed: Federation
    links: dict[str, Proxy]
    disks: dict[str, Path]
    chance: float = 0.0
    since: float = 0.0

    def restart(self, name: str) -> None:
        """Start it again, and see it connect: from then on the page can know of it."""
        self.fed.start(name)
        self.fed.processes[name].wait_for("connected to")
        self.since = time.monotonic()

    def aim(self, name: str, phases: Sequence[str]) -> None:
        """Wait, but not long, until a process is in one of these short phases; "": do not wait."""
        phase, end = phases[int(self.chance * len(phases))], time.monotonic() + AIM_S
        while phase and self.fed.writing(name) != phase and time.monotonic() < end:
            time.sleep(0.001)
        self.since = time.monotonic()

    def pid(self, name: str) -> int:
        return self.fed.processes[name].pid

    def die(self, name: str, sig: int) -> None:
        """Send a signal, to this process alone, and see it end."""
        process = self.fed.processes[name]
        assert process.poll() is None, f"{name} ended by itself:\n{process.output}"
        os.kill(process.pid, sig)
        process.wait(30)


Strike = Callable[[Scene, str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: What happens.
        strike: Begins it, and mends it as its block ends.
        page: What names it on the page: a pattern, `{silo}` for the silo's name.
        silo: What names it in the silo's terminal; empty: that says nothing, or is gone.
        on: Whom it strikes: `silo` or `coordinator`.
        once_s: Said of a silo once in so long only, however often it happens.
    """

    name: str
    strike: Strike
    page: str
    silo: str = ""
    on: str = "silo"
    once_s: float = 0.0


FAULTS: list[Fault] = []


def fault(
    name: str, page: str, silo: str = "", on: str = "silo", once_s: float = 0.0
) -> Callable[[Strike], Strike]:
    """Add a row to `FAULTS`; the function is a generator, as of a context manager."""

    def add(strike: Callable[[Scene, str], Iterator[None]]) -> Strike:
        managed = contextlib.contextmanager(strike)
        FAULTS.append(Fault(name, managed, page, silo, on, once_s))
        return managed

    return add  # type: ignore[return-value]


CONFLICT = "event silo-conflict {silo}"
DAMAGED = "event network {silo}|event (refused|silo-failed) {silo}|{silo}.*damaged"
BROKE, SILENT = r"^(event silo-lost )?{silo}.*its connection broke", r"{silo}.*no heartbeat"


@fault("a silo is killed", BROKE)
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.aim(silo, ("", "fetch", "saving", "upload"))
    scene.die(silo, signal.SIGKILL)
    yield
    scene.fed.start(silo)


@fault("a silo is stopped with SIGTERM", "event left {silo}", "{silo}: stopped")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.die(silo, signal.SIGTERM)
    yield
    scene.fed.start(silo)


@fault("a silo hangs (SIGSTOP, 5 s)", SILENT)
def _(scene: Scene, silo: str) -> Iterator[None]:
    begun = time.monotonic()
    os.kill(scene.pid(silo), signal.SIGSTOP)
    yield
    time.sleep(max(0.0, begun + 5 - time.monotonic()))
    os.kill(scene.pid(silo), signal.SIGCONT)


@fault("a loader process is killed", "event silo-failed {silo}", "failed here")
def _(scene: Scene, silo: str) -> Iterator[None]:
    for pid in loaders(scene.pid(silo)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield


@fault(
    "a loader process cannot read", "event silo-failed {silo}.*Input/output error", "failed here"
)
def _(scene: Scene, silo: str) -> Iterator[None]:
    with flag(scene, silo, LOADER):
        yield


@fault("memory fails in a step", "event silo-failed {silo}.*[Mm]emory", "failed here")
def _(scene: Scene, silo: str) -> Iterator[None]:
    with flag(scene, silo, STEP_MEMORY):
        yield


@fault("memory fails as the model is built", "{silo}.*[Mm]emory", "[Mm]emory")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.die(silo, signal.SIGTERM)
    with flag(scene, silo, MODEL_MEMORY, restart=True):
        yield


@fault("a step of the user's hangs", "stalled.*{silo}")
def _(scene: Scene, silo: str) -> Iterator[None]:
    with flag(scene, silo, HANG):
        yield


@fault("the data come late", "{silo}.*(samples.txt|data|not yet)", "not yet|samples.txt")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.die(silo, signal.SIGTERM)
    data = scene.fed.data[silo]
    away = data.with_name(f"{data.name}-away")
    shutil.copytree(data, away)
    for path in data.iterdir():
        path.unlink()
    scene.restart(silo)
    yield
    for path in away.iterdir():
        path.rename(data / path.name)
    away.rmdir()


@fault("the link is cut for 5 s", BROKE, "network: ")
def _(scene: Scene, silo: str) -> Iterator[None]:
    begun = time.monotonic()
    scene.links[silo].answer(b"")
    yield
    time.sleep(max(0.0, begun + 5 - time.monotonic()))
    scene.links[silo].answer(None)


@fault("the link is silent", SILENT)
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.links[silo].silence()
    yield
    scene.links[silo].restore()


@fault("the link is slow", "run detail: waiting for 1 more of 4 silos: {silo}")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.links[silo].slow(SLOW_BYTES_PER_S)
    yield
    scene.links[silo].slow(None)


@fault("bytes are damaged on the way up", DAMAGED)
def _(scene: Scene, silo: str) -> Iterator[None]:
    link = scene.links[silo]
    link.damage(UP, 100_000 + int(300_000 * scene.chance))
    yield
    while link.left:
        time.sleep(0.05)


@fault("bytes are damaged on the way down", DAMAGED)
def _(scene: Scene, silo: str) -> Iterator[None]:
    link = scene.links[silo]
    link.damage(DOWN, 100_000 + int(300_000 * scene.chance))
    yield
    while link.left:
        time.sleep(0.05)


def _box(status: str) -> None:
    @fault(f"a middle box answers {status} for 6 s", BROKE, "network: ")
    def _(scene: Scene, silo: str) -> Iterator[None]:
        begun = time.monotonic()
        scene.links[silo].answer(HTTP.format(status).encode())
        yield
        time.sleep(max(0.0, begun + 6 - time.monotonic()))
        scene.links[silo].answer(None)


for _status in ("403 Forbidden", "404 Not Found", "502 Bad Gateway"):
    _box(_status)


@fault("a silo's disk is full", "{silo}.*No space left", "No space left")
def _(scene: Scene, silo: str) -> Iterator[None]:
    with filled(scene.disks[silo]):
        yield


@fault("a silo has no file descriptors left", "{silo}.*Too many open files", "Too many open files")
def _(scene: Scene, silo: str) -> Iterator[None]:
    with no_more_files(scene.pid(silo)):
        yield


@fault("another agent with the same name", CONFLICT, once_s=600)
def _(scene: Scene, silo: str) -> Iterator[None]:
    folder = scene.fed.folder / f"other-{time.monotonic_ns()}"
    other = scene.fed.process(silo, state_dir=folder)
    said_and_ended(scene, other, "is taken by another silo")
    yield
    shutil.rmtree(folder)


@fault("a copy of the state folder is started", CONFLICT, once_s=600)
def _(scene: Scene, silo: str) -> Iterator[None]:
    folder = scene.fed.folder / f"copy-{time.monotonic_ns()}"
    copy_state(scene.fed.state_of(silo), folder)
    other = scene.fed.process(silo, state_dir=folder)
    said_and_ended(scene, other, "another process with the identity")
    yield
    shutil.rmtree(folder)


@fault("a restart with a wrong address", "event left {silo}")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.die(silo, signal.SIGTERM)
    wrong = scene.fed.process(silo, server="127.0.0.1:9", connect_timeout=2)
    said_and_ended(scene, wrong, "127.0.0.1:9")
    yield
    scene.fed.start(silo)


@fault("a restart under another name", "{silo}-new")
def _(scene: Scene, silo: str) -> Iterator[None]:
    scene.die(silo, signal.SIGTERM)
    other = scene.fed.process(silo, name=f"{silo}-new")
    came(scene, other)
    yield
    if other.poll() is None:
        other.stop(timeout_s=30)
    scene.fed.start(silo)


@fault("the coordinator is killed", "event resumed coordinator", on=COORDINATOR)
def _(scene: Scene, name: str) -> Iterator[None]:
    scene.aim(name, ("", "commit", "receiving"))
    scene.die(name, signal.SIGKILL)
    scene.fed.start(name)
    scene.fed.processes[name].wait_for("silos at")
    scene.since = time.monotonic()
    yield


@fault("the coordinator's disk is full", "No space left|disk is full", on=COORDINATOR)
def _(scene: Scene, name: str) -> Iterator[None]:
    with filled(scene.disks[name]):
        yield


@fault("the coordinator has no file descriptors left", "no file descriptors left", on=COORDINATOR)
def _(scene: Scene, name: str) -> Iterator[None]:
    with no_more_files(scene.pid(name)):
        yield


@contextlib.contextmanager
def flag(scene: Scene, silo: str, name: str, restart: bool = False) -> Iterator[None]:
    """A file in the silo's data folder, until its task has met it."""
    path = scene.fed.data[silo] / name
    met, end = path.with_suffix(".met"), time.monotonic() + MEET_S
    path.touch()
    if restart:
        scene.fed.start(silo)
    while not met.exists():
        assert time.monotonic() < end, scene.fed.processes[silo].output
        time.sleep(0.02)
    scene.since = time.monotonic()
    yield
    path.unlink()
    met.unlink()


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No byte is left on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
    yield
    ballast.unlink()


@contextlib.contextmanager
def no_more_files(pid: int) -> Iterator[None]:
    """A process can open nothing more."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def came(scene: Scene, other: Process) -> None:
    """Another process has connected, or was told why not: from then on the page can know of it."""
    other.wait_for("connected to|error: ")
    scene.since = time.monotonic()


def said_and_ended(scene: Scene, process: Process, text: str) -> None:
    """A process that cannot start says why, and ends by itself."""
    code = process.wait(60)
    scene.since = time.monotonic()
    assert code, process.output
    assert text in process.output, process.output
    assert "Traceback" not in process.output, process.output


def parents() -> dict[int, int]:
    """Who started whom: parents by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                found[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
    return found


def below(pid: int) -> list[int]:
    """All that a process has started, directly or not."""
    of, found = parents(), [pid]
    for one in found:
        found += [child for child, parent in of.items() if parent == one]
    return found[1:]


def loaders(pid: int) -> list[int]:
    """The loader processes of an agent: those that its process of forks has started."""
    of, all_ = parents(), below(pid)
    return [one for one in all_ if of[one] != pid]
