"""Weights as other programs write them, from the file to an export that a plain module loads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import domo
from domo.commands.init import read_weights
from domo.errors import ConfigError, LayoutMismatchError, TaskError
from domo.model.flat import FlatModel
from domo.model.given import load_given
from domo.model.layout import Layout
from domo.model.model_file import load_weights, save_model
from domo.training.initial import build_initial, whole

WORDS = torch.arange(5)


class Tied(nn.Module):
    """As language models are: the output has the weight of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.arange(3), persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(self.norm(self.embedding(words)))
        return out


class Within(nn.Module):
    """A part of it is wrapped."""

    def __init__(self, wrap: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.net = wrap(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
        self.out = nn.Linear(3, 1)


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="eager")  # type: ignore[return-value]


def weights() -> dict[str, Tensor]:
    return dict(Tied().state_dict())


def named(prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in weights().items()}


@pytest.mark.parametrize(
    "made",
    [
        weights,
        lambda: {k: v for k, v in weights().items() if k != "head.weight"},
        lambda: {k: v for k, v in weights().items() if k != "embedding.weight"},
        lambda: {k: v for k, v in weights().items() if not k.endswith("num_batches_tracked")},
        lambda: named("_orig_mod."),
        lambda: named("module._orig_mod."),
        lambda: named("module.model."),
        lambda: weights() | {"positions": torch.arange(3)},
        lambda: {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in weights().items()},
    ],
    ids=["all", "tied-1", "tied-2", "old", "compiled", "ddp", "lightning", "position", "strided"],
)
def test_what_others_write_loads_and_what_is_exported_is_the_plain_modules(
    made: Callable[[], dict[str, Tensor]],
    tmp_path: Path,
) -> None:
    given = made()
    module = Tied()
    assert load_given(nn.DataParallel(compiled(module)), given) == ""
    embedding = next(v for k, v in given.items() if k.endswith(("embedding.weight", "head.weight")))
    assert torch.equal(module.embedding.weight, embedding)
    assert module.head.weight is module.embedding.weight
    before = module.eval()(WORDS)
    layout, vectors = whole(module)
    assert layout.digest == Layout.of(Tied()).digest
    assert layout.num_params == 15 + 6, "the tied weight counts once"
    save_model(tmp_path / "x.safetensors", layout, vectors)
    fresh = Tied()
    fresh.load_state_dict(load_weights(tmp_path / "x.safetensors"), strict=True)
    assert torch.equal(fresh.eval()(WORDS), before)


class Words:
    """A task on them; `wrap` is done to the model."""

    def __init__(self, wrap: Callable[[nn.Module], nn.Module] = lambda module: module) -> None:
        self.wrap = wrap

    def build_model(self) -> nn.Module:
        return self.wrap(Tied())

    def train_data(self, root: Path, shard: object) -> domo.ArrayDataset:
        raise AssertionError("the data are given")

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    def evaluate(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> dict[str, domo.Sum]:
        right = model(batch[0]).argmax(1) == batch[1]
        return {"accuracy": domo.Sum(float(right.sum()), len(right))}


def test_from_a_file_through_a_run_to_a_plain_module(tmp_path: Path) -> None:
    given = {f"_orig_mod.{k}": v for k, v in weights().items() if k != "head.weight"}
    data = {f"site-{i}": domo.ArrayDataset(WORDS.repeat(4), WORDS.repeat(4)) for i in range(2)}
    last = []
    for name, task in (("plain", Words()), ("compiled", Words(compiled))):
        x0 = tmp_path / f"{name}-x0.safetensors"
        save_model(x0, *build_initial(task, 0, given))
        result = domo.simulate(
            task, data, num_rounds=2, batch_size=10, local_lr=0.1, initial_model=str(x0)
        )
        result.save(tmp_path / f"{name}.safetensors")
        module = Tied()
        module.load_state_dict(load_weights(tmp_path / f"{name}.safetensors"), strict=True)
        last.append(module.eval()(WORDS))
    assert torch.equal(*last)
    assert not torch.equal(module.embedding.weight, given["_orig_mod.embedding.weight"])


def test_lower_precision_goes_into_float32_and_numbers_of_another_kind_do_not() -> None:
    module, half = Tied(), {k: v.half() if v.dim() else v for k, v in weights().items()}
    assert not load_given(module, half)
    assert torch.equal(module.norm.weight, half["norm.weight"].float())
    differs = load_given(Tied(), {k: v.to(torch.int8) for k, v in weights().items()})
    assert differs.startswith("embedding.weight is int8[5, 3], the model's float32[5, 3], ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"norm.bias": None}, "missing: norm.bias"),
        ({"loss.weight": torch.ones(2)}, "not the model's: loss.weight"),
        ({"norm.weight": torch.ones(4)}, "norm.weight is float32[4], the model's float32[3]"),
        (
            {"norm.weight": torch.ones(3).to_sparse()},
            "norm.weight is float32[3] sparse_coo, the model's float32[3]",
        ),
        ({"_orig_mod.norm.bias": torch.ones(3)}, "with and without a wrapper's name: norm.bias"),
        (
            {"head.weight": torch.ones(5, 3)},
            "embedding.weight and head.weight are one in the model, and differ in the file",
        ),
    ],
)
def test_what_differs_is_named(change: dict[str, Tensor | None], text: str) -> None:
    given = {k: v for k, v in (weights() | change).items() if v is not None}
    assert load_given(Tied(), given) == text


def test_what_the_module_s_own_code_raises_is_told() -> None:
    class Odd(nn.Linear):
        def get_extra_state(self) -> Any:
            return {}

        def set_extra_state(self, state: Any) -> None:
            raise KeyError("scale")

    given = {"weight": torch.ones(1, 1), "bias": torch.ones(1), "_extra_state": torch.ones(1)}
    assert load_given(Odd(1, 1), given) == "KeyError: 'scale'"


@pytest.mark.parametrize("wrap", [compiled, nn.DataParallel], ids=["compiled", "parallel"])
def test_a_part_that_is_wrapped_at_one_silo_only_changes_no_name(
    wrap: Callable[[nn.Module], nn.Module],
) -> None:
    at_another = Within(lambda m: m)
    at_one = Within(wrap)
    flat = FlatModel(at_one)
    assert flat.layout.digest == Layout.of(at_another).digest
    exported = flat.layout.state_dict(flat.read_all())
    at_another.load_state_dict(exported, strict=True)
    assert not load_given(at_one, at_another.state_dict())
    with torch.no_grad():
        next(at_one.named_buffers())[1].add_(1)
    flat.check()


@pytest.mark.parametrize(
    "norm",
    [parametrizations.weight_norm, parametrizations.spectral_norm],
    ids=["weight", "spectral"],
)
def test_parametrized_weights_keep_their_names(norm: Callable[[nn.Module], nn.Module]) -> None:
    one, other = nn.Sequential(norm(nn.Linear(3, 2))), nn.Sequential(norm(nn.Linear(3, 2)))
    assert not load_given(one, dict(other.state_dict()))
    layout, vectors = whole(one)
    nn.Sequential(norm(nn.Linear(3, 2))).load_state_dict(layout.state_dict(vectors), strict=True)
    assert torch.equal(one[0].weight, other[0].weight)


def test_a_tie_that_one_silo_lacks_is_named() -> None:
    apart = Tied()
    apart.head.weight = nn.Parameter(apart.embedding.weight.detach().clone())
    with pytest.raises(LayoutMismatchError, match=r"the run has it tied to embedding\.weight, "):
        Layout.of(Tied()).check_same(Layout.of(apart))


def test_tensors_that_share_memory_would_part_and_are_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight.data = module[0].weight.data
    with pytest.raises(TaskError, match=r"0\.weight and 1\.weight are two tensors in one memory"):
        FlatModel(module)
    module = nn.Linear(3, 3)
    module.register_buffer("first", module.weight.detach())
    with pytest.raises(TaskError, match="weight and first are two tensors in one memory"):
        FlatModel(module)
    module.first = module.weight  # one tensor: a tied name
    module.register_buffer("again", module.weight, persistent=False)
    layout = FlatModel(module).layout
    assert layout.aliases == {"first": "weight"}
    assert [e.name for e in layout.entries] == ["weight", "bias"]


def test_a_model_in_several_files_and_a_checkpoint_of_a_trainer(tmp_path: Path) -> None:
    given = {k: v for k, v in weights().items() if k != "head.weight"}
    parts = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(given)}
    for part in set(parts.values()):
        save_file({n: v for n, v in given.items() if parts[n] == part}, tmp_path / part)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    read = read_weights(index)
    assert read.keys() == given.keys()
    assert not load_given(Tied(), read)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"model-1\.safetensors: no such file"):
        read_weights(index)
    index.write_text("{}")
    with pytest.raises(ConfigError, match="holds something else"):
        read_weights(index)
    lightning = {"state_dict": named("model."), "epoch": 3, "optimizer_states": [{"lr": 0.1}]}
    torch.save(lightning, tmp_path / "last.ckpt")
    assert not load_given(Tied(), read_weights(tmp_path / "last.ckpt"))
