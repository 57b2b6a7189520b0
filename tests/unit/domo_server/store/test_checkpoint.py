from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from domo.errors import StateError
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.model.model_file import load_model
from domo.model.tensor_file import TensorFile
from domo.storage import files
from domo.training.initial import save_initial
from domo_server.store.checkpoint import (
    FROZEN_FILE,
    Checkpoint,
    create_file,
    export_model,
    first_checkpoint,
    frozen_file,
    load_checkpoint,
    load_previous,
    prune_checkpoints,
    save_checkpoint,
)

VECTORS = ("x", "m", "mbar", "float_buffer", "integer_buffer")


def values(r: int, whole: bool = True) -> dict[str, torch.Tensor]:
    torch.manual_seed(r)
    named = {"x": torch.randn(7), "m": torch.randn(7), "float_buffer": torch.randn(2)}
    named["integer_buffer"] = torch.tensor([1, 0, 255], dtype=torch.uint8)
    if not whole:
        named |= {name: named[name][:0] for name in ("float_buffer", "integer_buffer")}
    return named | ({"mbar": torch.randn(7)} if whole else {})


def made(folder: Path, r: int = 3, whole: bool = True, before: str | None = None) -> Checkpoint:
    """A checkpoint that is not durable yet."""
    named = values(r, whole)
    sizes = {name: v.numel() * v.element_size() for name, v in named.items()}
    file = create_file(folder, r, sizes, before)
    for name, v in named.items():
        file.write(name, 0, v)
    return Checkpoint(r, file, {name: file.digest(name) for name in named}, 0.1 + 0.2, before)


def save(folder: Path, r: int = 3) -> tuple[str, str]:
    it = made(folder, r)
    return save_checkpoint(folder, it), it.digest


@pytest.mark.parametrize("whole", [True, False])
def test_round_trip(whole: bool, tmp_path: Path) -> None:
    before = made(tmp_path / "new", whole=whole)
    name = save_checkpoint(tmp_path / "new", before)
    after = load_checkpoint(tmp_path / "new", name, before.digest, 3, before.inference_scale)
    for key, v in values(3, whole).items():
        assert torch.equal(after[key], v)
        assert after[key].dtype == v.dtype
    assert ("mbar" in after) is whole
    assert (after.round_index, after.inference_scale) == (3, 0.1 + 0.2)
    assert torch.equal(after.reader("x")(2, 5), values(3)["x"][2:5])
    assert [p.name for p in (tmp_path / "new").iterdir()] == [name]


def test_any_tool_can_read_it(tmp_path: Path) -> None:
    name, _ = save(tmp_path)
    named = load_file(tmp_path / name)
    assert set(named) == set(VECTORS)
    assert all(torch.equal(named[key], v) for key, v in values(3).items())


def test_names_sort_by_round(tmp_path: Path) -> None:
    names = [save(tmp_path, r)[0] for r in (9, 10, 100_000)]
    assert names == sorted(names)


@pytest.mark.parametrize("vector", VECTORS)
def test_a_changed_value_in_any_vector_is_noticed(vector: str, tmp_path: Path) -> None:
    name, digest = save(tmp_path)
    tensors = load_file(tmp_path / name)
    tensors[vector][1] += 1
    save_file(tensors, tmp_path / name)
    with pytest.raises(StateError, match="is not the one that the database names"):
        load_checkpoint(tmp_path, name, digest, 3, None)


