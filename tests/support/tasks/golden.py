"""The cases of tests/golden as tasks: stored data and batch indices, in float32.

`silo.txt` in a silo's data folder holds its number. Silo 0 tests every x_r and reports its entries
as metrics x0, x1, ..., so the whole trajectory can be read over REST.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from domo.tasks.base import ArrayDataset, Shard, Sum

GOLDEN = Path(__file__).parents[2] / "golden"


@lru_cache(maxsize=8)
def stored(case: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Spec and arrays of a case."""
    with np.load(GOLDEN / f"{case}.npz") as f:
        return json.loads(str(f["spec"])), {k: f[k] for k in f.files if k != "spec"}


class FlatWeights(nn.Module):
    """x, shape (n,), as two parameters."""

    def __init__(self, n: int):
        super().__init__()
        self.head = nn.Parameter(torch.zeros(1))
        self.tail = nn.Parameter(torch.zeros(n - 1))

    def forward(self) -> Tensor:
        return torch.cat([self.head, self.tail])


class GoldenTask:
    """One case; subclasses say which."""

    case = ""

    def __init__(self) -> None:
        self.spec, self.arrays = stored(self.case)
        self.number = 0

    def build_model(self) -> nn.Module:
        return FlatWeights(self.spec["n"])

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        self.number = k = int((root / "silo.txt").read_text())
        if self.spec["kind"] == "quadratic":
            points = torch.from_numpy(self.arrays["C"][k]).float()
            return ArrayDataset(points, torch.zeros(len(points), dtype=torch.int64))
        inputs, labels = self.arrays["X"][k], self.arrays["Y"][k]
        return ArrayDataset(torch.from_numpy(inputs).float(), torch.from_numpy(labels).long())

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset | None:
        if int((root / "silo.txt").read_text()):
            return None
        return ArrayDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64))

    def batch_plan(self, round_index: int, num_steps: int) -> list[list[int]]:
        rows = self.arrays["batches"][round_index, self.number, :num_steps]
        return [[int(i) for i in step if i >= 0] for step in rows]

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        inputs, labels = batch
        x = model()
        if self.spec["kind"] == "quadratic":
            curve = torch.from_numpy(self.arrays["A"][self.number]).float()
            away = x - inputs
            return 0.5 * ((away @ curve) * away).sum(1).mean()
        classes, features = self.spec["classes"], self.spec["features"]
        weights = x[: classes * features].view(classes, features)
        return functional.cross_entropy(inputs @ weights.T + x[classes * features :], labels)

    def evaluate(self, model: nn.Module, batch: Any) -> Mapping[str, Sum]:
        return {f"x{i}": Sum(float(v), 1) for i, v in enumerate(model())}


class P1(GoldenTask):
    case = "p1_quad_full"


class P2(GoldenTask):
    case = "p2_softmax_wd_decay"


class P3(GoldenTask):
    case = "p3_softmax_partial"


class P4(GoldenTask):
    case = "p4_quad_unequal"


class P5(GoldenTask):
    case = "p5_quad_theory"


CASES = {cls.case: cls for cls in (P1, P2, P3, P4, P5)}
