"""zstd at some silos: the same model, fewer bytes on the wire, whatever happens to the link."""

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import domo_client
from domo.errors import ConfigError
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import simulate
from domo.tasks import load_task
from domo.tasks.base import ArrayDataset
from domo.trial import shard_silos
from domo_client.rpc import session as line
from domo_client.telemetry.counts import Counts
from domo_proto import codec
from domo_proto.codec import VectorId, decode_frame, encode_frame
from domo_server.rpc import control as servicer
from tests.support.faults.proxy import Count, proxy
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import Agent, options
from tests.support.played.raw import GOOD, Raw, fault
from tests.unit.domo_proto.test_codec import pack, sealed

NAMES = ["silo-0", "silo-1", "silo-2"]
ZSTD = {"silo-0", "silo-2"}


@pytest.mark.parametrize("update_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("method", ["DOMO", "FedAvgSLM"])
def test_silos_with_zstd_beside_others_end_with_the_bytes_of_the_simulation(
    method: str, update_dtype: str, tmp_path: Path
) -> None:
    run = {"task": "digits", "num_rounds": 3, "num_silos": 3, "method": method}
    run |= {"update_dtype": update_dtype}
    counts: dict[str, Counts] = {}
    with coordinator(tmp_path, run) as server, contextlib.ExitStack() as silos:
        for i, name in enumerate(NAMES):
            compression = "zstd" if name in ZSTD else "none"
            opts = options(shard=(i, 3))
            agent = Agent(server.address, name, tmp_path, opts, compression=compression)
            silos.callback(agent.close)
            counts[name] = agent.silo.connection.counts
        ended = server.ended()
    assert ended["state"] == "FINISHED"
    config = validate(RunConfig, run, "test")
    task = load_task("digits")
    simulated = simulate(
        config, task, shard_silos(task, tmp_path, NAMES, config.similarity, config.seed)
    )
    assert ended["checkpoint_digest"] == simulated.checkpoint_digest
    plain = counts["silo-1"]
    for name in sorted(ZSTD):
        sent = counts[name].bytes_sent / plain.bytes_sent
        received = counts[name].bytes_received / plain.bytes_received
        sys.stdout.write(f"\n{method} {update_dtype} {name}: up {sent:.3f}, down {received:.3f}")
        assert 0.3 < sent < 0.95
        assert 0.3 < received < 0.95


# one silo with a loop of its own, whose update is 0.5 in one row of ten and else 0

SHAPE = (1000, 1000)
N = 4 * SHAPE[0] * SHAPE[1]
ROUNDS = 2


def start(folder: Path) -> dict[str, Any]:
    folder.mkdir()
    torch.manual_seed(3)
    values = {"method": "FedAvg", "num_rounds": ROUNDS, "batch_size": 1, "local_lr": 0.5}
    model = nn.Linear(*SHAPE, bias=False)
    with torch.no_grad():
        model.weight.mul_(64).round_().div_(64)
    return own_run(folder, model, **values, evaluate_every=0)


def loop(address: str, folder: Path, compression: str) -> tuple[int, int]:
    """Take part to the end; bytes sent and received, as the silo says."""
    model = nn.Linear(*SHAPE, bias=False)
    inputs = torch.zeros(1, SHAPE[0])
    inputs[:, ::10] = 0.5
    data = ArrayDataset(inputs, torch.zeros(1, dtype=torch.int64))
    with domo_client.connect(
        address, "site-a", state_dir=folder / "site-a", compression=compression
    ) as silo:
        for rnd in silo.rounds(model, samples=1):
            opt = rnd.optimizer()
            for batch, _ in rnd.batches(data):
                model(batch).sum().backward()
                opt.step()
                opt.zero_grad()
        counts = silo.connection.counts
        return counts.bytes_sent, counts.bytes_received


def final(server: Coordinator) -> torch.Tensor:
    assert server.ended()["state"] == "FINISHED"
    folder = server.state_dir / "runs" / server.run_ids[0] / "checkpoints"
    return load_file(max(folder.glob("x*.safetensors")))["x"]


def carried(folder: Path, compression: str, **faults: Any) -> tuple[torch.Tensor, Count, Any, int]:
    """x_R, bytes on the wire, bytes as the silo counts them, connections."""
    with (
        coordinator(folder, start(folder)) as server,
        proxy(server.address, **faults) as wire,
    ):
        said = loop(wire.address, folder, compression)
        assert wire.left == 0
        return final(server), wire.count, said, wire.connections


def test_compressible_vectors_cost_a_part_and_are_counted_as_sent(tmp_path: Path) -> None:
    plain, before, said_before, _ = carried(tmp_path / "plain", "none")
    packed, after, said, _ = carried(tmp_path / "packed", "zstd")
    assert torch.equal(plain, packed)
    assert said_before == (ROUNDS * N, ROUNDS * N)
    for direction in ("up", "down"):
        ratio = getattr(after, direction) / getattr(before, direction)
        sys.stdout.write(f"\n{direction}: {ratio:.4f} of {getattr(before, direction)} bytes")
        assert ratio < 0.5
    for counted, on_wire in zip(said, after, strict=True):
        assert 0 <= on_wire - counted < 0.05 * on_wire + 20_000, "payloads, without heads"


def test_cuts_and_damage_cost_a_few_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "JITTER_S", 0.1)
    plain, _, _, _ = carried(tmp_path / "plain", "none")
    whole, before, _, _ = carried(tmp_path / "whole", "zstd")
    cuts = ([before.up // 3, before.up // 2], [before.down // 3, before.down // 2])
    flips = ([before.up * 2 // 3], [before.down * 2 // 3])
    packed, after, _, connections = carried(tmp_path / "cut", "zstd", cuts=cuts, flips=flips)
    assert torch.equal(plain, whole)
    assert torch.equal(plain, packed)
    assert connections >= 4
    sys.stdout.write(f"\n{before} undisturbed, {after} with cuts")
    assert after.down < 2 * before.down


@pytest.mark.parametrize("old", ["coordinator", "silo"])
def test_an_older_end_gets_no_such_frames(
    old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(message: bytes) -> codec.Frame:
        assert codec.FIELDS.unpack_from(message)[4] == 0, "a compressed frame"
        return decode_frame(message)

    for module in ("domo_client.rpc.vectors", "domo_server.rpc.data"):
        monkeypatch.setattr(f"{module}.decode_frame", refuse)
    if old == "coordinator":
        monkeypatch.setattr(servicer, "CAPABILITY", "resume-upload")
    folder = tmp_path / "run"
    _, _, said, _ = carried(folder, "zstd" if old == "coordinator" else "none")
    assert said[0] == ROUNDS * N
    assert ("the coordinator knows no zstd" in caplog.text) == (old == "coordinator")


# a silo that is not domo's own


@pytest.fixture
def raw(tmp_path: Path) -> Any:
    with coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1), num_rounds=1)) as server:
        it = Raw(server)
        it.join()
        it.enroll()
        yield it
        it.close()


def test_frames_are_compressed_only_for_who_asks(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    with coordinator(tmp_path / "run", run) as server:
        silo = Raw(server)
        assert "zstd" in silo.join().capabilities
        silo.enroll()
        frames = {kind: silo.fetch(compression=kind)[1:] for kind in ("", "zstd", "brotli", "zstd")}
        silo.close()
    flags = {k: {codec.FIELDS.unpack_from(f)[4] for f in fs} for k, fs in frames.items()}
    assert flags == {"": {0}, "brotli": {0}, "zstd": {codec.ZSTD}}
    payloads = [b"".join(bytes(decode_frame(f).payload) for f in fs) for fs in frames.values()]
    assert len(payloads[0]) == N
    assert payloads[0] == payloads[1] == payloads[2]


def test_a_bomb_in_an_upload_is_refused_and_a_good_update_still_counts(raw: Raw) -> None:
    bomb = sealed(pack(bytes(1 << 28)), codec.ZSTD)
    error = fault(raw.submit, frames=[bomb])
    assert "268435456" in str(error)
    assert not error.retryable
    good = encode_frame(VectorId.UPDATE, 0, memoryview(GOOD), zstd=True)
    assert raw.submit(frames=[good]).state


def test_other_names_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be none or zstd, got 'gzip'"):
        domo_client.connect("127.0.0.1:1", "a", state_dir=tmp_path, compression="gzip")
