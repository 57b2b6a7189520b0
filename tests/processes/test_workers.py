"""Processes that load batches, and processes that compare: the numbers are those of one alone."""

import gc
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from domo.commands.compare import (
    Setting,
    compare,
)
from domo.errors import (
    DivergenceError,
)
from domo.methods import Hyperparameters, make_kernel
from domo.model.flat import FlatModel
from domo.outside.faults import outside
from domo.run_config import RunConfig
from domo.tasks.base import ArrayDataset
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.round_data import RoundNumbers
from domo.training.task_errors import LoadError, told

HALF = Hyperparameters(0.5, 0.5, 0.5, 1.0)
X = torch.arange(30.0).view(10, 3) / 10 - 1
Y = X.sum(1, keepdim=True) ** 2
DATA = TensorDataset(X, Y)


def round_of_four(
    round_index: int, module: nn.Module, on_step: Callable[[LocalRound, int], bool]
) -> LocalRound:
    """A round with four steps."""
    numbers = RoundNumbers(
        silo_id="a",
        round_index=round_index,
        num_rounds=5,
        num_steps=4,
        local_lr=0.05,
        batch_size=4,
        run_seed=7,
        kernel=make_kernel("DOMO", HALF),
        inference_scale=0.2,
    )
    flat = FlatModel(module)
    x_r = torch.linspace(-0.5, 0.5, flat.layout.num_params)
    return LocalRound(flat, numbers, x_r, x_r + 0.02, on_step=on_step)


def test_torchs_own_loader_reads_arrays_with_workers() -> None:
    batches = list(DataLoader(ArrayDataset(X, Y), batch_size=4, num_workers=2))
    assert torch.equal(torch.cat([inputs for inputs, _ in batches]), X)
    assert torch.equal(torch.cat([labels for _, labels in batches]), Y)


@pytest.mark.parametrize("kind", [ArrayDataset, TensorDataset])
def test_loader_workers_change_nothing(kind: Callable[[Tensor, Tensor], Dataset[Any]]) -> None:
    """Also where a round was abandoned with batches on their way, and the loader used again."""

    def all_batches(num_workers: int) -> Iterator[Tensor]:
        loader = BatchLoader(kind(X, Y), num_workers)
        for r, limit in ((0, 2), (1, 4)):
            rnd = round_of_four(r, nn.Linear(3, 1), lambda _, done, limit=limit: done < limit)
            opt = rnd.optimizer()
            for batch in rnd.batches(loader):
                assert len(batch) == 2
                yield from batch
                opt.step()
        yield from (b[0] for b in loader.sequential(4))

    alone, helped = list(all_batches(0)), list(all_batches(2))
    assert len(alone) == 2 * (2 + 4) + 3
    assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))


def test_worker_processes_end_with_their_loader() -> None:
    """At once, without the garbage collector, which would wait 5 s for each."""
    gc.disable()
    try:
        loader = BatchLoader(DATA, num_workers=1)
        list(loader.sequential(4))
        workers = loader._loader._iterator._workers
        assert workers[0].is_alive()
        del loader
        assert not workers[0].is_alive()
        assert workers[0].exitcode == 0
    finally:
        gc.enable()


def test_a_dead_worker_is_an_error_once_and_replaced() -> None:
    others, loader = multiprocessing.active_children(), BatchLoader(DATA, num_workers=1)
    stream = loader.load([[i] for i in range(10)])
    next(stream)
    iterator = loader._loader._iterator
    worker = iterator._workers[0]
    while iterator._worker_result_queue.empty():  # torch is quick to see that a batch is lost
        time.sleep(0.01)
    worker.kill()
    worker.join()
    with pytest.raises(LoadError, match="a loader process was killed, most likely as memory ran"):
        list(stream)
    assert len(list(loader.sequential(4))) == 3
    assert loader._loader._iterator._workers[0] is not worker
    del stream, loader, iterator
    assert set(multiprocessing.active_children()) <= set(others)


class Faulty(Dataset[Any]):
    """Fails in one way for each sample."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        if i == 1:
            raise KeyError("Anna-Smith")
        if i == 2:
            os._exit(3)
        return X[i]

    def stacked(self, indices: list[int]) -> tuple[Any, ...]:
        if indices == [3]:
            return X[3], lambda: None  # cannot travel
        return (torch.stack([self[i] for i in indices]),)


def test_what_fails_in_a_loader_process_is_said_as_here_and_waited_for_by_nobody() -> None:
    loader = BatchLoader(Faulty(), num_workers=1)

    def fault_of(i: int) -> tuple[str, str]:
        with pytest.raises(LoadError) as caught:
            list(loader.load([[i]]))
        return told(caught.value), outside(caught.value)

    here, there = fault_of(1)
    assert re.fullmatch(rf"KeyError: 'Anna-Smith', in {__file__}, line \d+ \(__getitem__\)", here)
    assert there.startswith("samples cannot be loaded: KeyError, in test_workers.py, line ")
    assert "Anna" not in there
    assert fault_of(2)[0] == "a loader process has ended with exit code 3"
    assert "pickle" in fault_of(3)[0]
    assert torch.equal(next(loader.load([[0]]))[0], X[:1])


CONFIG = RunConfig(task="digits", num_rounds=2, num_silos=3, lr_milestones=(0.5,))


@pytest.mark.slow
def test_processes_change_no_number(tmp_path: Path) -> None:
    setting, what = Setting(CONFIG, tmp_path), (("FedAvg", "DOMO"), (0, 1))
    assert compare(setting, *what, jobs=2) == compare(setting, *what)


@pytest.mark.slow
def test_a_fault_in_another_process_arrives_with_its_name(tmp_path: Path) -> None:
    wild = Setting(CONFIG.model_copy(update={"local_lr": 1e30}), tmp_path)
    with pytest.raises(DivergenceError, match=r"^FedAvg, seed 3: round 1, silo-0: "):
        compare(wild, ("FedAvg",), (3,), jobs=2)
