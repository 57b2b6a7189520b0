"""What a loss reaches: the parameters that its gradient would be for."""

from typing import Any

from torch import Tensor, nn


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
