"""The test of one model on the data of all silos, in a few large batches.

All silos test the same x_r, so their samples may share batches; sums are each silo's own.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from domo.batched.data import Joined
from domo.metrics.table import Sum
from domo.model.flat import FlatModel
from domo.stages.now import in_stage
from domo.tasks.base import Task, classification_sums
from domo.training.batches import EVAL_BATCH

MOST_BYTES = 2_097_152
"""Of the inputs of one batch, where it has more than `EVAL_BATCH` samples."""


def is_known(task: Task) -> bool:
    """Whether the task's test is the package's own; another one may look at a batch as a whole."""
    return task.evaluate is classification_sums


def measure(flat: FlatModel, joined: Joined) -> dict[str, Mapping[str, Sum]]:
    """What `classification_sums` gives of each silo, by name; within float tolerance.

    Args:
        flat: The model, with all that is tested in it.
        joined: The test data of the silos.
    """
    model, device = flat.module, flat.vector.device
    found: list[tuple[Tensor, Tensor]] = []
    size = max(EVAL_BATCH, MOST_BYTES // max(1, joined.sample_bytes))
    with flat.testing(), in_stage("test"):
        for inputs, labels in joined.in_order(size):
            logits = model(inputs)
            losses = functional.cross_entropy(logits, labels, reduction="none")
            right = logits.argmax(1) == labels
            found.append((_of_each(losses), _of_each(right)))
    losses, right = (torch.cat(column) for column in zip(*found, strict=True))
    each = joined.labels_each
    sums = torch.zeros(2, len(joined.sizes), dtype=torch.float64, device=device)
    for k, (one, other) in enumerate(zip(joined.split(losses), joined.split(right), strict=True)):
        sums[0, k], sums[1, k] = one.sum(), other.sum()
    return {
        name: {"loss": Sum(loss, n * each), "accuracy": Sum(correct, n * each)}
        for (name, n), loss, correct in zip(joined.sizes.items(), *sums.tolist(), strict=True)
    }


def _of_each(numbers: Tensor) -> Tensor:
    """The sum of each sample's numbers, shape (b,), float64."""
    return numbers.flatten(1).sum(1).double() if numbers.dim() > 1 else numbers.double()
