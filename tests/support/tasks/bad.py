"""Tasks with a fault of their author's."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import IterableDataset

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


class TooLarge(Linear):
    """A model for which its device has no room."""

    class Model(nn.Linear):
        def _apply(self, *args: object, **given: object) -> nn.Module:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 90.00 GiB.\nGPU 0")

    def build_model(self) -> nn.Module:
        return self.Model(2, 3)


class Lazy(Linear):
    def build_model(self) -> nn.Module:
        return nn.LazyLinear(3)


class NoModel(Linear):
    def build_model(self) -> nn.Module:
        return None  # type: ignore[return-value]


class Exhausted(Linear):
    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        raise MemoryError


class Endless(Linear):
    class Data(IterableDataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter(torch.ones(4, 2))

    def train_data(self, root: Path, shard: Shard | None) -> Data:  # type: ignore[override]
        return self.Data()


class NoLength(Linear):
    def eval_data(self, root: Path, shard: Shard | None) -> object:
        return iter([torch.ones(2)])


class Chatty(Linear):
    def build_model(self) -> nn.Module:
        print("building")  # noqa: T201
        return nn.Linear(2, 3)

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        raise SystemExit("the licence has expired")
