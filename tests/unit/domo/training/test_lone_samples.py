"""A batch of one sample: said before round 1 with what helps, and left out by `drop_last`."""

import math
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import domo
from domo.algorithm import LocalSGD
from domo.outside.faults import MORE_THAN_ONE
from domo.run_config import RunConfig
from domo.training.batches import random_plan
from domo.training.task_errors import text_of
from tests.support.played.one_round import local_round

LAST = "fails with a batch of one sample, which is the last of {} samples by {}: "
CURE = ". Set drop_last = true in the run, which leaves it out, or a batch_size"
NO_STATISTICS = "ValueError: Expected more than 1 value per channel when training"


def points(num: int) -> TensorDataset:
    return TensorDataset(torch.linspace(-1, 1, 4 * num).view(num, 4), torch.arange(num) % 3)


class Normed:
    """BatchNorm, for which one sample has no statistics."""

    norm: type[nn.Module] = nn.BatchNorm1d

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), self.norm(8), nn.Linear(8, 3))

    def train_data(self, root: Any, shard: Any) -> Any:
        raise AssertionError

    loss: Any = staticmethod(domo.cross_entropy_loss)
    evaluate: Any = staticmethod(domo.classification_sums)


def run(task: Any, *sizes: int, tests: int = 3, **settings: Any) -> domo.SimulationResult:
    given = {"num_rounds": 2, "batch_size": 8, **settings}
    held = {f"site-{i}": (points(n), points(tests)) for i, n in enumerate(sizes)}
    return domo.simulate(task, held, **given)


def refused(task: Any, *sizes: int, **settings: Any) -> str:
    rounds: list[int] = []
    with pytest.raises(domo.TaskError) as caught:
        run(task, *sizes, on_model=lambda made: rounds.append(1), **settings)
    assert rounds == []
    return str(caught.value)


def test_a_last_batch_of_one_names_the_setting_that_leaves_it_out() -> None:
    text = refused(Normed(), 16, 33)
    assert text.startswith("site-1: loss(model, batch) " + LAST.format(33, 8) + NO_STATISTICS)
    assert CURE in text
    assert text.count("drop_last") == 1
    assert torch.isfinite(run(Normed(), 16, 33, drop_last=True).x).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"local_steps_list": [4, 5]},
        {"local_steps_list": [{"site-0": 4}, {"site-0": 5}]},
        {"local_steps": 5},
        {"local_epochs": 0.9},
    ],
)
def test_steps_that_reach_it_in_a_later_round(settings: dict[str, Any]) -> None:
    assert LAST.format(33, 8) in refused(Normed(), 33, **settings)


@pytest.mark.parametrize("settings", [{"local_steps": 4}, {"local_epochs": 0.8}])
def test_steps_that_never_reach_it(settings: dict[str, Any]) -> None:
    assert len(run(Normed(), 33, **settings).history) == 3


@pytest.mark.parametrize(("size", "settings"), [(1, {}), (1, {"drop_last": True}), (9, {"b": 1})])
def test_all_batches_are_of_one(size: int, settings: dict[str, Any]) -> None:
    text = refused(Normed(), size, batch_size=settings.pop("b", 8), **settings)
    assert "loss(model, batch) fails: " + NO_STATISTICS in text
    assert text.endswith(MORE_THAN_ONE)


class Planned(Normed):
    def batch_plan(self, round_index: int, num_steps: int) -> Any:
        return [[0, 1], [2]] * num_steps


class AsSeeded(Normed):
    def batch_plan(self, round_index: int, num_steps: int) -> None:
        return None


def test_a_plan_with_a_batch_of_one() -> None:
    text = refused(Planned(), 32)
    assert "fails with a batch of one sample, which batch_plan gives: " + NO_STATISTICS in text
    assert ". Let it give two or more" in text
    assert LAST.format(33, 8) in refused(AsSeeded(), 33)


