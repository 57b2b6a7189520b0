"""Tasks that fail in ways that code seldom does, or leave something behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from domo.tasks.base import Shard
from tests.support.tasks.bad import Linear


class OfItsOwn(BaseException):
    """No Exception, and it cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Mute(Linear):
    def build_model(self) -> nn.Module:
        raise OfItsOwn


class Deep(Linear):
    def build_model(self) -> nn.Module:
        return self.build_model()


class Data:
    """A dataset of one's own with a fault."""

    def __len__(self) -> int:
        raise OfItsOwn

    def __getitem__(self, index: int) -> Any:
        raise OfItsOwn


class NoLength(Linear):
    def train_data(self, root: Path, shard: Shard | None) -> Data:  # type: ignore[override]
        return Data()


class LengthOnce(Linear):
    class Data(Data):
        def __init__(self) -> None:
            self.asked = 0

        def __len__(self) -> int:
            self.asked += 1
            if self.asked > 1:
                raise ValueError("its index was closed")
            return 4

    def train_data(self, root: Path, shard: Shard | None) -> Data:  # type: ignore[override]
        return self.Data()


class NoItems(Linear):
    class Data(Data):
        def __len__(self) -> int:
            return 4

    def train_data(self, root: Path, shard: Shard | None) -> Data:  # type: ignore[override]
        return self.Data()


class NoneAtAll(Linear):
    def train_data(self, root: Path, shard: Shard | None) -> None:  # type: ignore[override]
        return None


class Generated(Linear):
    def train_data(self, root: Path, shard: Shard | None) -> Iterator[Any]:  # type: ignore[override]
        yield torch.ones(2), torch.tensor(0)


class Leaving(Linear):
    def build_model(self) -> nn.Module:
        raise GeneratorExit


class Untidy(Linear):
    """Leaves signals, the folder and torch's defaults as it needs them."""

    def build_model(self) -> nn.Module:
        os.chdir("/")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return nn.Linear(2, 3)

    def train_data(self, root: Path, shard: Shard | None) -> Any:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        raise ValueError("no more")


ODD = ("Mute", "Deep", "NoLength", "LengthOnce", "NoItems", "NoneAtAll", "Generated", "Leaving")
