"""Silos whose inputs look unlike: FedBN and Ditto beside FedAvg and DOMO, on the digits.

Ten silos with all classes; each sees its digits in one of five ways, as scanners differ: as they
are, inverted, blurred, paler, noisy. A small CNN with batch norms, 30 rounds, 5 seeds:

    python experiments/feature_shift.py

prints the table of docs/results.md: the test accuracy of the model that each silo would use, over
all silos. That is x_R with the silo's own batch norms for FedBN, v_k for Ditto, x_R for the others.
"""

import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from domo import RunConfig
from domo.simulation import simulate
from domo.tasks.base import ArrayDataset, Shard, classification_sums, cross_entropy_loss
from domo.tasks.datasets import digits
from domo.tasks.shards import eval_shard, train_shard
from domo.trial import shard_silos

NUM_SILOS, SEEDS = 10, range(5)
COMMON: Mapping[str, Any] = {
    "task": "experiments.feature_shift:ShiftedDigits",
    "num_silos": NUM_SILOS,
    "num_rounds": 30,
    "local_epochs": 2.0,
    "batch_size": 16,
    "similarity": 1.0,
    "evaluate_every": 30,
    "lr_milestones": (0.6, 0.8),
}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "FedAvg": {"method": "FedAvg", "local_lr": 0.1},
    "DOMO": {"method": "DOMO", "local_lr": 0.02},
    "FedBN: FedAvg": {"method": "FedAvg", "local_lr": 0.1, "private": ("*bn*",)},
    "FedBN: DOMO": {"method": "DOMO", "local_lr": 0.02, "private": ("*bn*",)},
    "Ditto beside FedAvg": {"method": "FedAvg", "local_lr": 0.1, "personal": "ditto"},
    "Ditto beside DOMO": {"method": "DOMO", "local_lr": 0.02, "personal": "ditto"},
}


class Net(nn.Module):
    """Two convolutions with batch norms, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(32 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, shape (N, 10), of digits of shape (N, 1, 8, 8)."""
        x = self.pool(self.bn1(self.conv1(x)).relu())
        x = self.pool(self.bn2(self.conv2(x)).relu())
        out: Tensor = self.head(x.flatten(1))
        return out


class ShiftedDigits:
    """The digits, as the scanner of each silo shows them."""

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    def build_model(self) -> nn.Module:
        """A small CNN."""
        return Net()

    def train_data(self, root: Path, shard: Shard) -> ArrayDataset:
        """A silo's part of the training digits."""
        return shown(train_shard(digits().train, shard), shard)

    def eval_data(self, root: Path, shard: Shard) -> ArrayDataset:
        """Its part of the test digits."""
        return shown(eval_shard(digits().test, shard), shard)


def shown(data: ArrayDataset, shard: Shard) -> ArrayDataset:
    """The digits as a silo's scanner shows them; noise follows the silo and the seed."""
    images = data.inputs
    kind = shard.index % 5
    if kind == 1:
        images = images.amax() + images.amin() - images
    elif kind == 2:
        images = avg_pool2d(pad(images, (1, 1, 1, 1), mode="replicate"), 3, 1)
    elif kind == 3:
        images = 0.2 * images
    elif kind == 4:
        source = torch.Generator().manual_seed(1000 * shard.seed + shard.index + len(images))
        images = images + torch.randn(images.shape, generator=source)
    return ArrayDataset(images, data.labels)


def accuracy(row: Mapping[str, Any], seed: int) -> float:
    """Test accuracy, per cent, over all silos, of the models that they would use."""
    config = RunConfig(seed=seed, **{**COMMON, **row})
    task = ShiftedDigits()
    silos = shard_silos(task, Path(), [f"silo-{i}" for i in range(NUM_SILOS)], 1.0, seed)
    numbers = simulate(config, task, silos).history[-1].metrics
    return 100 * numbers["personal_accuracy" if "personal" in row else "accuracy"]


def main() -> None:
    """All rows, all seeds, as a table of Markdown."""
    sys.stdout.write("| | test accuracy, % | seconds a run |\n|---|---:|---:|\n")
    for name, row in ROWS.items():
        began = time.process_time()
        found = [accuracy(row, seed) for seed in SEEDS]
        took = (time.process_time() - began) / len(found)
        mean, std = statistics.mean(found), statistics.stdev(found)
        sys.stdout.write(f"| {name} | {mean:.2f} ± {std:.2f} | {took:.0f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
