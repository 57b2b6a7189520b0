"""Buffers as people have them: constants, and those that `forward` assigns anew."""

import pytest
import torch
from torch import Tensor, nn

from domo.errors import TaskError
from domo.model.flat import FlatModel
from domo.model.layout import Section

FLOATS, INTEGERS = Section.FLOAT_BUFFER, Section.INTEGER_BUFFER


class Moving(nn.Module):
    """Two means that it keeps by assigning them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.register_buffer("ema", torch.zeros(3))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.ema = 0.5 * self.ema + 0.5 * x.mean(0)
        self.seen = self.seen + 1
        out: Tensor = self.layer(x - self.ema)
        return out


def test_what_forward_assigns_is_read() -> None:
    flat = FlatModel(Moving())
    flat.module(torch.tensor([[2.0, 4.0, 8.0]]))
    assert flat.read(FLOATS).tolist() == [1.0, 2.0, 4.0]
    assert flat.read(INTEGERS).view(torch.int64).tolist() == [1]


def test_what_is_loaded_is_what_the_module_holds() -> None:
    flat = FlatModel(Moving())
    mine = flat.module.ema
    flat.module(torch.ones(1, 3))
    flat.load(FLOATS, torch.tensor([7.0, 8.0, 9.0]))
    assert flat.module.ema.tolist() == [7.0, 8.0, 9.0]
    assert flat.module.ema is mine


def test_the_memory_of_others_is_not_written_into() -> None:
    module = Moving()
    flat, batch = FlatModel(module), torch.ones(3)
    module.ema = batch
    flat.load(FLOATS, torch.zeros(3))
    assert batch.tolist() == [1.0, 1.0, 1.0]
    module.ema = module.layer.weight.detach()[0]  # a part of the weights themselves
    before = flat.vector.clone()
    flat.load(FLOATS, torch.full((3,), 5.0))
    assert torch.equal(flat.vector, before)


def test_a_buffer_that_a_graph_hangs_on_is_loaded() -> None:
    module = Moving()
    flat = FlatModel(module)
    for assign in (False, True):
        step = module.layer.weight[0] * 2
        module.ema = module.ema + step if assign else module.ema.add_(step)
        flat.load(FLOATS, torch.full((3,), 5.0))
        assert module.ema.tolist() == [5.0] * 3
        assert not module.ema.requires_grad


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ema", torch.zeros(4), r"ema was a buffer float32\[3\] and is a buffer float32\[4\]"),
        ("ema", torch.zeros(3).double(), r"is a buffer float64\[3\]"),
        ("ema", None, r"ema was a buffer float32\[3\] and is not there"),
        ("seen", torch.tensor(0.5), r"seen was a buffer int64\[\] and is a buffer float32\[\]"),
    ],
)
def test_a_layout_that_changes_is_refused_by_name(
    name: str, value: Tensor | None, told: str
) -> None:
    flat = FlatModel(Moving())
    setattr(flat.module, name, value)
    with pytest.raises(TaskError, match=told):
        flat.read(FLOATS)
    for section, values in FlatModel(Moving()).read_all().items():  # the next round begins
        flat.load(section, values)
    assert flat.read(FLOATS).tolist() == [0.0, 0.0, 0.0]


def test_a_tensor_that_comes_later_is_refused_by_name() -> None:
    flat = FlatModel(Moving())
    flat.module.register_buffer("cache", torch.zeros(2))
    with pytest.raises(TaskError, match=r"cache was not there .*persistent=False"):
        flat.read(FLOATS)
    flat = FlatModel(Moving())
    flat.module.head = nn.Linear(1, 1)
    with pytest.raises(TaskError, match=r"head\.weight was not there"):
        flat.read(FLOATS)


def test_a_buffer_that_was_expanded_takes_values() -> None:
    module = Moving()
    module.register_buffer("ema", torch.tensor(1.0).expand(3))
    flat = FlatModel(module)
    flat.load(FLOATS, torch.tensor([1.0, 2.0, 3.0]))
    assert flat.read(FLOATS).tolist() == [1.0, 2.0, 3.0]


def test_names_are_those_of_the_plain_module() -> None:
    plain = FlatModel(nn.Sequential(Moving())).layout
    compiled = torch.compile(nn.Sequential(Moving()))
    inside = nn.Sequential(torch.compile(Moving()))
    shared = nn.DataParallel(nn.Sequential(Moving()))
    for wrapped, inner in (
        (compiled, compiled._orig_mod[0]),
        (inside, inside[0]._orig_mod),
        (shared, shared.module[0]),
    ):
        flat = FlatModel(wrapped)
        assert flat.layout == plain
        inner.ema = torch.ones(3)
        flat.load(FLOATS, torch.full((3,), 2.0))
        assert inner.ema.tolist() == [2.0, 2.0, 2.0]
