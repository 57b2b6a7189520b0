from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from domo.errors import StateError
from domo.model_file import load_model
from domo.vector import FlatModel, Section
from domo_server.checkpoint import (
    ServerState,
    export_model,
    initial_state,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)

FLOATS, INTEGERS = Section.FLOAT_BUFFER, Section.INTEGER_BUFFER


def state(r: int = 3, whole: bool = True) -> ServerState:
    torch.manual_seed(r)
    return ServerState(
        round_index=r,
        x=torch.randn(7),
        m=torch.randn(7),
        x_prev=torch.randn(7) if whole else None,
        mbar=torch.randn(7) if whole else None,
        inference_scale=0.1 + 0.2 if whole else None,
        buffers={
            FLOATS: torch.randn(2) if whole else torch.empty(0),
            INTEGERS: torch.tensor([1, 0, 255], dtype=torch.uint8)
            if whole
            else torch.empty(0, dtype=torch.uint8),
        },
    )


def same(a: ServerState, b: ServerState) -> bool:
    def equal(u: torch.Tensor | None, v: torch.Tensor | None) -> bool:
        if u is None or v is None:
            return u is v
        return u.dtype == v.dtype and torch.equal(u, v)

    vectors = all(equal(getattr(a, k), getattr(b, k)) for k in ("x", "m", "x_prev", "mbar"))
    buffers = all(equal(a.buffers[s], b.buffers[s]) for s in (FLOATS, INTEGERS))
    return (
        vectors
        and buffers
        and (a.round_index, a.inference_scale)
        == (
            b.round_index,
            b.inference_scale,
        )
    )


@pytest.mark.parametrize("whole", [True, False])
def test_round_trip(whole: bool, tmp_path: Path) -> None:
    before = state(whole=whole)
    name, digest = save_checkpoint(tmp_path / "new", before)
    after = load_checkpoint(tmp_path / "new", name, digest, 3, before.inference_scale)
    assert same(before, after)
    assert [p.name for p in (tmp_path / "new").iterdir()] == [name]


def test_names_sort_by_round(tmp_path: Path) -> None:
    names = [save_checkpoint(tmp_path, state(r))[0] for r in (9, 10, 100_000)]
    assert names == sorted(names)


@pytest.mark.parametrize("vector", ["x", "m", "x_prev", "mbar", "float_buffer", "integer_buffer"])
def test_a_changed_value_in_any_vector_is_noticed(vector: str, tmp_path: Path) -> None:
    name, digest = save_checkpoint(tmp_path, state())
    tensors = load_file(tmp_path / name)
    tensors[vector][1] += 1
    save_file(tensors, tmp_path / name)
    with pytest.raises(StateError, match="is not the one that the database names"):
        load_checkpoint(tmp_path, name, digest, 3, None)


def test_another_rounds_file_is_noticed(tmp_path: Path) -> None:
    name, _ = save_checkpoint(tmp_path, state(3))
    _, other = save_checkpoint(tmp_path, state(4))
    with pytest.raises(StateError, match="is not the one that the database names"):
        load_checkpoint(tmp_path, name, other, 3, None)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    name, digest = save_checkpoint(tmp_path, state())
    path = tmp_path / name
    whole = path.read_bytes()
    for damaged in (b"", whole[:50], whole[: len(whole) - 4]):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="cannot be read"):
            load_checkpoint(tmp_path, name, digest, 3, None)
    save_file({"x": torch.zeros(7)}, path)
    with pytest.raises(StateError, match="cannot be read"):
        load_checkpoint(tmp_path, name, digest, 3, None)
    path.unlink()
    with pytest.raises(StateError, match="cannot be read"):
        load_checkpoint(tmp_path, name, digest, 3, None)


def test_pruning_keeps_two_and_drops_leftovers(tmp_path: Path) -> None:
    names = [save_checkpoint(tmp_path, state(r))[0] for r in range(1, 7)]
    (tmp_path / "x000007.safetensors.tmp").touch()
    (tmp_path / "notes.txt").touch()
    prune_checkpoints(tmp_path, names[4])  # round 6 was written, and never committed
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {names[3], names[4], "notes.txt"}
    prune_checkpoints(tmp_path, names[4])
    assert {p.name for p in tmp_path.iterdir()} == left


def test_pruning_a_single_one(tmp_path: Path) -> None:
    name, _ = save_checkpoint(tmp_path, state(1))
    prune_checkpoints(tmp_path, name)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_first_state_has_no_momentum() -> None:
    flat = FlatModel(nn.Linear(2, 1))
    first = initial_state(flat.read_all())
    assert torch.equal(first.x, flat.vector)
    assert not first.m.any()
    assert (first.round_index, first.x_prev, first.mbar, first.inference_scale) == (
        0,
        None,
        None,
        None,
    )


def test_an_exported_model_is_complete(tmp_path: Path) -> None:
    """All sections, tied names, and x_r rather than x_0."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.norm = nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.frozen = nn.Linear(2, 1)
            self.frozen.requires_grad_(False)

    module = Tied()
    flat = FlatModel(module)
    vectors = flat.read_all()
    s = initial_state(vectors)
    s.x = s.x + 1
    export_model(tmp_path / "m.safetensors", flat.layout, s, vectors[Section.FROZEN], {"r": "1"})
    named = load_file(tmp_path / "m.safetensors")
    assert set(named) == set(module.state_dict())
    assert torch.equal(named["b.weight"], module.a.weight + 1)
    assert torch.equal(named["frozen.weight"], module.frozen.weight)
    assert named["norm.num_batches_tracked"].dtype == torch.int64
    assert load_model(tmp_path / "m.safetensors")[2]["r"] == "1"
    module.load_state_dict(named)
