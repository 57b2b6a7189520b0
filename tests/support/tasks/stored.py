"""The task of the stored state (tests/integration/stored): its numbers are exact on any machine.

Everything is a sum of a few powers of two, so no order of summing and no fused operation changes a
bit. `silo.txt` in a silo's data folder holds its number; a silo waits before round r for as long as
there is a file hold-r beside it.
"""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import ArrayDataset, Shard, Sum

N, SAMPLES = 24, 4


class StoredTask:
    """The weights are drawn to the mean of a silo's points."""

    def build_model(self) -> nn.Module:
        model = nn.Linear(N, 1, bias=False)
        nn.init.zeros_(model.weight)
        return model

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        self.root = root
        k = int((root / "silo.txt").read_text())
        points = torch.arange(SAMPLES * N).reshape(SAMPLES, N) * (3 + 2 * k) % 13 - 6
        return ArrayDataset(points / 4, torch.zeros(SAMPLES, dtype=torch.int64))

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset | None:
        return self.train_data(root, shard)

    def batch_plan(self, round_index: int, num_steps: int) -> list[list[int]]:
        while (self.root / f"hold-{round_index}").exists():
            time.sleep(0.02)
        return [list(range(SAMPLES))] * num_steps

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        points, _ = batch
        return 0.5 * ((model.weight - points) ** 2).sum(1).mean()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Sum]:
        points, _ = batch
        return {"loss": Sum(float(0.5 * ((model.weight - points) ** 2).sum()), len(points))}
