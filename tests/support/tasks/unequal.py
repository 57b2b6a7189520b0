"""A task with all that can break equal bytes: dropout, augmentation, batch norm, ragged batches."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from domo.tasks.base import ArrayDataset, Shard, cross_entropy_loss


class UnequalTask:
    """Synthetic 3-class images; the data folder says how many, and seeds which."""

    loss = staticmethod(cross_entropy_loss)

    def build_model(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(4 * 36, 3),
        )

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        n = int((root / "samples.txt").read_text())
        source = torch.Generator().manual_seed(n)
        labels = torch.randint(0, 3, (n,), generator=source)
        images = torch.randn(n, 1, 6, 6, generator=source) + labels.view(-1, 1, 1, 1)
        return ArrayDataset(images, labels)

    def augment(self, batch: Any, generator: torch.Generator) -> Any:
        images, labels = batch
        flips = torch.rand(len(images), generator=generator) < 0.5
        noise = 0.1 * torch.randn(images.shape, generator=generator)
        return torch.where(flips.view(-1, 1, 1, 1), images.flip(3), images) + noise, labels

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Any]:
        return {}
