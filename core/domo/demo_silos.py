"""Silos that hold shards of a public dataset: what simulations and demos train on."""

from pathlib import Path

from domo.simulation import SimulatedSilo
from domo.tasks.base import Shard, Task
from domo.training import BatchLoader

PREFIX = "silo-"


def shard_silos(
    task: Task,
    root: Path,
    num_silos: int,
    similarity: float,
    seed: int,
    prefix: str = PREFIX,
) -> list[SimulatedSilo]:
    """Silos `silo-0`, `silo-1`, ...; silo i holds `Shard(i, num_silos, similarity, seed)`."""
    load_eval = getattr(task, "eval_data", None)
    silos = []
    for i in range(num_silos):
        shard = Shard(i, num_silos, similarity, seed)
        train = BatchLoader(task.train_data(root, shard))
        held_out = load_eval(root, shard) if load_eval else None
        evaluation = BatchLoader(held_out) if held_out is not None else None
        silos.append(SimulatedSilo(f"{prefix}{i}", train, evaluation))
    return silos
