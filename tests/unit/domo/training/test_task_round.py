from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from domo.errors import (
    DivergenceError,
)
from domo.tasks.base import Shard, Sum
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.round_data import LocalResult
from domo.training.task_round import run_task_round
from tests.support.played.one_round import DATA, local_round, train


class ATask:
    def __init__(self, factor: float = 1.0):
        self.factor = factor

    def build_model(self) -> nn.Module:
        return nn.Linear(3, 1)

    def train_data(self, root: Path, shard: Shard | None) -> Dataset[Any]:
        return DATA

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.mse_loss(model(batch[0]), batch[1]) * self.factor

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Sum]:
        return {"n": Sum(float(len(batch[0])), 1)}


class PlannedTask(ATask):
    def augment(self, batch: Any, generator: torch.Generator) -> Any:
        return batch[0] * 0, batch[1] * 0 + 1

    def batch_plan(self, round_index: int, num_steps: int) -> list[list[int]]:
        return [[round_index]] * num_steps


def task_round(task: ATask, **how: Any) -> tuple[LocalRound, LocalResult | None]:
    dtype = how.pop("dtype", None)
    rnd = local_round("FedAvg", module=task.build_model(), **how)
    loader = BatchLoader(DATA)
    return rnd, run_task_round(task, rnd, loader, loader, dtype)


def test_a_task_is_the_loop_by_hand() -> None:
    rnd, result = task_round(ATask())
    assert result is not None
    assert rnd.evaluation == {"n": Sum(10.0, 1.0)}
    by_hand = train(local_round("FedAvg", module=nn.Linear(3, 1)))
    assert torch.equal(result.update, by_hand.update)
    assert result.metrics["loss"] > 0


def test_a_task_s_own_plan_and_augmentation_are_used() -> None:
    _, result = task_round(PlannedTask())
    assert result is not None
    assert result.update[:3].tolist() == [0.0, 0.0, 0.0]  # inputs are 0
    assert result.update[3] != 0


def test_bf16_is_near() -> None:
    _, exact = task_round(ATask())
    _, rough = task_round(ATask(), dtype=torch.bfloat16)
    assert exact is not None
    assert rough is not None
    assert not torch.equal(exact.update, rough.update)
    torch.testing.assert_close(exact.update, rough.update, rtol=0.05, atol=0.05)


def test_a_task_round_without_training() -> None:
    rnd, result = task_round(ATask(), num_steps=0)
    assert result is None
    assert rnd.evaluation


def test_an_abandoned_task_round() -> None:
    rnd, result = task_round(ATask(), on_step=lambda rnd, done: done < 1)
    assert result is None
    assert rnd.abandoned


def test_a_loss_that_is_not_finite() -> None:
    with pytest.raises(DivergenceError, match="the training loss is not finite"):
        task_round(ATask(factor=float("nan")))
