from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from domo.errors import StateError, TaskError
from domo.model.flat import FlatModel
from domo.model.layout import Layout, Section
from domo.model.model_file import FORMAT_VERSION, check_content, load_model, pack, save_model
from domo.model.tensor_file import TensorFile
from domo.training.initial import build_initial, build_model, save_initial


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.b = nn.Linear(3, 2, bias=False)
        self.b.weight = self.a.weight
        self.frozen = nn.Parameter(torch.tensor([1.5, -2.0], dtype=torch.bfloat16), False)
        self.register_buffer("mean", torch.tensor([0.25, 0.5], dtype=torch.float64))
        self.register_buffer("seen", torch.tensor(3))
        self.register_buffer("mask", torch.tensor([True, False, True]))


class ATask:
    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 2))


def test_round_trip(tmp_path: Path) -> None:
    flat = FlatModel(Everything())
    vectors = flat.read_all()
    path = tmp_path / "folder" / "x.safetensors"
    save_model(path, flat.layout, vectors, {"run": "r-1"})
    layout, again, metadata = load_model(path)
    assert layout == flat.layout
    assert again.keys() == vectors.keys()
    assert all(torch.equal(again[s], vectors[s]) for s in Section)
    assert metadata["run"] == "r-1"
    assert metadata["format_version"] == FORMAT_VERSION
    assert [p.name for p in path.parent.iterdir()] == ["x.safetensors"]


def test_any_reader_of_safetensors_finds_the_state_dict(tmp_path: Path) -> None:
    flat = FlatModel(Everything())
    save_model(tmp_path / "x", flat.layout, flat.read_all())
    named, own = load_file(tmp_path / "x"), flat.module.state_dict()
    assert named.keys() == own.keys()
    assert all(torch.equal(named[n], own[n]) and named[n].dtype == own[n].dtype for n in own)
    other = Everything()
    other.load_state_dict(named)
    assert other.b.weight is other.a.weight


def test_the_content_is_checked_with_the_digest_in_the_file(tmp_path: Path) -> None:
    flat = FlatModel(Everything())
    path = tmp_path / "x"
    save_model(path, flat.layout, flat.read_all())
    assert check_content(TensorFile.open(path))
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(StateError, match="is damaged: its tensors have the digest"):
        check_content(TensorFile.open(path))
    save_file(flat.module.a.state_dict(), path)
    assert not check_content(TensorFile.open(path))


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    flat = FlatModel(Everything())
    save_model(tmp_path / "x", flat.layout, flat.read_all())
    with torch.no_grad():
        flat.vector.fill_(4.0)
    save_model(tmp_path / "x", flat.layout, flat.read_all())
    assert (load_model(tmp_path / "x")[1][Section.TRAINABLE] == 4.0).all()


def test_pack_is_the_inverse_of_split() -> None:
    flat = FlatModel(Everything())
    vectors = flat.read_all()
    named = {}
    for section, vector in vectors.items():
        named |= flat.layout.split(section, vector)
    again = pack(flat.layout, named)
    assert all(torch.equal(again[s], vectors[s]) for s in Section)


def test_a_plain_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(StateError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path} holds tensors but not which of them are trained. Make an initial model from it "
        "with: domo init TASK --weights weights.safetensors --out x0.safetensors"
    )


@pytest.mark.parametrize("content", [None, b"", b"not a model", b"\x02\0\0\0\0\0\0\0[]"])
def test_what_is_not_a_model_file(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StateError, match=r"cannot read the model file .*x\.safetensors"):
        load_model(path)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    flat = FlatModel(Everything())
    save_model(tmp_path / "x", flat.layout, flat.read_all())
    whole = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(whole[:-3])
    with pytest.raises(StateError, match="cannot read the model file"):
        load_model(tmp_path / "x")


def test_the_initial_model_is_a_function_of_the_seed() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = build_initial(ATask(), 1)[1]
    assert torch.equal(torch.rand(3), expected)  # the caller's generator is left alone
    again = build_initial(ATask(), 1)[1]
    other = build_initial(ATask(), 2)[1]
    assert torch.equal(first[Section.TRAINABLE], again[Section.TRAINABLE])
    assert not torch.equal(first[Section.TRAINABLE], other[Section.TRAINABLE])
    module = build_model(ATask(), 1)
    assert torch.equal(FlatModel(module).vector, first[Section.TRAINABLE])


def test_given_weights_are_used_or_refused() -> None:
    weights = {k: torch.full_like(v, 0.5) for k, v in ATask().build_model().state_dict().items()}
    layout, vectors = build_initial(ATask(), 1, weights)
    assert layout.num_params == vectors[Section.TRAINABLE].numel() == 23
    assert (vectors[Section.TRAINABLE] == 0.5).all()
    del weights["2.bias"]
    with pytest.raises(TaskError, match=r"do not fit the task's model: missing: 2\.bias\. All"):
        build_initial(ATask(), 1, weights)


def test_a_module_alone_makes_an_initial_model(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    weight = module[0].weight.detach().clone()
    save_initial(module, tmp_path / "x0.safetensors")
    layout, vectors, _ = load_model(tmp_path / "x0.safetensors")
    assert torch.equal(vectors[Section.TRAINABLE][:6].view(2, 3), weight)
    assert layout.digest == Layout.of(module).digest
