"""Transfers over bad links: cut, silent, damaged, forgotten. Nothing is lost and nothing is mixed.

The silo is alone in its run, takes one step with gradient 1 (or `value`) in every entry, and so
x_{r+1} = x_r - local_lr * value: an update that is lost, spliced or counted twice shows at once.
"""

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import domo_client
from domo.tasks.base import ArrayDataset
from domo_client import line, transfer
from domo_proto import channel, codec
from domo_server import app
from tests.coordinator import Coordinator, coordinator, own_run
from tests.federation import Process
from tests.proxy import Proxy, proxy

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
    monkeypatch.setattr(line, "JITTER_S", 0.1)
    for module, name in ((channel, "CLIENT_OPTIONS"), (app, "SERVER_OPTIONS")):
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
    sent: int
    received: int


def loop(
    address: str,
    folder: Path,
    between: Callable[[], object] = lambda: None,
    on_trouble: Callable[[str], object] = lambda text: None,
) -> Seen:
    """Take part in the run to its end.

    Args:
        between: Called while the silo trains.
    """
    model, troubles = nn.Linear(*SHAPE, bias=False), []
    data = ArrayDataset(torch.ones(1, SHAPE[0]), torch.zeros(1, dtype=torch.int64))

    def note(text: str) -> None:
        troubles.append(text)
        on_trouble(text)

    with domo_client.connect(
        address, "site-a", state_dir=folder / "state-a", on_trouble=note
    ) as silo:
        for rnd in silo.rounds(model, samples=1):
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                between()
                opt.step()
                opt.zero_grad()
        wire = silo.connection
        return Seen(troubles, wire.bytes_sent, wire.bytes_received)


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
    """A coordinator, and silo processes whose links can be silenced."""

    def __init__(self, folder: Path, server: Coordinator):
        self.folder, self.server, self.processes = folder, server, []

    def silo(self, address: str, *flags: str, **variables: str) -> Process:
        command = ["python", "-m", "tests.loop_silo", address, "site-a"]
        command += [str(self.folder / "state-a"), *flags]
        log = self.folder / f"silo-{len(self.processes)}.log"
        self.processes.append(Process(command, log, self.folder, **variables))
        return self.processes[-1]

    def interrupted(self, up: int | None = None, down: int | None = None) -> None:
        """A silo that is killed in mid-transfer behind a link that falls silent first.

        The coordinator is never told: its end of the connection stays as it is.
        """
        reached = threading.Event()

        def look(count) -> None:
            if (up and count.up >= up) or (down and count.down >= down):
                wire.silence()
                reached.set()

        wire = self.link = Proxy(self.server.address, rate=40e6, on_bytes=look)
        silo = self.silo(wire.address)
        assert reached.wait(60), silo.output
        silo.kill()

    def finish(self, *flags: str) -> tuple[Proxy, list[dict]]:
        """The silo comes back, over a link of its own."""
        with proxy(self.server.address) as wire:
            silo = self.silo(wire.address, *flags)
            assert silo.wait(60) == 0, silo.output
            return wire, [json.loads(line) for line in silo.output.splitlines() if line[0] == "{"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with coordinator(tmp_path, start(tmp_path, evaluate_every=0)) as server:
        it = Scene(tmp_path, server)
        try:
            yield it
        finally:
            for process in it.processes:
                process.kill()
            it.link.close()


def parts(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in folder.rglob("*.part")}


def test_an_upload_goes_on_although_the_old_one_looks_alive(scene: Scene) -> None:
    scene.interrupted(up=N // 2)
    (held,) = parts(scene.server.state_dir).values()
    assert held > N // 4
    wire, said = scene.finish()
    close_to(final(scene.server), stepped(scene.folder))
    assert wire.count.up < 1.02 * (N - held)
    assert said[-1]["state"] == "FINISHED"
    assert not [s for s in said if s["event"] == "trained"]


def test_a_silo_that_trained_again_is_never_spliced(scene: Scene) -> None:
    scene.interrupted(up=N // 2)
    ((name, held),) = parts(scene.server.state_dir).items()
    assert held > N // 4
    for path in scene.folder.glob("state-a/pending.*"):
        path.unlink()
    wire, said = scene.finish("--value", "2")
    close_to(final(scene.server), stepped(scene.folder, 2.0))
    assert wire.count.up > N
    assert [s["round"] for s in said if s["event"] == "trained"] == [0]
    assert name not in parts(scene.server.state_dir)


def test_a_download_goes_on_in_the_next_process(scene: Scene) -> None:
    scene.interrupted(down=N // 2)
    (held,) = parts(scene.folder / "state-a").values()
    assert held > N // 4
    wire, _ = scene.finish()
    close_to(final(scene.server), stepped(scene.folder))
    assert wire.count.down < 1.02 * (N - held)
    assert not parts(scene.folder / "state-a")


def test_a_wrong_part_is_thrown_away(scene: Scene) -> None:
    scene.interrupted(down=N // 2)
    (path,) = (scene.folder / "state-a").rglob("*.part")
    data = bytearray(path.read_bytes())
    data[12345] ^= 1
    path.write_bytes(data)
    wire, said = scene.finish()
    close_to(final(scene.server), stepped(scene.folder))
    assert "does not fit its digest" in str([s["text"] for s in said if s["event"] == "trouble"])
    assert wire.count.down > 1.3 * N  # the rest of it, and then the whole
    assert not parts(scene.folder / "state-a")


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_silent_link_is_noticed_by_the_silo(
    direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "STALL_S", 1.0)
    silent = threading.Event()

    def look(count) -> None:
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


@pytest.mark.parametrize(("ping_s", "kept"), [(1.0, True), (7.0, False)])
def test_a_nat_that_drops_idle_connections(
    ping_s: float, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No heartbeat comes while the silo trains: only pings cross the NAT."""
    options = dict(channel.CLIENT_OPTIONS)
    options |= {"grpc.keepalive_time_ms": int(1000 * ping_s), "grpc.http2.ping_timeout_ms": 1000}
    monkeypatch.setattr(channel, "CLIENT_OPTIONS", list(options.items()))
    monkeypatch.setattr(line, "CALL_S", 5.0)
    pause = threading.Event()
    with (
        coordinator(tmp_path, start(tmp_path), report_interval_s=60.0) as server,
        proxy(server.address, idle_s=3.0) as wire,
    ):
        seen = loop(wire.address, tmp_path, between=lambda: pause.wait(5.0))
        close_to(final(server), stepped(tmp_path))
    if kept:
        assert (wire.forgotten, wire.connections, seen.troubles) == (0, 1, [])
    else:
        assert (wire.forgotten, wire.connections) == (1, 2)


@pytest.mark.parametrize("shift_s", [3600, -3600])
def test_a_wrong_clock_changes_nothing(shift_s: int, tmp_path: Path) -> None:
    clock = Path(__file__).parents[1] / "shifted_clock"
    with coordinator(tmp_path, start(tmp_path, num_rounds=3)) as server:
        scene = Scene(tmp_path, server)
        silo = scene.silo(server.address, PYTHONPATH=str(clock), SHIFT_S=str(shift_s))
        try:
            assert silo.wait(60) == 0, silo.output
        finally:
            silo.kill()
        close_to(final(server), stepped(tmp_path, 3.0))
    said = [json.loads(text) for text in silo.output.splitlines()]
    assert not [s for s in said if s["event"] == "trouble"]
    assert said[-1]["state"] == "FINISHED"
