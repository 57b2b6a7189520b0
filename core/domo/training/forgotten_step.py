"""Batches without a step: whether the step was forgotten, or was another optimizer's."""

from collections.abc import Sequence

from torch import Tensor


def num_changes(params: Sequence[Tensor]) -> int:
    """How often parameters were changed in place, as torch counts it."""
    return sum(p._version for p in params)


def no_step(params: Sequence[Tensor], changes_before: int, num_batches: int) -> str:
    """Why no step was counted.

    Args:
        params: What is trained.
        changes_before: `num_changes` after the last step that was counted.
        num_batches: Batches since then.
    """
    if num_changes(params) == changes_before:
        return f"opt.step() was not called for {num_batches} batches; opt: rnd.optimizer()"
    return (
        f"the optimizer of rnd.optimizer() made no step in {num_batches} batches, and another one "
        "changed the weights. Its steps are not those of the run's method: use the former and no "
        "other"
    )
