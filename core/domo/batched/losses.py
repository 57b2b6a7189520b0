"""The loss of each of K silos on a folded batch (`domo.batched.data`)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from domo.batched.data import unfold
from domo.outside.text import task_error
from domo.tasks.base import Task, cross_entropy_loss


def losses(task: Task, model: nn.Module, batch: Any, num: int) -> Tensor:
    """The loss of each silo, shape (K,).

    The model runs once. The package's own loss does, too; a loss of a user's own is called for
    each silo with its part of what the model gave.

    Args:
        task: Whose loss it is.
        model: The batched model.
        batch: The folded batch.
        num: K.
    """
    if task.loss is cross_entropy_loss:
        inputs, labels = batch
        each = functional.cross_entropy(model(inputs), labels, reduction="none")
        return each.view(-1, num, each[0].numel()).mean((0, 2))
    outputs = _outputs(task, model, batch)
    parts = ((unfold(outputs, num, k), unfold(batch, num, k)) for k in range(num))
    return torch.stack([task.loss(_Answers(own), part) for own, part in parts])


def _outputs(task: Task, model: nn.Module, batch: Any) -> Any:
    """What the model gives when a loss first calls it, with the whole folded batch."""
    try:
        task.loss(_Stops(model), batch)
    except _Stopped as stopped:
        return stopped.outputs
    raise task_error("loss(model, batch) does not call the model")


class _Stopped(BaseException):
    """A loss has called its model; no `except Exception` of the user's is to see it."""

    def __init__(self, outputs: Any):
        super().__init__()
        self.outputs = outputs


class _Stops(nn.Module):
    """A model that ends the loss which calls it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, *given: Any, **named: Any) -> Any:
        raise _Stopped(self.model(*given, **named))


class _Answers(nn.Module):
    """A model that has run already."""

    def __init__(self, outputs: Any):
        super().__init__()
        self.outputs = outputs

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.outputs
