"""Silos that hold shards of a public dataset: what simulations and demos train on."""

from collections.abc import Sequence
from pathlib import Path

from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader

PREFIX = "silo-"


def silo_names(config: RunConfig, prefix: str = PREFIX) -> tuple[str, ...]:
    """The run's roster, or `silo-0`, `silo-1`, ...; the i-th holds shard i."""
    return config.roster or tuple(f"{prefix}{i}" for i in range(config.expected_silos))


def shard_silos(
    task: Task, root: Path, names: Sequence[str], similarity: float, seed: int
) -> list[SimulatedSilo]:
    """Silos of these names; the i-th holds `Shard(i, len(names), similarity, seed)`."""
    load_eval = getattr(task, "eval_data", None)
    silos = []
    for i, name in enumerate(names):
        shard = Shard(i, len(names), similarity, seed)
        train = BatchLoader(task.train_data(root, shard))
        held_out = load_eval(root, shard) if load_eval else None
        evaluation = BatchLoader(held_out) if held_out is not None else None
        silos.append(SimulatedSilo(name, train, evaluation))
    return silos
