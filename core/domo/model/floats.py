"""Float buffers after training: what has changed is finite, the rest has the bits it came with."""

import torch
from torch import Tensor

from domo.errors import DivergenceError
from domo.model.layout import Layout, Section


def trained_floats(layout: Layout, before: Tensor, now: Tensor) -> Tensor:
    """What a module's float buffers go back as.

    Args:
        layout: Of the model.
        before: As they came, float32.
        now: As the module holds them.

    Raises:
        DivergenceError: One that has changed is not finite; names its buffer.
    """
    as_it_was = now.view(torch.int32) == before.view(torch.int32)
    as_it_was |= now.isnan() & before.isnan()  # a GPU has NaN of its own
    bad = ~(as_it_was | now.isfinite())
    if bad.any():
        named = layout.split(Section.FLOAT_BUFFER, bad)
        names = [name for name, where in named.items() if where.any()]
        raise DivergenceError(
            f"local training diverged: {int(bad.sum())} entries of the buffer {names[0]} are "
            "not finite. Look for inputs that are not finite, or try a smaller local_lr",
            int(bad.sum()),
        )
    return torch.where(as_it_was, before, now)
