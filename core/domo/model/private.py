"""A silo's private section, as it is kept: bytes of any dtypes in a vector of float32."""

from collections.abc import Mapping

import torch
from torch import Tensor

from domo.model.flat import FlatModel
from domo.model.layout import Layout, Section

PRIVATE = "private"
"""Name of it among what a silo keeps."""
OTHERS = frozenset({"residual", "control", PRIVATE, "personal"})
"""Names among what a silo keeps that are not of the state of its optimizer."""


def private_size(layout: Layout) -> int:
    """Entries of the vector."""
    return -(-layout.num_bytes(Section.PRIVATE) // 4)


def private_of(flat: FlatModel, kept: Mapping[str, Tensor]) -> Tensor:
    """The section that a round begins with, as bytes: as kept, else as the model was built."""
    if PRIVATE not in kept:
        return flat.first_private
    return kept[PRIVATE].view(torch.uint8)[: flat.first_private.numel()]


def kept_of(flat: FlatModel) -> dict[str, Tensor]:
    """What a silo keeps of it after a round; empty: the run has none."""
    if not len(flat.first_private):
        return {}
    now = flat.read(Section.PRIVATE)
    padded = torch.zeros(4 * private_size(flat.layout), dtype=torch.uint8)
    padded[: len(now)] = now
    return {PRIVATE: padded.view(torch.float32)}
