"""A silo that is played, for a test of one's own task.

def test_my_task():
    with domo_server.testing.coordinator(task=MyTask()) as coordinator:
        domo_client.testing.try_task(MyTask(), "data", coordinator.address)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from domo.errors import TaskError
from domo.meaning.measure import of_task
from domo.metrics.numbers import numbers_of
from domo.model.flat import FlatModel, digest_all
from domo.model.layout import Section
from domo.ops.console import complain
from domo.run_config import RunConfig
from domo.seeds import generator_for
from domo.simulating.visit import SimulatedSilo
from domo.simulation import simulate
from domo.stages.watch import watched
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader, torch_as_it_was
from domo.training.initial import build_model
from domo.training.looking.ready import Look, load_tests, load_train, look, look_of
from domo.training.task_errors import task_errors
from domo.training.task_round import run_task_round
from domo_client.loop.connect import connect

__all__ = ["Tried", "try_task"]

CPU = torch.device("cpu")
LOOK = RunConfig.model_fields["batch_size"].default
"""Samples of the batch that is looked at before the run: a batch of a run."""


@dataclass(frozen=True)
class Tried:
    """How a task did.

    Attributes:
        num_params: Parameters that are trained.
        num_samples: Of training.
        num_tests: Samples that x_r is tested on.
        losses: Mean training loss of each round.
        metrics: Of each model that was tested, from x_0 on.
        notes: What is no fault, and may be none of your wishes either.
    """

    num_params: int
    num_samples: int
    num_tests: int
    losses: tuple[float, ...]
    metrics: tuple[Mapping[str, float], ...]
    notes: tuple[str, ...]


@torch_as_it_was()
def try_task(
    task: Task,
    data: Path | str,
    address: str,
    *,
    silo: str = "tried",
    shard: Shard | None = None,
) -> Tried:
    """Take a task through its methods one by one, and then through the next run of a coordinator.

    The run is a real one: enrolment, rounds, tests, over gRPC. Afterwards it is done again without
    a network; both must have come to the same bytes, so what is random without a seed is found.

    Args:
        task: An object, whose methods are called here.
        data: The silo's data: `root` of `train_data` and `eval_data`.
        address: Of a coordinator with a run of this task for one silo, such as
            `domo_server.testing.coordinator(task=...)` has.
        silo: The silo's name.
        shard: `shard` of `train_data` and `eval_data`.

    Returns:
        Numbers for assertions of one's own.

    Raises:
        TaskError: What is wrong, and with which method.
        CoordinatorUnavailableError: Nobody answers.
    """
    with watched(complain):
        train, tests, notes = _look(task, Path(data), shard)
    losses: list[float] = []
    metrics: list[Mapping[str, float]] = []
    held: dict[int, str] = {}
    with (
        TemporaryDirectory() as state,
        connect(address, silo, state_dir=Path(state), policy="open") as joined,
    ):
        offer = joined.next_run()
        model = build_model(task, offer.config.seed)
        notes += look(
            task,
            FlatModel(model, offer.config.private),
            train,
            tests,
            look_of(offer.config, silo, len(train)),
        )
        sizes = {"samples": len(train), "eval_samples": len(tests) if tests else 0}
        meaning = of_task(task, Path(data), shard, train.dataset, train.items)
        for rnd in joined.rounds(model, offer=offer, meaning=meaning, **sizes):
            held[rnd.round_index] = _bytes_of(rnd.flat)
            with task_errors(f"round {rnd.round_index + 1} fails"):
                result = run_task_round(task, rnd, train, tests)
            losses += [result.metrics["loss"]] if result is not None else []
            if rnd.evaluation:
                metrics.append(numbers_of([rnd.evaluation]))
        outcome = joined.outcome
    assert outcome is not None
    if outcome.state != "FINISHED":
        raise TaskError(f"the run has not finished: {outcome.state.lower()}: {outcome.text}")
    if offer.config.expected_silos == 1:
        _compare(task, offer.config, SimulatedSilo(silo, train, tests), held)
    size = FlatModel(model).layout.num_params
    return Tried(size, len(train), sizes["eval_samples"], tuple(losses), tuple(metrics), notes)


def _look(
    task: Task, root: Path, shard: Shard | None
) -> tuple[BatchLoader, BatchLoader | None, tuple[str, ...]]:
    """Call each method as a round does, on one batch."""
    models = [build_model(task, 0) for _ in range(2)]
    flat, again = (FlatModel(model) for model in models)
    if _bytes_of(flat) != _bytes_of(again):
        raise TaskError(
            "build_model() gives other weights each time, though torch is seeded before it: draw "
            "from torch's global generator and from no other"
        )
    train = _seen("train_data", load_train(task, root, shard))
    tests = load_tests(task, root, shard)
    tests = None if tests is None else _seen("eval_data", tests)
    _see_augmented(task, train)
    notes = look(task, flat, train, tests, Look(LOOK))
    if tests is None:
        notes = (*notes, "there is no test data: the run has no accuracy from this silo")
    return train, tests, notes


def _seen(what: str, loader: BatchLoader) -> BatchLoader:
    """A dataset that has items, which are the same each time."""
    with task_errors(f"samples of {what} cannot be put into a batch"):
        if not len(loader):
            raise TaskError(f"the dataset of {what} is empty")
        first, again = (_first_batch(loader) for _ in range(2))
        if not _same(first, again):
            raise TaskError(
                f"the dataset of {what} gives other items each time: what is random belongs into "
                "augment(batch, generator)"
            )
    return loader


def _first_batch(loader: BatchLoader) -> Any:
    return next(loader.load([range(min(LOOK, len(loader)))]))


def _see_augmented(task: Task, train: BatchLoader) -> None:
    """See that a batch is augmented in the same way each time."""
    augment, what = getattr(task, "augment", None), "augment(batch, generator)"
    if augment is None:
        return
    with task_errors(f"{what} fails"):
        first, again = (
            augment(_first_batch(train), generator_for(0, "", 0, 0, "augment")) for _ in range(2)
        )
        if not _same(first, again):
            raise TaskError(f"{what} gives another batch each time: draw from `generator` alone")


def _compare(task: Task, config: RunConfig, silo: SimulatedSilo, held: Mapping[int, str]) -> None:
    """Do the run again in this process, up to the last model that the silo had."""
    last = max(held)
    result = simulate(config, task, [silo], participants=[(silo.silo_id,)] * last)
    if _digest(result.vectors) != held[last]:
        raise TaskError(
            f"the same run, done again, comes to another model after {last} rounds: something in "
            "the task is random without a seed, or remembers what it was called with"
        )


def _bytes_of(flat: FlatModel) -> str:
    return _digest(flat.read_all())


def _digest(vectors: Mapping[Section, Tensor]) -> str:
    return digest_all({section.value: vector for section, vector in vectors.items()})


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)
