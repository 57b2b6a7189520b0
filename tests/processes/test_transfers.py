"""Transfers that the next process goes on with, and processes with a wrong clock."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from domo.storage import part_file
from tests.support.faults.proxy import Count, Proxy, proxy
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.federation import ROOT, Process
from tests.support.live.wide_run import SHAPE, N, close_to, final, loop, start, stepped


class Scene:
    """A coordinator, and a silo process whose link falls silent before it is killed.

    The coordinator is never told: its end of the connection stays as it is.
    """

    def __init__(self, folder: Path, server: Coordinator):
        self.folder, self.server = folder, server
        self.silos: list[Process] = []
        self.links: list[Proxy] = []

    def silo(self, name: str, address: str, **variables: str) -> Process:
        command = ["python", "-m", "tests.support.live.loop_silo", address, name]
        command += [str(self.folder / f"state-{name}"), "--shape", *map(str, SHAPE)]
        self.silos.append(Process(command, self.folder / f"{name}.log", self.folder, **variables))
        return self.silos[-1]

    def interrupt(self, up: int | None = None, down: int | None = None) -> int:
        """Kill it when so many bytes have passed; returns those that the receiver has."""
        reached = threading.Event()

        def look(count: Count) -> None:
            if (up and count.up >= up) or (down and count.down >= down):
                link.silence()
                reached.set()

        link = Proxy(self.server.address, rate=40e6, on_bytes=look)
        self.links.append(link)
        silo = self.silo("site-a", link.address)
        assert reached.wait(100), silo.output
        silo.kill()
        ((_, held),) = parts(self.server.state_dir if up else self.state).items()
        assert held > N // 4
        return held

    @property
    def before(self) -> str:
        """The address that the silo has dialled last."""
        return self.links[-1].address

    @property
    def state(self) -> Path:
        return self.folder / "state-site-a"

    def close(self) -> None:
        for silo in self.silos:
            silo.kill()
        for link in self.links:
            link.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with coordinator(tmp_path, start(tmp_path, evaluate_every=0)) as server:
        it = Scene(tmp_path, server)
        try:
            yield it
        finally:
            it.close()


def parts(folder: Path) -> dict[str, int]:
    return {p.name: part_file.held_bytes(p) for p in folder.rglob("*.part")}


def test_an_upload_goes_on_although_the_old_one_looks_alive(scene: Scene) -> None:
    held = scene.interrupt(up=N // 2)
    with proxy(scene.server.address) as wire:
        seen = loop(wire.address, scene.folder, moved_from=scene.before)
        close_to(final(scene.server), stepped(scene.folder))
    assert seen.trained == 0
    assert wire.count.up < 1.02 * (N - held)


def test_a_silo_that_trained_again_is_never_spliced(scene: Scene) -> None:
    scene.interrupt(up=N // 2)
    (first,) = parts(scene.server.state_dir)
    for path in scene.state.glob("pending.*"):
        path.unlink()
    with proxy(scene.server.address) as wire:
        seen = loop(wire.address, scene.folder, value=2.0, moved_from=scene.before)
        close_to(final(scene.server), stepped(scene.folder, 2.0))
    assert seen.trained == 1
    assert wire.count.up > N
    assert first not in parts(scene.server.state_dir)


def test_a_download_goes_on_in_the_next_process(scene: Scene) -> None:
    held = scene.interrupt(down=N // 2)
    with proxy(scene.server.address) as wire:
        loop(wire.address, scene.folder, moved_from=scene.before)
        close_to(final(scene.server), stepped(scene.folder))
    assert wire.count.down < 1.02 * (N - held)
    assert not parts(scene.state)


def test_a_wrong_clock_changes_nothing(tmp_path: Path) -> None:
    """Two silos, one an hour ahead and one behind."""
    clock = str(ROOT / "tests/support/faults/shifted_clock")
    with coordinator(tmp_path, start(tmp_path, num_rounds=3, num_silos=2)) as server:
        scene = Scene(tmp_path, server)
        try:
            for name, shift in (("ahead", "3600"), ("behind", "-3600")):
                scene.silo(name, server.address, PYTHONPATH=clock, SHIFT_S=shift)
            for silo in scene.silos:
                assert silo.wait(100) == 0, silo.output
        finally:
            scene.close()
        close_to(final(server), stepped(tmp_path, 3.0))
    for silo, sign in zip(scene.silos, (1, -1), strict=True):
        said = [json.loads(text) for text in silo.output.splitlines()]
        assert not [s for s in said if s["event"] == "trouble"]
        assert said[-1]["state"] == "FINISHED"
        assert 3500 < sign * (said[-1]["clock"] - time.time()) < 3700