def test_another_rounds_file_is_noticed(tmp_path: Path) -> None:
    name, _ = save(tmp_path, 3)
    _, other = save(tmp_path, 4)
    with pytest.raises(StateError, match="is not the one that the database names"):
        load_checkpoint(tmp_path, name, other, 3, None)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    name, digest = save(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for damaged in (b"", whole[:50], whole[: len(whole) - 4]):
        path.write_bytes(damaged)
        with pytest.raises(StateError, match="cannot be read"):
            load_checkpoint(tmp_path, name, digest, 3, None)
    path.unlink()
    with pytest.raises(StateError, match="cannot be read"):
        load_checkpoint(tmp_path, name, digest, 3, None)


def test_the_one_before_must_be_the_one_that_was_followed(tmp_path: Path) -> None:
    x0 = tmp_path / "x0.safetensors"
    first = made(tmp_path, 3)
    save_checkpoint(tmp_path, first)
    second = made(tmp_path, 4, before=first.digests["x"])
    name = save_checkpoint(tmp_path, second)
    again = load_checkpoint(tmp_path, name, second.digest, 4, None)
    before = load_previous(tmp_path, again, x0)
    assert before is not None
    assert torch.equal(before["x"], values(3)["x"])
    assert load_previous(tmp_path, first, x0) is None, "nothing is before the first"
    tensors = load_file(tmp_path / "x000003.safetensors")
    tensors["x"][0] += 1
    save_file(tensors, tmp_path / "x000003.safetensors")
    with pytest.raises(StateError, match=r"is not the one that .* follows"):
        load_previous(tmp_path, again, x0)


def test_the_one_before_the_first_round_is_made_again(tmp_path: Path) -> None:
    """It is not durable: what is left of it after a loss of power may be nothing."""
    x0 = tmp_path / "x0.safetensors"
    save_initial(nn.Linear(3, 2), x0)
    first = first_checkpoint(tmp_path / "c", x0)
    after = Checkpoint(1, first.file, first.digests, None, first.digests["x"])
    (tmp_path / "c" / "x000000.safetensors").write_bytes(b"")
    before = load_previous(tmp_path / "c", after, x0)
    assert before is not None
    assert torch.equal(before["x"], load_model(x0)[1][Section.TRAINABLE])


def test_the_next_is_written_over_the_one_that_nobody_needs(tmp_path: Path) -> None:
    save(tmp_path, 1)
    inode = (tmp_path / "x000001.safetensors").stat().st_ino
    for r in (2, 3):
        save(tmp_path, r)
    it = made(tmp_path, 4, whole=False)  # a shorter one: nothing of the old one shows
    assert it.file.path.stat().st_ino == inode
    name = save_checkpoint(tmp_path, it)
    assert set(load_file(tmp_path / name)) == set(values(4, False))
    assert not (tmp_path / "x000001.safetensors").exists()


def test_what_is_still_read_is_not_written_over(tmp_path: Path) -> None:
    reader = TensorFile.open(tmp_path / save(tmp_path, 1)[0])
    inode = (tmp_path / "x000001.safetensors").stat().st_ino
    for r in (2, 3, 4):
        name = save(tmp_path, r)[0]
    assert torch.equal(reader.read("x"), values(1)["x"])
    assert not (tmp_path / "x000001.safetensors").exists(), "it goes with its last reader"
    assert (tmp_path / name).stat().st_ino != inode
    assert set(load_file(tmp_path / name)) == set(VECTORS)


def test_a_sync_that_failed_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed sync the system may take for written what it has thrown away."""
    it = made(tmp_path)
    real, faults = files.sync, [OSError(5, "Input/output error")]

    def sync(handle: int) -> None:
        if faults:
            path = it.file.path
            with path.open("r+b") as f:
                f.seek(-8, 2)
                f.write(bytes(8))  # the system has dropped the last page
            raise faults.pop()
        real(handle)

    monkeypatch.setattr(files, "sync", sync)
    written: list[str] = []
    write = it.file.write
    monkeypatch.setattr(it.file, "write", lambda *a: (written.append(a[0]), write(*a)))
    with pytest.raises(OSError, match="Input/output"):
        save_checkpoint(tmp_path, it)
    assert not written
    save_checkpoint(tmp_path, it)
    assert set(written) == set(VECTORS), "every byte is given to the system again"


def test_pruning_keeps_two_and_drops_leftovers(tmp_path: Path) -> None:
    for r in range(1, 7):
        (tmp_path / f"x{r:06d}.safetensors").touch()
    (tmp_path / "x000007.safetensors.tmp").touch()
    (tmp_path / "notes.txt").touch()
    prune_checkpoints(tmp_path, "x000005.safetensors")  # 6 was written, and never committed
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {"x000004.safetensors", "x000005.safetensors", "notes.txt"}
    prune_checkpoints(tmp_path, "x000005.safetensors")
    assert {p.name for p in tmp_path.iterdir()} == left


def test_pruning_a_single_one(tmp_path: Path) -> None:
    name, _ = save(tmp_path, 1)
    prune_checkpoints(tmp_path, name)
    assert [p.name for p in tmp_path.iterdir()] == [name]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2)
        self.b = nn.Linear(2, 2, bias=False)
        self.b.weight = self.a.weight
        self.frozen = nn.Linear(2, 1)
        self.frozen.requires_grad_(False)


def test_the_first_state_has_no_momentum(tmp_path: Path) -> None:
    module = Tied()
    save_initial(module, tmp_path / "x0.safetensors")
    flat = FlatModel(module)
    first = first_checkpoint(tmp_path / "checkpoints", tmp_path / "x0.safetensors")
    assert torch.equal(first["x"], flat.vector)
    assert first["m"].shape == first["x"].shape
    assert not first["m"].any()
    for section in (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER):
        assert torch.equal(first[section.value], flat.read(section))
    assert "mbar" not in first
    assert (first.round_index, first.inference_scale, first.x_prev_digest) == (0, None, None)


@pytest.mark.parametrize("vector", ["x", "m", "integer_buffer", "cut", None])
def test_the_first_file_of_an_earlier_start_is_used_if_it_is_whole(
    vector: str | None, tmp_path: Path
) -> None:
    save_initial(Tied(), tmp_path / "x0.safetensors")
    folder = tmp_path / "checkpoints"
    digest = first_checkpoint(folder, tmp_path / "x0.safetensors").digest
    path = folder / "x000000.safetensors"
    inode = path.stat().st_ino
    if vector == "cut":
        path.write_bytes(path.read_bytes()[:-4])
    elif vector is not None:
        tensors = load_file(path)
        tensors[vector][0] += 1
        save_file(tensors, path)
    again = first_checkpoint(folder, tmp_path / "x0.safetensors")
    assert again.digest == digest
    if vector is None:
        assert path.stat().st_ino == inode


def test_an_exported_model_is_complete(tmp_path: Path) -> None:
    """All sections, tied names, and x_r rather than x_0."""
    module = Tied()
    x0 = tmp_path / "x0.safetensors"
    save_initial(module, x0)
    flat = FlatModel(module)
    state = first_checkpoint(tmp_path, x0)
    frozen = frozen_file(tmp_path, x0)
    assert frozen is not None
    assert torch.equal(frozen.read("frozen"), flat.read(Section.FROZEN))
    assert (tmp_path / FROZEN_FILE).exists()
    state.file._handle = __import__("os").open(state.file.path, 2)  # it is open for reading only
    state.file.write("x", 0, state["x"] + 1)
    export_model(tmp_path / "m.safetensors", flat.layout, state, frozen, {"r": "1"})
    named = load_file(tmp_path / "m.safetensors")
    assert set(named) == set(module.state_dict())
    assert torch.equal(named["b.weight"], module.a.weight + 1)
    assert torch.equal(named["frozen.weight"], module.frozen.weight)
    assert named["norm.num_batches_tracked"].dtype == torch.int64
    assert load_model(tmp_path / "m.safetensors")[2]["r"] == "1"
    module.load_state_dict(named)


def test_nothing_frozen_needs_no_file(tmp_path: Path) -> None:
    save_initial(nn.Linear(2, 1), tmp_path / "x0.safetensors")
    assert frozen_file(tmp_path, tmp_path / "x0.safetensors") is None
    assert not (tmp_path / FROZEN_FILE).exists()
