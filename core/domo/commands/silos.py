"""Simulated silos and their data: shards of a public dataset, or folders of their own."""

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


def load_silo(task: Task, name: str, root: Path, shard: Shard | None) -> SimulatedSilo:
    """A silo with its data; without a shard, all that lies in `root` is its own."""
    train = BatchLoader(task.train_data(root, shard))
    load_eval = getattr(task, "eval_data", None)
    held_out = load_eval(root, shard) if load_eval else None
    evaluation = BatchLoader(held_out) if held_out is not None and len(held_out) else None
    return SimulatedSilo(name, train, evaluation)


def shard_silos(
    task: Task, root: Path, names: Sequence[str], similarity: float, seed: int
) -> list[SimulatedSilo]:
    """Silos of these names; the i-th holds `Shard(i, len(names), similarity, seed)`."""
    return [
        load_silo(task, name, root, Shard(i, len(names), similarity, seed))
        for i, name in enumerate(names)
    ]
