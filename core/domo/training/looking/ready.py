"""A task is made ready: what its methods give is looked at once, before the first round.

The agent, the doctor, the simulation and `try_task` all look here, so that what is wrong is said in
the same words wherever it is found first, and never in round 50.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.errors import ConfigError, TaskError
from domo.methods import Hyperparameters, make_kernel
from domo.metrics.numbers import notes_on
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.ops.words import counted
from domo.outside.faults import MORE_THAN_ONE, outside
from domo.outside.text import saying, task_error
from domo.run_config import RunConfig
from domo.seeds import generator_for, seed_for
from domo.stages.now import in_stage
from domo.tasks.base import Shard, Task
from domo.training.batches import EVAL_BATCH, BatchLoader, seed_torch, to_device
from domo.training.local_round import LocalRound
from domo.training.looking.own_order import lone_batch, look_at_plan
from domo.training.looking.reach import check_loss, parameters_of
from domo.training.round_data import RoundNumbers
from domo.training.task_errors import check_first, task_errors, text_of
from domo.training.task_round import autocast

TRAIN, TESTS = "train_data(root, shard)", "eval_data(root, shard)"
AUGMENT, LOSS = "augment(batch, generator)", "loss(model, batch)"
EVALUATE = "evaluate(model, batch)"
CURE = "give domo.Sum(total, num) for each metric, such as Sum(correct, len(labels))"


@dataclass(frozen=True, slots=True)
class Look:
    """How a task is looked at.

    Attributes:
        batch_size: b.
        num_steps: P of the first round.
        autocast: Lower precision inside the forward pass.
        evaluates: Whether models are tested at all.
        most_steps: The largest P of all rounds, where it is another one.
        drop_last: Whether a short last batch of a pass is left out.
    """

    batch_size: int
    num_steps: int = 1
    autocast: torch.dtype | None = None
    evaluates: bool = True
    most_steps: int = 0
    drop_last: bool = False


def look_of(
    config: RunConfig, silo_id: str, num_samples: int, autocast: torch.dtype | None = None
) -> Look:
    """How a silo's part of a run is looked at."""
    most = config.most_steps(silo_id, num_samples) if num_samples else 1
    try:
        steps = config.steps_at(0, silo_id, num_samples) if num_samples else 1
    except ConfigError:  # a silo that the list has in later rounds only
        steps = max(most, 1)
    tests = bool(config.evaluate_every)
    return Look(config.batch_size, steps, autocast, tests, most, config.drop_last)


def loader(what: str, dataset: Any, num_workers: int = 0) -> BatchLoader:
    """Loads from what `train_data` or `eval_data` gives; it may be empty.

    Raises:
        TaskError: It is no dataset.
    """
    with task_errors(f"the dataset of {what} cannot be read"):
        made = BatchLoader(dataset, num_workers)
        len(made)
    return made


def load_train(task: Task, root: Path, shard: Shard | None, num_workers: int = 0) -> BatchLoader:
    """The training data of a task.

    Raises:
        TaskError: They cannot be had, or are no dataset.
    """
    with in_stage("train-data"), task_errors(f"{TRAIN} fails"):
        dataset = task.train_data(root, shard)
    return loader("train_data", dataset, num_workers)


def load_tests(
    task: Task, root: Path, shard: Shard | None, num_workers: int = 0
) -> BatchLoader | None:
    """The test data of a task; None: it has none.

    Raises:
        TaskError: They cannot be had, or are no dataset.
    """
    with in_stage("test-data"), task_errors(f"{TESTS} fails"):
        load = getattr(task, "eval_data", None)
        dataset = load(root, shard) if load else None
    return None if dataset is None else loader("eval_data", dataset, num_workers)


def look(
    task: Task,
    flat: FlatModel,
    train: BatchLoader | None,
    tests: BatchLoader | None,
    how: Look,
) -> tuple[str, ...]:
    """Take a batch of each kind through the task, as a round does. No step is made.

    Args:
        task: Its `augment`, `loss` and `evaluate` are called.
        flat: Its model, on its device. Buffers are put back as they were.
        train: Training data.
        tests: Test data.
        how: As the run has it.

    Returns:
        What is no fault, and may be none of the author's wishes either.

    Raises:
        TaskError: What is wrong, with which method, and what to do.
    """
    device = flat.vector.device
    sections = (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER)
    before = {section: flat.read(section) for section in sections}
    frozen = flat.frozen_digests()
    notes: list[str] = []
    with in_stage("look"), torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            if tests is not None and len(tests) and how.evaluates:
                notes += _look_at_tests(task, flat, tests, how)
            if train is not None and len(train):
                notes += _look_at_training(task, flat, train, how)
            flat.check()
            flat.read(Section.FLOAT_BUFFER)
            changed = [name for name, d in flat.frozen_digests().items() if d != frozen[name]]
            if changed:
                raise task_error(
                    f"the frozen parameter {changed[0]} changes in training, and would not travel: "
                    "make what follows the model (a teacher, a mean of its weights) a buffer"
                )
        finally:
            for section, values in before.items():
                flat.load(section, values)
            for p in flat.params:
                p.grad = None
    return tuple(notes)


