"""A task whose silos may be computed in several processes, and what may go wrong in one of them."""

import os
import signal
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from domo.simulating.visit import SimulatedSilo
from domo.tasks.base import ArrayDataset, Shard, Sum, classification_sums, cross_entropy_loss
from domo.training.batches import BatchLoader

FEATURES, CLASSES = 6, 3
SIZES = {"a": 20, "b": 11, "c": 14, "d": 10, "e": 9}


class SplitWorkTask:
    """BatchNorm, dropout and a frozen layer.

    Args:
        fault: What happens in training: `late-raise`, `late-nan`; in another process: `kill`,
            `exit`, `sleep`; empty: nothing.
        mark: At the silo whose inputs begin with this.
        folder: Other processes leave their numbers here.
    """

    def __init__(self, fault: str = "", mark: float = -1.0, folder: Path | None = None):
        self.fault, self.mark, self.folder = fault, mark, folder
        self.teacher = torch.randn(CLASSES, generator=torch.Generator().manual_seed(3))
        self.looked = os.getpid()

    def build_model(self) -> nn.Module:
        model = nn.Sequential(
            nn.Linear(FEATURES, 8),
            nn.BatchNorm1d(8),
            nn.Dropout(0.25),
            nn.ReLU(),
            nn.Linear(8, CLASSES),
        )
        model[0].bias.requires_grad_(False)
        return model

    def train_data(self, root: Path, shard: Shard | None) -> Dataset:
        raise NotImplementedError

    def augment(self, batch, generator: torch.Generator):
        inputs, labels = batch
        noise = torch.randn(inputs.shape, generator=generator) * 0.01
        noise[:, 0] = 0
        return inputs + noise, labels

    def loss(self, model: nn.Module, batch) -> Tensor:
        if self.folder is not None and os.getpid() != self.looked:
            (self.folder / str(os.getpid())).touch()
        if os.getpid() != self.looked and bool((batch[0][:, 0] == self.mark).any()):
            self._fail()
        loss = cross_entropy_loss(model, batch) + 0.01 * (self.teacher * model[4].bias).sum()
        late = model.training and int(model[1].num_batches_tracked) == 2  # `look` has one step
        late = late and bool((batch[0][:, 0] == self.mark).any())
        if late and self.fault == "late-raise":
            raise KeyError("a label")
        return loss * float("nan") if late and self.fault == "late-nan" else loss

    def _fail(self) -> None:
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "exit":
            os._exit(3)
        if self.fault == "sleep":
            time.sleep(600)

    def evaluate(self, model: nn.Module, batch) -> dict[str, Sum]:
        return classification_sums(model, batch)


def data_of(silo_id: str, purpose: str, size: int) -> ArrayDataset:
    """Noise; the first input is the silo's number."""
    source = torch.Generator().manual_seed(sum(map(ord, silo_id + purpose)))
    inputs = torch.randn(size, FEATURES, generator=source)
    inputs[:, 0] = list(SIZES).index(silo_id)
    return ArrayDataset(inputs, torch.randint(0, CLASSES, (size,), generator=source))


def silos_of_split_work() -> list[SimulatedSilo]:
    """Five of several sizes, and one that only tests."""
    made = [
        SimulatedSilo(k, BatchLoader(data_of(k, "train", n)), BatchLoader(data_of(k, "eval", 7)))
        for k, n in SIZES.items()
    ]
    return [*made, SimulatedSilo("z", None, BatchLoader(data_of("a", "more", 9)))]
