"""What a loss is: one number with a gradient; and the parameters that it reaches."""

import math
from typing import Any

from torch import Tensor, nn

from domo.outside.text import task_error
from domo.training.task_errors import kind_of


def parameters_of(loss: Tensor) -> set[int]:
    """What a gradient of the loss would reach, by identity."""
    found: set[int] = set()
    seen: set[Any] = set()
    left: list[Any] = [loss.grad_fn]
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, nn.Parameter):
            found.add(id(leaf))
        left += [following for following, _ in node.next_functions]
    return found


def check_loss(loss: Any, what: str) -> None:
    """See that the loss of a first batch is one number with a gradient.

    Raises:
        TaskError: It is not; says so of `what`, which has given it.
    """
    if not isinstance(loss, Tensor):
        cure = ": leave out .item() or float()" if isinstance(loss, float) else ""
        raise task_error(
            f"{what} must give one number with a gradient, as a tensor, and gives {kind_of(loss)}"
            f"{cure}"
        )
    if loss.numel() != 1:
        raise task_error(
            f"{what} must give one number, and gives {kind_of(loss)}: take its mean over the batch"
        )
    if loss.is_complex() or not loss.is_floating_point():
        raise task_error(f"{what} must give a real number, and gives {loss.dtype}")
    if not loss.requires_grad:
        raise task_error(
            f"{what} must give one number with a gradient, and this one has none: leave out "
            ".detach(), .item() and torch.no_grad()"
        )
    if not math.isfinite(float(loss.detach())):
        raise task_error(
            f"{what} is {float(loss.detach())} on the first batch: look for samples that are not "
            "finite, and labels that the model has no output for"
        )
