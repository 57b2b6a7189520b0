"""Transfers over bad links: cut, silent, damaged, forgotten. Nothing is lost and nothing is mixed.

The silo is alone in its run, takes one step with gradient 1 (or `value`) in every entry, and so
x_{r+1} = x_r - local_lr * value: an update that is lost, spliced or counted twice shows at once.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import domo_client
from domo.model.flat import digest
from domo.storage import part_file
from domo.tasks.base import ArrayDataset
from domo_client.rpc import data as transfer
from domo_client.rpc import session as line
from domo_proto import channel, codec
from domo_server import wiring
from domo_server.runs import wire_vector as outgoing
from tests.support.faults.proxy import Count, Proxy, proxy
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.federation import ROOT, Process

SHAPE = (1000, 2000)
N = 4 * SHAPE[0] * SHAPE[1]
LR = 0.5
CUTS = 10


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames and windows of a model of 8 MB as those of one of 60 MB, and pauses at its pace."""
    frame = codec.FRAME_BYTES // 8
    monkeypatch.setattr(codec, "FRAME_BYTES", frame)
    monkeypatch.setattr(transfer, "FRAME_BYTES", frame)
    monkeypatch.setattr(outgoing, "FRAME_BYTES", frame)
    monkeypatch.setattr(line, "JITTER_S", 0.1)
    for module, name in ((channel, "CLIENT_OPTIONS"), (wiring, "SERVER_OPTIONS")):
        options = dict(getattr(module, name))
        options["grpc.http2.lookahead_bytes"] = channel.WINDOW_BYTES // 8
        monkeypatch.setattr(module, name, list(options.items()))


def start(folder: Path, **settings: object) -> dict:
    torch.manual_seed(3)
    values = {"method": "FedAvg", "num_rounds": 1, "batch_size": 1, "local_lr": LR}
    return own_run(folder, nn.Linear(*SHAPE, bias=False), **{**values, **settings})


def x_0(folder: Path) -> Tensor:
    return next(iter(load_file(folder / "x0.safetensors").values())).flatten()


def final(server: Coordinator) -> Tensor:
    """x_R, once the run has finished."""
    assert server.ended()["state"] == "FINISHED"
    folder = server.state_dir / "runs" / server.run_ids[0] / "checkpoints"
    return load_file(max(folder.glob("x*.safetensors")))["x"]


class Seen(NamedTuple):
    """What a loop saw."""

    troubles: list[str]
    trained: int


def loop(
    address: str,
    folder: Path,
    between: Callable[[], object] = lambda: None,
    on_trouble: Callable[[str], object] = lambda text: None,
    value: float = 1.0,
) -> Seen:
    """Take part in the run to its end.

    Args:
        between: Called while the silo trains.
        value: Of the gradient.
    """
    model, troubles, trained = nn.Linear(*SHAPE, bias=False), [], 0
    data = ArrayDataset(torch.full((1, SHAPE[0]), value), torch.zeros(1, dtype=torch.int64))

    def note(text: str) -> None:
        troubles.append(text)
        on_trouble(text)

    with domo_client.connect(
        address, "site-a", state_dir=folder / "state-site-a", on_trouble=note
    ) as silo:
        for rnd in silo.rounds(model, samples=1):
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                between()
                opt.step()
                opt.zero_grad()
                trained += 1
    return Seen(troubles, trained)


def stepped(folder: Path, value: float = 1.0) -> Tensor:
    return x_0(folder) - LR * value


