"""What takes turns: a function each, and what they are given."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELS = {"mlp": ("fashion-mnist", 40), "cnn": ("fashion-mnist-cnn", 10)}
"""Model -> named task, local steps P of a silo in a round."""
NUM_SILOS, SIMILARITY, BATCH_SIZE, SEED = 16, 0.05, 32, 0
LOCAL_LR, MOMENTUM, SERVER_MOMENTUM, WEIGHT_DECAY = 0.01, 0.6, 0.9, 5e-4


@dataclass(frozen=True)
class Setting:
    """What is trained: a named task, P, the folder of its data, and for how many rounds at most."""

    task: str
    num_steps: int
    data: Path
    num_rounds: int


class Turns:
    """Says what a round has cost, and waits until it is this contender's turn again.

    One line out after each round, `{"steps": ..., "wall_s": ..., "cpu_s": ...}`; the next round
    begins with a line in, and the end of the input is the end.
    """

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __call__(self, steps: int) -> None:
        """End a round of so many silo-steps, and wait."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        print(json.dumps({"steps": steps, "wall_s": wall, "cpu_s": cpu}), flush=True)
        if not sys.stdin.readline():
            sys.exit(0)
        self._wall, self._cpu = time.perf_counter(), time.process_time()


Turn = Callable[[int], None]


def exact(setting: Setting, turn: Turn) -> None:
    """Rounds of the simulator, from the inside."""
    _ours(setting, turn, "exact")


def batched(setting: Setting, turn: Turn) -> None:
    """The same with the layers of all silos in one call."""
    _ours(setting, turn, "batched")


def _ours(setting: Setting, turn: Turn, mode: Any) -> None:
    from domo import simulation
    from domo.batched.how import How
    from domo.run_config import RunConfig
    from domo.tasks import load_task
    from domo.trial import shard_silos, silo_names

    config = RunConfig(
        task=setting.task,
        method="DOMO",
        num_silos=NUM_SILOS,
        similarity=SIMILARITY,
        num_rounds=setting.num_rounds,
        local_steps=setting.num_steps,
        evaluate_every=setting.num_rounds,
        batch_size=BATCH_SIZE,
        local_lr=LOCAL_LR,
        local_momentum=MOMENTUM,
        server_momentum=SERVER_MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        seed=SEED,
    )
    task = load_task(setting.task)
    silos = shard_silos(task, setting.data, silo_names(config), SIMILARITY, SEED)
    steps = NUM_SILOS * setting.num_steps
    simulation.simulate(
        config, task, silos, on_round=lambda held, result: turn(steps), how=How(mode)
    )


def indexed(setting: Setting, turn: Turn) -> None:
    """Batches are rows of tensors in memory."""
    import torch

    def batches(inputs: Any, labels: Any) -> Iterator[Any]:
        while True:
            order = torch.randperm(len(labels))
            for i in range(0, len(labels), BATCH_SIZE):
                where = order[i : i + BATCH_SIZE]
                yield inputs[where], labels[where]

    _plain(setting, turn, batches)


def loader(setting: Setting, turn: Turn) -> None:
    """Batches come from torch's DataLoader."""
    from torch.utils.data import DataLoader, TensorDataset

    def batches(inputs: Any, labels: Any) -> Iterator[Any]:
        data = DataLoader(TensorDataset(inputs, labels), batch_size=BATCH_SIZE, shuffle=True)
        while True:
            yield from data

    _plain(setting, turn, batches)


def _plain(setting: Setting, turn: Turn, batches: Callable[[Any, Any], Iterator[Any]]) -> None:
    """Server momentum and local momentum in a loop, as one would write it down."""
    import torch
    from torch.nn import functional
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    from domo.tasks import load_task
    from domo.tasks.base import Shard

    torch.manual_seed(SEED)
    task = load_task(setting.task)
    model = task.build_model()
    shards = []
    for k in range(NUM_SILOS):
        data = task.train_data(setting.data, Shard(k, NUM_SILOS, SIMILARITY, SEED))
        shards.append(data.stacked(range(len(data))))  # standardised once and for all
    params = list(model.parameters())
    x = parameters_to_vector(params).detach().clone()
    m = torch.zeros_like(x)
    for _ in range(setting.num_rounds):
        mean = torch.zeros_like(x)
        for shard in shards:
            vector_to_parameters(x.clone(), params)
            opt = torch.optim.SGD(params, LOCAL_LR, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
            source = batches(*shard)
            for _ in range(setting.num_steps):
                inputs, labels = next(source)
                loss = functional.cross_entropy(model(inputs), labels)
                opt.zero_grad()
                loss.backward()
                opt.step()
            mean += (x - parameters_to_vector(params).detach()) / NUM_SILOS
        m = SERVER_MOMENTUM * m + mean
        x = x - m
        turn(NUM_SILOS * setting.num_steps)


CONTENDERS: dict[str, Callable[[Setting, Turn], None]] = {
    "exact": exact,
    "batched": batched,
    "indexed": indexed,
    "loader": loader,
}
"""Name -> a function that trains and calls `turn(steps)` after each round."""
