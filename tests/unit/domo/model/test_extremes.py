"""What no training gives is told from what is large; two silos are enough for it."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from domo.errors import DivergenceError
from domo.model.extremes import (
    FAR,
    FAR_BUFFER,
    MOST_MOVED,
    PASSES,
    Size,
    Step,
    check_alone,
    far_from_others,
    low_median,
    measure,
)
from domo.model.flat import FlatModel
from domo.model.layout import Layout, Section


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("mask", torch.full((4,), -3.4e38))
        self.register_buffer("seen", torch.zeros(2, dtype=torch.int32))


LAYOUT = Layout.of(Net())


def measured(change: Callable[[Any], None], num_steps: int = 2) -> Size:
    """A model whose buffers were changed, against the one before."""
    before, now = FlatModel(Net()), Net()
    change(now)
    flat = FlatModel(now)
    floats = [m.read(Section.FLOAT_BUFFER) for m in (flat, before)]
    integers = [m.read(Section.INTEGER_BUFFER) for m in (flat, before)]

    def reader(vector: torch.Tensor) -> Any:
        return lambda lo, hi: vector[lo:hi]

    return measure(
        LAYOUT,
        (1.0, 0.0),
        (reader(floats[0]), reader(floats[1])),
        (integers[0], integers[1]),
        num_steps,
    )


def test_buffers_as_training_leaves_them_have_a_size() -> None:
    def change(net: Any) -> None:
        net.norm.running_mean.copy_(torch.tensor([1e5, -2e5, 0.0]))
        net.norm.running_var.fill_(1e10)
        net.norm.num_batches_tracked.fill_(2)
        net.seen[1] = -7

    size = measured(change)
    assert size.buffers == {
        "norm.running_mean": 2e5,
        "norm.running_var": 1e10,
        "norm.num_batches_tracked": 2.0,
        "seen": 7.0,
    }
    assert size.before["norm.running_var"] == 1.0
    assert measured(lambda net: None).buffers == {}, "a mask of huge values is as it was"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda n: n.norm.running_mean.fill_(3.4e38), "norm.running_mean reaches 3.4e+38"),
        (lambda n: n.norm.running_var.fill_(3.4e38), "norm.running_var reaches 3.4e+38"),
        (lambda n: n.norm.running_var.fill_(-0.5), "norm.running_var has -0.5, and is never below"),
        (lambda n: n.mask.fill_(3.4e38), "mask reaches 3.4e"),
        (lambda n: n.norm.num_batches_tracked.fill_(-(2**63)), "tracked has -9.223e+18, and is"),
        (lambda n: n.norm.num_batches_tracked.fill_(2**63 - 1), "after 2 local steps, and cannot"),
        (lambda n: n.norm.num_batches_tracked.fill_(3 * PASSES + 1), "cannot be above 3000"),
    ],
)
def test_buffers_that_no_training_gives(change: Callable[[Any], None], text: str) -> None:
    with pytest.raises(DivergenceError) as caught:
        measured(change)
    assert text in str(caught.value)
    assert str(caught.value).startswith("its buffer ")


def size(update: float = 1.0, momentum: float = 0.0, **buffers: float) -> Size:
    return Size(update, momentum, buffers, dict.fromkeys(buffers, 1.0))


def step(model: float = 10.0, n: int = 100) -> Step:
    return Step(1.0, 1.0, n, lambda: model)


def test_alone_an_update_is_measured_by_the_model() -> None:
    check_alone(size(MOST_MOVED), step(model=0.0))  # |x_0| = 0, n = 100: a first round
    check_alone(size(1.05e10), step(model=10.0))
    for what, bad in (("update", size(3e10)), ("momentum", size(momentum=3e10))):
        with pytest.raises(DivergenceError, match=f"its {what}, of norm 3e.10, would move the mod"):
            check_alone(bad, step())
    with pytest.raises(DivergenceError, match="is more than training gives"):
        check_alone(size(3e38), Step(1e-38, 1e-38, 100, lambda: 10.0))


def far(*sizes: Size, past: float | None = None, **given: Any) -> list[str]:
    names = [f"site-{i}" for i in range(len(sizes))]
    steps = {name: step(**given) for name in names}
    return list(far_from_others(dict(zip(names, sizes, strict=True)), steps, past))


def test_of_two_the_larger_one_is_not_training() -> None:
    assert far(size(1.0), size(2 * FAR)) == ["site-1"]
    assert far(size(2 * FAR), size(1.0)) == ["site-0"]
    assert far(size(1.0), size(0.9 * FAR)) == [], "the norm check is for that"
    assert far(size(1e-9), size(1.0)) == [], "far from the other, and small beside the model"
    assert far(size(0.0), size(2 * FAR)) == [], "one that has learnt nothing is no measure"


def test_all_that_fall_apart_together_go_on() -> None:
    assert far(size(1e20), size(3e20), past=1.0) == []
    assert far(size(1e20), past=1.0) == ["site-0"], "alone in its round, the rounds before tell"
    assert far(size(1e20)) == []


def test_as_many_liars_as_honest_ones_do_not_lift_the_bar() -> None:
    assert far(size(1.0), size(1.0), size(1e9), size(1e9)) == ["site-2", "site-3"]
    assert low_median([0.0, 3.0, 1.0, 2.0, 9.0]) == 2.0
    assert low_median([0.0]) is None


def test_momentum_and_buffers_are_held_against_the_others() -> None:
    assert far(size(momentum=1.0), size(momentum=2 * FAR)) == ["site-1"]
    huge = 2 * FAR_BUFFER
    assert far(size(mean=0.1), size(mean=huge)) == ["site-1"]
    assert far(size(mean=huge), size(mean=huge)) == [], "data that nobody has scaled"
    assert far(size(mean=huge)) == [], "nothing to hold a first round against"
    assert far(size(mean=huge), past=1.0) == ["site-0"]
    assert math.isfinite(FAR_BUFFER)
