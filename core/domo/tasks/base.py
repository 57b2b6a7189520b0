"""What a user writes: a task says what is trained on what.

Nothing in a task knows about rounds, momentum or gRPC. Only `build_model`, `train_data`, `loss`
and `evaluate` are needed; the other methods are used where a task has them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from domo.metrics.table import Measured
from domo.metrics.table import Sum as Sum

VERSION = "1"
"""Of how named tasks read data: raised where the same files come to mean other numbers."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One silo's part of a public dataset, for demos, simulations and tests.

    Attributes:
        index: Which part, 0-based.
        num_shards: How many parts there are.
        similarity: The paper's s in [0, 1]: the share of data dealt at random; the rest is sorted
            by label.
        seed: Seed of the split.
    """

    index: int
    num_shards: int
    similarity: float = 0.05
    seed: int = 0


@runtime_checkable
class Task(Protocol):
    """What every task has.

    Optional methods, used where a task has them:

    - `eval_data(root, shard) -> Dataset | None`: data that the server model is tested on;
    - `augment(batch, generator) -> batch`: random augmentation of a collated batch, on the CPU;
    - `batch_plan(round_index, num_steps) -> Sequence[Sequence[int]]`: own sampling order
      (class-balanced batches, curricula) in place of the seeded permutation; None leaves that;
    - `on_gradients(model)`: called after each backward and before the step, to clip gradients;
    - `data_hint: str`: one line on what `--data` should hold;
    - `classes: Sequence[str]`: names of the classes in the order of their numbers, `version: str`:
      of the code that reads the data, and `input_form: InputForm`: what one input is; or
      `meaning(root, shard) -> Meaning`, where they depend on the data. Silos that differ in them
      are refused before the first round. What a task does not say is found out, as far as a look
      at some examples shows it.
    """

    def build_model(self) -> nn.Module:
        """A fresh model; the caller has seeded torch."""
        ...

    def train_data(self, root: Path, shard: Shard | None) -> Dataset[Any]:
        """Training examples: a shard of a public dataset, or (shard None) the silo's own."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Mean loss over the batch."""
        ...

    def evaluate(self, model: nn.Module, batch: Any) -> Measured:
        """Sums and counts of metrics over the batch, and tables of `domo.metrics`."""
        ...


def cross_entropy_loss(model: nn.Module, batch: Any) -> Tensor:
    """Mean cross entropy of a classifier on an (inputs, labels) batch."""
    inputs, labels = batch
    return functional.cross_entropy(model(inputs), labels)


def classification_sums(model: nn.Module, batch: Any) -> dict[str, Sum]:
    """Loss and accuracy of a classifier on an (inputs, labels) batch, as sums."""
    inputs, labels = batch
    logits = model(inputs)
    n = float(labels.numel())
    loss = functional.cross_entropy(logits, labels, reduction="sum")
    correct = (logits.argmax(1) == labels).sum()
    return {"loss": Sum(float(loss), n), "accuracy": Sum(float(correct), n)}


class Collated(tuple[Any, ...]):
    """A batch that is already stacked: what a dataset's own `__getitems__` may return.

    torch's own `DataLoader` would take it for a list of items. A dataset that is to be read by
    both has a method `stacked` instead; see `ArrayDataset`.
    """

    __slots__ = ()


class ArrayDataset(Dataset[tuple[Tensor, Tensor]]):
    """Inputs and labels in memory; hands out items, and whole batches at once by `stacked`.

    Args:
        inputs: Shape (N, ...).
        labels: Shape (N,), int64.

    Attributes:
        facts: What was read of whose files, for people.
        notes: What should be known of them.
    """

    def __init__(self, inputs: Tensor, labels: Tensor):
        self.inputs, self.labels = inputs, labels
        self.facts: Sequence[str] = ()
        self.notes: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.labels[index]

    def stacked(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The batch of these items; the same as collating them one by one, and much faster.

        A subclass with a `__getitem__` of its own is read by that, unless it has a `stacked` too.
        """
        where = torch.as_tensor(indices)
        return self.inputs[where], self.labels[where]
