"""How long what is left takes, from what is done."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from domo.experiments.recipe import Cell
from domo.experiments.records import Record
from domo.run_config import RunConfig


def passes(config: RunConfig) -> float:
    """Passes over the data of all rounds, by which runs of one task are compared."""
    return config.num_rounds * (config.local_epochs or 1.0)


def rates(records: Iterable[Record]) -> dict[str, float]:
    """Seconds a pass over the data of a task takes, tests too, from runs that came to their end."""
    seconds, done = defaultdict[str, float](float), defaultdict[str, float](float)
    for record in records:
        if not record.failed:
            config = RunConfig.model_validate(record.config)
            seconds[config.task] += record.seconds
            done[config.task] += passes(config)
    return {task: seconds[task] / done[task] for task in seconds}


def time_left(todo: Sequence[Cell], known: Mapping[str, float], jobs: int = 1) -> float | None:
    """Seconds that runs take in so many processes; None: no run of one of their tasks is done."""
    tasks = {cell.config.task for cell in todo}
    if tasks - known.keys():
        return None
    return sum(known[cell.config.task] * passes(cell.config) for cell in todo) / jobs
