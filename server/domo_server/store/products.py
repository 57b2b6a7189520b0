"""Inner products of float32 blocks: quick, in a fixed order, and on the calling thread only.

BLAS would share a product out among threads of its own, which contend with the transport, and give
another number for each number of threads.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE = 1 << 12
"""Entries that are summed in float32 before the sums go on in float64."""


def dot(x: NDArray[Any], y: NDArray[Any]) -> float:
    """<x, y>; not finite only where an entry is not.

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
