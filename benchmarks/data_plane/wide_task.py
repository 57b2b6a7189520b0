"""A task of any size: one vector of weights, and a gradient that is the same everywhere."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import ArrayDataset, Shard, Sum


class OneVector(nn.Module):
    """Weights w of shape (n,), all 0."""

    def __init__(self, n: int):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(n))

    def forward(self, x: Tensor) -> Tensor:
        """The sum, as often as x says."""
        return self.w.sum() * x.mean()


class Wide:
    """The loss is the sum of the weights."""

    def build_model(self) -> nn.Module:
        """Of as many weights as the environment says."""
        return OneVector(int(os.environ["WIDE_PARAMS"]))

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        """Ones."""
        return ArrayDataset(torch.ones(4, 1), torch.zeros(4))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Small, so that the weights stay small."""
        loss: Tensor = model(batch[0])
        return loss * 1e-3

    def evaluate(self, model: nn.Module, batch: Any) -> Mapping[str, Sum]:
        """Nothing."""
        return {}
