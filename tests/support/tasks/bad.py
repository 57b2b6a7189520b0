"""Tasks with a fault of their author's."""

from pathlib import Path

import torch
from torch import nn

from domo.tasks.base import ArrayDataset, Shard, classification_sums, cross_entropy_loss


class Linear:
    """Two inputs, three classes, and one label outside of them in the data."""

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 3)

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        return ArrayDataset(torch.ones(4, 2), torch.tensor([0, 1, 7, 2]))


class Unreadable(Linear):
    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        raise KeyError("patients.csv has no column 'age'")


class Chatty(Linear):
    def build_model(self) -> nn.Module:
        print("building")  # noqa: T201
        return nn.Linear(2, 3)

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        raise SystemExit("the licence has expired")
