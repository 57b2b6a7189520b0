"""Whose integer buffers a round takes: no mean of whole numbers is one."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from domo.model.layout import Layout, Section


def choose_integers(
    layout: Layout, before: Tensor, read: Sequence[Callable[[], Tensor]], steps: Sequence[int]
) -> Tensor:
    """Those of the first silo, or of the first that agrees with most, where the first does not.

    Silos agree whose numbers have grown alike for each local step, as counts of batches do; where
    each has its own there is no majority, and with two silos there is none either.

    Args:
        layout: Of the model.
        before: The model's own, as bytes (uint8).
        read: Gives the bytes of each silo, in roster order.
        steps: P_k of each.
    """
    keys = [_growth(layout, before, given(), p) for given, p in zip(read, steps, strict=True)]
    key, most = Counter(keys).most_common(1)[0]
    return read[keys.index(key) if 2 * most > len(keys) else 0]()


def _growth(layout: Layout, before: Tensor, now: Tensor, num_steps: int) -> bytes:
    """A digest of how much each number has grown in a local step."""
    found = hashlib.blake2b(digest_size=16)
    if torch.equal(before, now):
        return found.digest()
    old, new = (layout.split(Section.INTEGER_BUFFER, vector) for vector in (before, now))
    for name, values in new.items():
        if torch.equal(values, old[name]):
            continue
        if values.dtype == torch.bool or values.is_complex():
            grown = values.reshape(-1).view(torch.uint8)
        else:  # wraps around where it overflows, the same at all
            grown = (values.long() - old[name].long()).double() / num_steps
        found.update(name.encode() + grown.contiguous().numpy().tobytes())
    return found.digest()
