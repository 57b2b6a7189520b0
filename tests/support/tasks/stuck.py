"""A task that stops wherever a test wants it to, until it is let go."""

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from domo.metrics.table import Measured
from domo.tasks.base import classification_sums, cross_entropy_loss

SCRIPT: deque[str] = deque()
"""Methods at which it stops, in turn; it goes on when the first is taken away."""
_changed = threading.Condition()


def stop_at(name: str) -> None:
    """Wait here, if it is the turn of this method."""
    with _changed:
        if SCRIPT and SCRIPT[0] == name:
            left = len(SCRIPT)
            _changed.wait_for(lambda: len(SCRIPT) < left)


def go_on(everywhere: bool = False) -> None:
    """Let it go."""
    with _changed:
        for _ in range(len(SCRIPT) if everywhere else 1):
            SCRIPT.popleft()
        _changed.notify_all()


class StuckData(Dataset[tuple[Tensor, int]]):
    """Eight samples."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        stop_at("item")
        return torch.full((3,), float(index)), index % 2


class StuckTask:
    """Two classes, three inputs."""

    def __init__(self) -> None:
        stop_at("init")

    def build_model(self) -> nn.Module:
        stop_at("build_model")
        return nn.Linear(3, 2)

    def train_data(self, root: Path, shard: Any) -> StuckData:
        stop_at("train_data")
        return StuckData()

    def eval_data(self, root: Path, shard: Any) -> StuckData:
        stop_at("eval_data")
        return StuckData()

    def batch_plan(self, round_index: int, num_steps: int) -> Sequence[Sequence[int]]:
        stop_at("batch_plan")
        return [[0, 1]] * num_steps

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        stop_at("loss")
        return cross_entropy_loss(model, batch)

    def on_gradients(self, model: nn.Module) -> None:
        stop_at("on_gradients")

    def evaluate(self, model: nn.Module, batch: Any) -> Measured:
        stop_at("evaluate")
        return classification_sums(model, batch)
