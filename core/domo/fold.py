"""The fold: weighted means and inner products of many vectors, block by block, in roster order.

The coordinator reads blocks from spool files and the simulation from memory; the sums are the same,
bit for bit, whatever the size of a block. Memory is a few blocks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 1 << 18
"""Entries that the server works on at a time: 1 MiB of float32."""
PIECE = 1 << 12
"""Entries that are summed in float32 before the sums go on in float64."""

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


def fold_values(
    readers: Sequence[ReadBlock], omegas: Sequence[float], lo: int, hi: int
) -> tuple[Tensor, int]:
    """Weighted mean of one block of absolute values: of float buffers.

    A value in which all agree, bit for bit, stays as it is: a constant, which may be a mask of
    -inf, is no mean.

    Returns:
        The values, and how many of the others are not finite.
    """
    mean = fold(readers, omegas, lo, hi)
    first = readers[0](lo, hi)
    bits, same = first.view(torch.int32), torch.ones(hi - lo, dtype=torch.bool)
    for read in readers[1:]:
        same &= read(lo, hi).view(torch.int32) == bits
    values = torch.where(same, first, mean)
    return values, int((~(same | torch.isfinite(values))).sum())


def average_values(
    readers: Sequence[ReadBlock], omegas: Sequence[float], n: int
) -> tuple[Tensor, int]:
    """`fold_values` of whole vectors of n entries."""
    parts = [fold_values(readers, omegas, lo, hi) for lo, hi in blocks(n)]
    values = torch.cat([part for part, _ in parts]) if parts else torch.empty(0)
    return values, sum(bad for _, bad in parts)


def average(readers: Sequence[ReadBlock], omegas: Sequence[float], n: int) -> Tensor:
    """Weighted mean of whole vectors of n entries: mbar_{r+1}."""
    parts = [fold(readers, omegas, lo, hi) for lo, hi in blocks(n)]
    return torch.cat(parts) if parts else torch.empty(0)


def dot(x: NDArray[Any], y: NDArray[Any]) -> float:
    """<x, y>; not finite only where an entry is not.

    Quick, in a fixed order, and on the calling thread only: BLAS would share a product out among
    threads of its own, which contend with the transport, and give another number for each number of
    threads.

    Args:
        x: Shape (n,), float32.
        y: Shape (n,), float32.
    """
    whole = len(x) - len(x) % PIECE
    with np.errstate(all="ignore"):
        a, b = x[:whole].reshape(-1, PIECE), y[:whole].reshape(-1, PIECE)
        total = float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))
        total += float(np.einsum("i,i->", x[whole:], y[whole:]))
        if math.isfinite(total):
            return total
        return float(np.multiply(x, y, dtype=np.float64).sum())  # huge values
