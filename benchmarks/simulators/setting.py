"""What all contenders train."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

NUM_SILOS, SIMILARITY, BATCH_SIZE, SEED = 16, 0.05, 32, 0
LOCAL_LR, MOMENTUM, SERVER_MOMENTUM, WEIGHT_DECAY = 0.01, 0.6, 0.9, 5e-4


class Trained(NamedTuple):
    """A model: named task, local steps P of a silo in a round, function of models.py and values."""

    task: str
    num_steps: int
    model: tuple[Any, ...]


MODELS = {
    "mlp": Trained("fashion-mnist", 40, ("mlp",)),
    "cnn8": Trained("digits", 21, ("small_cnn",)),
    "cnn": Trained("fashion-mnist-cnn", 10, ("small_cnn", 1, 28)),
    "resnet20": Trained("benchmarks.simulators.resnet20:task", 2, ("resnet20",)),
}
"""By what a row is called."""


@dataclass(frozen=True)
class Setting:
    """What is trained, the folder of its data, for how many rounds at most, and a folder to use."""

    task: str
    num_steps: int
    model: tuple[Any, ...]
    data: Path
    num_rounds: int
    folder: Path


Turn = Callable[[int], None]


def stacked_shards(setting: Setting) -> "list[tuple[Tensor, Tensor]]":
    """Inputs and labels of each silo in memory, standardised once and for all."""
    from domo.tasks import load_task
    from domo.tasks.base import Shard

    task = load_task(setting.task)
    shards = []
    for k in range(NUM_SILOS):
        data = task.train_data(setting.data, Shard(k, NUM_SILOS, SIMILARITY, SEED))
        shards.append(data.stacked(range(len(data))))
    return shards