class Spread(Normed):
    """A loss with the spread of the batch, which one sample does not have."""

    norm = nn.Identity

    def loss(self, model: nn.Module, batch: Any) -> Tensor:  # type: ignore[override]
        return domo.cross_entropy_loss(model, batch) + model(batch[0]).std(0).mean()


@pytest.mark.filterwarnings("ignore:std")
def test_a_loss_that_is_not_finite_for_one_sample() -> None:
    assert LAST.format(33, 8) + "it is nan" + CURE in refused(Spread(), 33)
    assert math.isfinite(float(run(Spread(), 33, drop_last=True).x.sum()))


class Grouped(Normed):
    """One channel a group: GroupNorm refuses one sample in tests too."""

    norm = staticmethod(lambda num: nn.GroupNorm(num, num))  # type: ignore[assignment]


def test_a_last_test_batch_of_one() -> None:
    text = refused(Grouped(), 16, tests=257)
    assert "with a batch of one sample, which is the last of 257 test samples by 256: leave" in text
    assert "drop_last" not in text
    assert len(run(Normed(), 16, tests=257).history) == 3, "BatchNorm tests with its statistics"


def test_whoever_s_loop_meets_it_is_told_what_helps() -> None:
    with pytest.raises(ValueError, match="more than 1 value") as caught:
        nn.BatchNorm1d(3)(torch.zeros(1, 3))
    assert text_of(caught.value).endswith(". " + MORE_THAN_ONE)


def test_the_order_without_short_batches() -> None:
    plan = list(islice(random_plan(10, 4, 0, "a", 0, True), 6))
    kept = list(islice(random_plan(10, 4, 0, "a", 0), 9))
    assert plan == kept[0:2] + kept[3:5] + kept[6:8], "the seeded order, without the short ones"
    left_out = [sorted(kept[i]) for i in (2, 5, 8)]
    assert left_out[0] != left_out[1] or left_out[1] != left_out[2], "other samples in each pass"
    few = list(islice(random_plan(3, 4, 0, "a", 0, True), 2))
    assert [sorted(batch) for batch in few] == [[0, 1, 2]] * 2
    assert [len(b) for b in islice(random_plan(8, 4, 0, "a", 0, True), 4)] == [4] * 4


@pytest.mark.parametrize(
    ("num_samples", "epochs", "kept", "dropped"),
    [(33, 1, 5, 4), (32, 1, 4, 4), (33, 2.5, 13, 10), (7, 1, 1, 1), (1, 3, 3, 3), (33, 0.1, 1, 1)],
)
def test_steps_of_a_pass(num_samples: int, epochs: float, kept: int, dropped: int) -> None:
    given: Any = {"task": "digits", "num_rounds": 3, "batch_size": 8, "local_epochs": epochs}
    made = [RunConfig(**given, drop_last=drop) for drop in (False, True)]
    assert [c.steps_at(0, "a", num_samples) for c in made] == [kept, dropped]
    assert [c.most_steps("a", num_samples) for c in made] == [kept, dropped]
    assert made[0].digest == RunConfig(**given).digest != made[1].digest


def test_a_loop_of_one_s_own_gets_whole_batches() -> None:
    rnd = local_round(num_steps=3, batch_size=4, drop_last=True)
    opt: LocalSGD = rnd.optimizer()
    sizes = []
    for _inputs, labels in rnd.batches(points(9)):
        sizes.append(len(labels))
        sum(p.sum() for p in rnd.model.parameters()).backward()
        opt.step()
        opt.zero_grad()
    assert sizes == [4, 4, 4]


def test_the_most_steps_of_a_silo_in_the_rounds_that_have_it() -> None:
    given: Any = {"task": "digits", "num_rounds": 3, "roster": ["a", "b"]}
    listed = RunConfig(
        **given,
        local_steps_list=[{"a": 9}, {"a": 2, "b": 1}, 3],
        participants=[["a"], ["a", "b"], ["b"]],
    )
    assert [listed.most_steps(s, 100) for s in ("a", "b")] == [9, 3]
