"""Transfers over bad links: cut, silent, damaged, forgotten. Nothing is lost or mixed."""

import random
import sys
import threading
from pathlib import Path

import pytest

from domo.model.flat import digest
from domo.storage import part_file
from domo_client.rpc import data as transfer
from domo_client.rpc import session as line
from domo_client.rpc import vectors
from domo_proto import channel, codec
from domo_server import wiring
from domo_server.runs import wire_vector as outgoing
from tests.support.faults.proxy import Count, proxy
from tests.support.live.coordinator import coordinator
from tests.support.live.wide_run import N, close_to, final, loop, start, stepped, x_0

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
    flips = [N // 4, N // 2, 3 * N // 4]
    with (
        coordinator(tmp_path, start(tmp_path)) as server,
        proxy(server.address, flips=(flips, ()) if direction == "up" else ((), flips)) as wire,
    ):
        seen = loop(wire.address, tmp_path)
        close_to(final(server), stepped(tmp_path))
        assert wire.left == 0
        noticed = [t for t in seen.troubles if "damaged" in t or "not a frame" in t]
    assert noticed, seen.troubles  # the rest broke HTTP/2 itself, and so the connection


def parts(folder: Path) -> dict[str, int]:
    return {p.name: part_file.held_bytes(p) for p in folder.rglob("*.part")}


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
    for module in (transfer, vectors):
        monkeypatch.setattr(module, "STALL_S", 1.0)
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


@pytest.mark.alone
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
