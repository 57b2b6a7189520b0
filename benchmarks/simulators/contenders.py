"""What takes turns: a function each, and what they are given."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.simulators.setting import (
    BATCH_SIZE,
    LOCAL_LR,
    MOMENTUM,
    NUM_SILOS,
    SEED,
    SERVER_MOMENTUM,
    SIMILARITY,
    WEIGHT_DECAY,
    Setting,
    Turn,
    stacked_shards,
)


def exact(setting: Setting, turn: Turn, processes: int = 1) -> None:
    """Rounds of the simulator, from the inside."""
    _ours(setting, turn, "exact", processes)


def batched(setting: Setting, turn: Turn) -> None:
    """The same with the layers of all silos in one call."""
    _ours(setting, turn, "batched")


def _ours(setting: Setting, turn: Turn, mode: Any, processes: int = 1) -> None:
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
        config,
        task,
        silos,
        on_round=lambda held, result: turn(steps),
        processes=processes,
        how=How(mode),
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

    torch.manual_seed(SEED)
    model = load_task(setting.task).build_model()
    shards = stacked_shards(setting)
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
    "processes": partial(exact, processes=2),
    "batched": batched,
    "indexed": indexed,
    "loader": loader,
}
"""Name -> a function that trains and calls `turn(steps)` after each round."""
WITH_CHILDREN = {"processes"}
"""Those that start processes, whose CPU-seconds are theirs."""
