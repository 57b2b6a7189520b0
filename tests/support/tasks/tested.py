"""A task with test data and nothing random, for silos that are threads."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import ArrayDataset, Shard, cross_entropy_loss


class TestedTask:
    """Three classes of points; as many as samples.txt says, turned by a silo's own angle."""

    __test__ = False

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        return _points(int((root / "samples.txt").read_text()), 0)

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        return _points(int((root / "samples.txt").read_text()), 1)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        return cross_entropy_loss(model, batch)

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, tuple[float, int]]:
        points, labels = batch
        hits = (model(points).argmax(1) == labels).sum()
        loss = nn.functional.cross_entropy(model(points), labels, reduction="sum")
        return {"accuracy": (float(hits), len(labels)), "loss": (float(loss), len(labels))}


def _points(num: int, part: int) -> ArrayDataset:
    source = torch.Generator().manual_seed(10 * num + part)
    labels = torch.randint(0, 3, (num,), generator=source)
    angles = labels * 2.1 + num + 0.3 * torch.randn(num, generator=source)
    return ArrayDataset(torch.stack([angles.cos(), angles.sin()], 1), labels)
