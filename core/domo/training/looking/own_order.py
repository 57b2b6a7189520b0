"""Batches that a round will have: a task's own order of samples, and batches of one sample."""

import math
from collections.abc import Iterable
from itertools import islice
from typing import Any

from domo.ops.words import counted
from domo.outside.text import task_error
from domo.training.task_errors import kind_of, task_errors

PLAN = "batch_plan(round_index, num_steps)"
MUST_GIVE = "batch_plan(round_index, num_steps) must give lists of the indices of samples"


def look_at_plan(plan: Any, num_samples: int, num_steps: int) -> list[list[int]] | None:
    """See that the plan of the first round can be followed.

    Returns:
        Its batches; None is the seeded order.

    Raises:
        TaskError: It cannot; says why.
    """
    with task_errors("batch_plan(round_index, num_steps) fails"):
        given = plan(0, num_steps)
        if given is None:
            return None
        batches = list(islice(given, num_steps)) if isinstance(given, Iterable) else None
    if batches is None or not all(isinstance(b, Iterable) for b in batches):
        odd = [b for b in batches or [given] if batches is None or not isinstance(b, Iterable)]
        got = kind_of(odd[0])
        raise task_error(f"{MUST_GIVE}, and gives {got}")
    if len(batches) < num_steps:
        raise task_error(
            f"{PLAN} gives {counted(len(batches), 'batch', 'batches')}, and a round has "
            f"{counted(num_steps, 'step')}"
        )
    seen: list[list[int]] = []
    for batch in batches:
        indices = list(batch)
        if not indices:
            raise task_error(f"{PLAN} gives a batch without samples")
        with task_errors(MUST_GIVE):
            numbers = list(map(int, indices))
            wrong = [i for i in numbers if not -num_samples <= i < num_samples]
        if wrong:
            raise task_error(
                f"{PLAN} names sample {wrong[0]}, and there are {num_samples}: 0 to "
                f"{num_samples - 1}"
            )
        seen.append(numbers)
    return seen


def lone_batch(
    planned: list[list[int]] | None,
    num_samples: int,
    batch_size: int,
    num_steps: int,
    drop_last: bool,
) -> tuple[list[int], str, str] | None:
    """A batch of one sample that a round has beside larger ones; None: it has none.

    Args:
        planned: The task's own order; None is the seeded one.
        num_samples: Of the training data.
        batch_size: b.
        num_steps: The largest P.
        drop_last: Whether a short last batch is left out.

    Returns:
        Its indices, which it is, and what helps, as a text that ends before other layers.
    """
    if planned is not None:
        lone = next((batch for batch in planned if len(batch) == 1), None)
        help_ = "Let it give two or more, or take"
        return None if lone is None else (lone, "which batch_plan gives", help_)
    batches = math.ceil(num_samples / batch_size)
    if drop_last or num_samples % batch_size != 1 or num_steps < batches:
        return None
    help_ = (
        "Set drop_last = true in the run, which leaves it out, or a batch_size that leaves no "
        "single one, or take"
    )
    return [num_samples - 1], f"which is the last of {num_samples} samples by {batch_size}", help_
