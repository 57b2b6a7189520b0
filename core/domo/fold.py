"""The fold: weighted means of many vectors, block by block, in roster order.

The coordinator reads blocks from spool files and the simulation from memory; the sums are the same,
bit for bit, whatever the size of a block. Memory is a few blocks.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 1 << 18
"""Entries that the server works on at a time: 1 MiB of float32."""

ReadBlock = Callable[[int, int], Tensor]
"""Entries lo..hi of one participant's vector."""


def blocks(n: int) -> Iterator[tuple[int, int]]:
    """(lo, hi) of consecutive blocks that cover n entries."""
    return ((lo, min(lo + BLOCK, n)) for lo in range(0, n, BLOCK))


def fold(readers: Sequence[ReadBlock], omegas: Sequence[float], lo: int, hi: int) -> Tensor:
    """Weighted mean of one block over the participants, summed in the order given.

    Args:
        readers: One for each participant, in roster order.
        omegas: Raw weights, > 0; divided by their sum once, at the end.
    """
    total: Tensor | None = None
    own = False  # what a reader gives is not ours to change
    for read, omega in zip(readers, omegas, strict=True):
        part = read(lo, hi)
        part = part * omega if omega != 1 else part
        if total is None:
            total, own = part, omega != 1
        elif own:
            total.add_(part)
        else:
            total, own = total + part, True
    if total is None:
        raise ValueError("nobody to average over")
    return total.div_(sum(omegas)) if own else total / sum(omegas)


def average(readers: Sequence[ReadBlock], omegas: Sequence[float], n: int) -> Tensor:
    """Weighted mean of whole vectors of n entries: mbar_{r+1}, or float buffers."""
    parts = [fold(readers, omegas, lo, hi) for lo, hi in blocks(n)]
    return torch.cat(parts) if parts else torch.empty(0)