def _look_at_tests(task: Task, flat: FlatModel, tests: BatchLoader, how: Look) -> list[str]:
    num = min(how.batch_size, len(tests))
    batch = _batch("eval_data", tests, range(num))
    rnd = _round(flat, how)

    def evaluate(model: nn.Module, given: Any) -> Mapping[str, Any]:
        with task_errors(f"{EVALUATE} fails"):
            measured: Any = task.evaluate(model, given)
        check_first(measured, EVALUATE, CURE)
        return measured  # type: ignore[no-any-return]

    with task_errors(EVALUATE):
        rnd.evaluate(evaluate, [batch])
    n = len(tests)
    if n > EVAL_BATCH and n % EVAL_BATCH == 1:
        try:
            _round(flat, how).evaluate(evaluate, [_batch("eval_data", tests, [n - 1])])
        except TaskError as error:
            tail = (
                f", with a batch of one sample, which is the last of {n} test samples by "
                f"{EVAL_BATCH}: leave one out, or mend what needs two (GroupNorm of one channel a "
                "group does)"
            )
            here, there = (
                t.removesuffix(f". {MORE_THAN_ONE}") + tail for t in (str(error), outside(error))
            )
            raise saying(TaskError(here), there) from error
    return list(notes_on(rnd.evaluation, [float(num)]).values())


def _look_at_training(task: Task, flat: FlatModel, train: BatchLoader, how: Look) -> list[str]:
    model, n = flat.module, len(train)
    model.train()
    rnd = _round(flat, how)
    loss = _loss(task, rnd, train, range(min(how.batch_size, n)), how)
    with task_errors(f"{LOSS}.backward() fails"):
        loss.backward()  # type: ignore[no-untyped-call]
    named = flat.layout.section(Section.TRAINABLE)
    grads = {e.name: p.grad for e, p in zip(named, flat.params, strict=True)}
    idle = [name for name, grad in grads.items() if grad is None]
    if len(idle) == len(grads):
        flat.check()  # where forward has put others in their place, that is what is wrong
        raise task_error(f"{LOSS} reaches no parameter of the model: is it another model's loss?")
    on_gradients = getattr(task, "on_gradients", None)
    if on_gradients is not None:
        with task_errors("on_gradients(model) fails"):
            on_gradients(model)
    for name, grad in grads.items():
        if grad is not None and not torch.isfinite(grad.to_dense()).all():
            raise task_error(
                f"the gradient of {name} is not finite on the first batch: look for a logarithm, a "
                "root or a quotient at 0 in the loss"
            )
    plan, planned = getattr(task, "batch_plan", None), None
    if plan is not None:
        with in_stage("plan"):
            planned = look_at_plan(plan, n, how.num_steps)
    _look_at_a_lone_sample(task, rnd, train, how, planned)
    notes = [f"no gradient reaches {name}" for name in idle]
    if strangers := parameters_of(loss) - {id(p) for p in (*flat.params, *flat.own_params)}:
        notes.append(
            f"the loss reaches {counted(len(strangers), 'parameter')} that the model does not "
            "hold, which no step changes: layers in a list of Python's belong in nn.ModuleList, "
            "and what a loss learns belongs in build_model"
        )
    return notes


def _loss(task: Task, rnd: LocalRound, train: BatchLoader, indices: Any, how: Look) -> Tensor:
    """The loss of a batch, seen to be one number with a gradient."""
    batch, augment = _batch("train_data", train, indices), getattr(task, "augment", None)
    if augment is not None:
        with task_errors(f"{AUGMENT} fails"):
            batch = augment(batch, generator_for(0, "", 0, 0, "augment"))
    seed_torch(seed_for(0, "", 0, 0, "model"), rnd.device)
    with task_errors(f"{LOSS} fails"), autocast(rnd.device, how.autocast):
        loss: Any = task.loss(rnd.model, to_device(batch, rnd.device))
    check_loss(loss, LOSS)
    return loss  # type: ignore[no-any-return]


def _look_at_a_lone_sample(
    task: Task, rnd: LocalRound, train: BatchLoader, how: Look, planned: list[list[int]] | None
) -> None:
    """A batch of one sample after larger ones: BatchNorm refuses it, in each try of the round."""
    steps = max(how.num_steps, how.most_steps)
    found = lone_batch(planned, len(train), how.batch_size, steps, how.drop_last)
    if found is None:
        return
    lone, which, cure = found
    batch, augment = _batch("train_data", train, lone), getattr(task, "augment", None)
    cause: Exception | None = None
    try:
        if augment is not None:
            batch = augment(batch, generator_for(0, "", 0, 1, "augment"))
        with torch.no_grad(), autocast(rnd.device, how.autocast):
            loss: Any = task.loss(rnd.model, to_device(batch, rnd.device))
        why = "" if bool(torch.isfinite(loss).all()) else f"it is {float(loss)}"
    except Exception as error:
        cause, why = error, text_of(error).removesuffix(f". {MORE_THAN_ONE}")
    if why:
        text = f"{LOSS} fails with a batch of one sample, {which}"
        cure = f"{cure} GroupNorm in place of BatchNorm"
        raise saying(TaskError(f"{text}: {why}. {cure}"), f"{text}. {cure}") from cause


def _batch(what: str, data: BatchLoader, indices: Any) -> Any:
    with task_errors(f"samples of {what} cannot be put into a batch"):
        return next(data.load([indices]))


def _round(flat: FlatModel, how: Look) -> LocalRound:
    """A round in which nothing is trained."""
    kernel = make_kernel("FedAvg", Hyperparameters())
    return LocalRound(flat, RoundNumbers("", 0, 1, 1, 1.0, how.batch_size, 0, kernel), flat.vector)
