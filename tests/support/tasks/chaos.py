"""Tasks for federations whose processes are killed: steps that take a while, a model of some MB."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from domo.tasks.base import ArrayDataset, Shard, classification_sums
from tests.support.tasks.unequal import UnequalTask


class ChaosTask(UnequalTask):
    """Dropout, augmentation and batch norm; each step sleeps as long as step_s.txt says, if any.

    Attributes:
        width: 592 bytes of model for each.
    """

    width = 8192
    evaluate = staticmethod(classification_sums)

    def build_model(self) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * 36, self.width),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(self.width, 3),
        )

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        pace = root / "step_s.txt"
        self.step_s = float(pace.read_text()) if pace.exists() else 0.0
        return super().train_data(root, shard)

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        return super().train_data(root, shard)

    def augment(self, batch: Any, generator: torch.Generator) -> Any:
        time.sleep(self.step_s)
        return super().augment(batch, generator)


class LargeChaosTask(ChaosTask):
    """10 MB, so that transfers and commits take their time."""

    width = 16384
