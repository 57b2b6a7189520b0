"""How well a round's updates agree: each with the server momentum, and all with their mean.

For people to look at; nothing is decided by it. The sums are float64 over short pieces in a fixed
order, so a round that is summed again gives the same numbers, whatever the number of threads.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from domo.fold import ReadBlock, dot


@dataclass(frozen=True, slots=True)
class Alignment:
    """Numbers of one round.

    Attributes:
        cosines: <d_k, m_r> / (|d_k| |m_r|) of each participant; None where either is 0.
        drift: sqrt(sum_k v_k |d_k - D|^2 / sum_k v_k) / |D|, with the weights v_k of the mean D;
            None where D is 0. Below about 0.002 it is rounding.
    """

    cosines: Sequence[float | None]
    drift: float | None


class Products(NamedTuple):
    """Inner products of one block, or of whole vectors."""

    along: Sequence[float]
    """<d_k, m_r> of each participant."""
    momentum: float
    """|m_r|^2."""
    mean: float
    """|D|^2."""


def watch(
    updates: Iterable[ReadBlock], m_r: Tensor
) -> tuple[list[ReadBlock], Callable[[Tensor], Products]]:
    """Take the products of one block while its updates are read for the mean.

    No cycle holds the block: its memory is free again as soon as it is done with.

    Args:
        updates: Readers of d_k.
        m_r: The block of the server momentum.

    Returns:
        Readers to use in their place; and, for once all were read, the products with the mean.
    """
    m = m_r.numpy()
    momentum, along = dot(m, m), list[float]()

    def watched(read: ReadBlock) -> ReadBlock:
        def seen(lo: int, hi: int) -> Tensor:
            part = read(lo, hi)
            along.append(dot(part.numpy(), m) if momentum else 0.0)
            return part

        return seen

    def products(mean: Tensor) -> Products:
        return Products(along, momentum, dot(mean.numpy(), mean.numpy()))

    return [watched(u) for u in updates], products


def alignment(
    blocks: Sequence[Products], norms: Sequence[float], weights: Sequence[float]
) -> Alignment:
    """The numbers of a round from those of its blocks, in order.

    As D = sum_k v_k d_k / V, the cross terms of sum_k v_k |d_k - D|^2 come to -2 V |D|^2, and it is
    sum_k v_k |d_k|^2 - V |D|^2.

    Args:
        blocks: All blocks.
        norms: |d_k|.
        weights: v_k, those of the mean.
    """
    momentum = math.sqrt(sum(b.momentum for b in blocks))
    along = [sum(b.along[k] for b in blocks) for k in range(len(norms))]
    cosines = [_cosine(p, norm, momentum) for p, norm in zip(along, norms, strict=True)]
    square = sum(b.mean for b in blocks)
    if not square:
        return Alignment(cosines, None)
    if len(norms) == 1:
        return Alignment(cosines, 0.0)
    total = sum(v * norm * norm for v, norm in zip(weights, norms, strict=True))
    return Alignment(cosines, math.sqrt(max(0.0, total / sum(weights) / square - 1)))


def _cosine(product: float, norm: float, momentum: float) -> float | None:
    if not norm or not momentum:
        return None
    return max(-1.0, min(1.0, product / norm / momentum))