def close_to(x: Tensor, y: Tensor) -> None:
    torch.testing.assert_close(x, y, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("scaled")
def test_ten_cuts_in_each_direction_cost_less_than_a_fifth(tmp_path: Path) -> None:
    rng = random.Random(7)
    cuts = ([rng.randrange(N) for _ in range(CUTS)], [rng.randrange(N) for _ in range(CUTS)])
    with (
        coordinator(tmp_path, start(tmp_path, evaluate_every=0)) as server,
        proxy(server.address, cuts=cuts) as wire,
    ):
        seen = loop(wire.address, tmp_path)
        close_to(final(server), stepped(tmp_path))
        (done,) = server.rounds()
        assert [p["silo_id"] for p in done["participants"]] == ["site-a"]
        count = wire.count
    assert wire.left == 0
    assert wire.connections >= 2 * CUTS + 1
    assert len(seen.troubles) >= 2 * CUTS
    sys.stdout.write(f"\nup {count.up / N:.3f}, down {count.down / N:.3f} of the model")
    assert N <= count.up < 1.2 * N
    assert N <= count.down < 1.2 * N


@pytest.mark.parametrize("direction", ["up", "down"])
def test_damaged_bytes_are_sent_again_and_never_used(direction: str, tmp_path: Path) -> None:
    flips = [N // 4, N // 2, 3 * N // 4]  # further apart than what is on its way at once
    with (
        coordinator(tmp_path, start(tmp_path)) as server,
        proxy(server.address, flips=(flips, ()) if direction == "up" else ((), flips)) as wire,
    ):
        seen = loop(wire.address, tmp_path)
        close_to(final(server), stepped(tmp_path))
        assert wire.left == 0
        assert len(seen.troubles) >= 3
        noticed = [t for t in seen.troubles if "damaged" in t or "not a frame" in t]
    assert noticed, seen.troubles  # the rest broke HTTP/2 itself, and so the connection


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
        seen = loop(wire.address, scene.folder)
        close_to(final(scene.server), stepped(scene.folder))
    assert seen.trained == 0
    assert wire.count.up < 1.02 * (N - held)


def test_a_silo_that_trained_again_is_never_spliced(scene: Scene) -> None:
    scene.interrupt(up=N // 2)
    (first,) = parts(scene.server.state_dir)
    for path in scene.state.glob("pending.*"):
        path.unlink()
    with proxy(scene.server.address) as wire:
        seen = loop(wire.address, scene.folder, value=2.0)
        close_to(final(scene.server), stepped(scene.folder, 2.0))
    assert seen.trained == 1
    assert wire.count.up > N
    assert first not in parts(scene.server.state_dir)


def test_a_download_goes_on_in_the_next_process(scene: Scene) -> None:
    held = scene.interrupt(down=N // 2)
    with proxy(scene.server.address) as wire:
        loop(wire.address, scene.folder)
        close_to(final(scene.server), stepped(scene.folder))
    assert wire.count.down < 1.02 * (N - held)
    assert not parts(scene.state)


def test_a_wrong_part_is_thrown_away(tmp_path: Path) -> None:
    with (
        coordinator(tmp_path, start(tmp_path, evaluate_every=0)) as server,
        proxy(server.address) as wire,
    ):
        part = tmp_path / "state-site-a" / "vectors" / f"{digest(x_0(tmp_path))}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(bytes(N // 2))
        part_file.mark_path(part).write_bytes(part_file.MARK.pack(N // 2))
        seen = loop(wire.address, tmp_path)
        close_to(final(server), stepped(tmp_path))
    assert "does not fit its digest" in seen.troubles[0]
    assert 1.5 * N < wire.count.down < 1.52 * N  # the rest of it, and then the whole
    assert not part.exists()


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_silent_link_is_noticed_by_the_silo(
    direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "STALL_S", 1.0)
    silent = threading.Event()

    def look(count: Count) -> None:
        if getattr(count, direction) > N // 2 and not silent.is_set():
            silent.set()
            wire.silence()

    with (
        coordinator(tmp_path, start(tmp_path)) as server,
        proxy(server.address, on_bytes=look) as wire,
    ):
        seen = loop(wire.address, tmp_path, on_trouble=lambda text: wire.restore())
        close_to(final(server), stepped(tmp_path))
        count = wire.count
    assert "nothing moved" in seen.troubles[0]
    assert count.up < 1.5 * N
    assert count.down < 2.5 * N


@pytest.mark.parametrize(("ping_s", "kept"), [(1.0, True), (6.0, False)])
def test_a_nat_that_drops_idle_connections(
    ping_s: float, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No heartbeat and no answer come while the silo trains: only pings cross the NAT."""
    options = dict(channel.CLIENT_OPTIONS)
    options |= {"grpc.keepalive_time_ms": int(1000 * ping_s), "grpc.http2.ping_timeout_ms": 1000}
    monkeypatch.setattr(channel, "CLIENT_OPTIONS", list(options.items()))
    monkeypatch.setattr(line, "CALL_S", 5.0)
    pause = threading.Event()
    with (
        coordinator(tmp_path, start(tmp_path), report_interval_s=60.0, long_poll_s=20.0) as server,
        proxy(server.address, idle_s=4.0) as wire,
    ):
        seen = loop(wire.address, tmp_path, between=lambda: pause.wait(5.0))
        close_to(final(server), stepped(tmp_path))
    if kept:
        assert (wire.forgotten, wire.connections, seen.troubles) == (0, 1, [])
    else:
        assert wire.forgotten >= 1
        assert wire.connections > wire.forgotten


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
