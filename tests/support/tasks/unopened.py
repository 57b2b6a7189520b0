"""A task whose data nobody may open."""

from pathlib import Path
from typing import Any

from torch import nn

from domo.tasks.base import ArrayDataset, Shard, cross_entropy_loss


class Unopened:
    """Its model is one layer; a look at its data is a failure that no test expects."""

    loss = staticmethod(cross_entropy_loss)

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 2)

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        raise AssertionError("the data were opened")

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Any]:
        return {}
