"""A task's own order of samples: whether it gives a batch of its samples for each step."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from domo.errors import TaskError
from domo.ops.words import counted
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
        raise TaskError(f"{MUST_GIVE}, and gives {got}")
    if len(batches) < num_steps:
        raise TaskError(
            f"{PLAN} gives {counted(len(batches), 'batch', 'batches')}, and a round has "
            f"{counted(num_steps, 'step')}"
        )
    seen: list[list[int]] = []
    for batch in batches:
        indices = list(batch)
        if not indices:
            raise TaskError(f"{PLAN} gives a batch without samples")
        with task_errors(MUST_GIVE):
            numbers = list(map(int, indices))
            wrong = [i for i in numbers if not -num_samples <= i < num_samples]
        if wrong:
            raise TaskError(
                f"{PLAN} names sample {wrong[0]}, and there are {num_samples}: 0 to "
                f"{num_samples - 1}"
            )
        seen.append(numbers)
    return seen
