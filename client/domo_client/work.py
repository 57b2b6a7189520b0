"""A run made ready at a silo: its task, its data, its model, and a first look at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from domo.errors import (
    ConfigError,
    DataError,
    TaskError,
)
from domo.meaning.code import task_code
from domo.meaning.compare import check_own
from domo.meaning.measure import of_task
from domo.meaning.value import Meaning
from domo.model.flat import FlatModel
from domo.model.layout import Layout
from domo.outside.text import public, saying
from domo.stages.now import in_stage
from domo.tasks import TASKS, is_named
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader
from domo.training.initial import build_model, task_of
from domo.training.looking.ready import load_tests, load_train, look, look_of
from domo.training.task_errors import task_errors
from domo_client.not_yet import see_folder
from domo_client.policy.policy import OPEN_POLICY, Policy
from domo_client.rpc.offer import Offer

CANNOT = "the model cannot be made ready here"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What a silo's operator decides.

    Attributes:
        data: Folder of the training data; None: not given.
        shard: (index, number of parts) of a public dataset, for demos.
        tasks: Tasks that may be trained; empty: the named ones that come with domo.
        device: Where to train.
        autocast: Lower precision inside the forward pass.
        num_workers: Loader processes.
        role: `trainer` or `evaluator`.
        cache: Where public datasets lie when no data folder is given.
    """

    data: Path | None
    shard: tuple[int, int] | None
    tasks: Sequence[str]
    device: torch.device
    autocast: torch.dtype | None
    num_workers: int
    role: str
    cache: Path


class Work(NamedTuple):
    """A run, made ready."""

    task: Task
    model: nn.Module
    train: BatchLoader | None
    evaluation: BatchLoader | None
    meaning: Meaning


class MissingDataError(ConfigError):
    """The run needs data, and none was given.

    Attributes:
        is_public: Whether the task has a public dataset, of which a part would do.
    """

    code = "no-data"
    is_public = False


class NotAllowedError(TaskError):
    """The run's task is not on this silo's list."""

    code = "task-not-allowed"


def prepare(offer: Offer, options: AgentOptions, policy: Policy = OPEN_POLICY) -> Work:
    """Load task, data and model of a run.

    Args:
        offer: The run.
        options: The operator's.
        policy: Of this silo; its tasks are those that may be trained.

    Raises:
        MissingDataError: The run needs data, and neither --data nor --shard is given.
        TaskError, ConfigError: The text says what is wrong.
    """
    listed = options.tasks or policy.tasks or ()
    allowed = listed or tuple(TASKS)
    name, config = offer.task, offer.config
    if name not in allowed and (listed or not is_named(name)):
        text = (
            f"the run trains {name!r}, which is not on this silo's list "
            f"({', '.join(allowed)}); allow it with --task {name}"
        )
        raise public(NotAllowedError(text))
    task = task_of(config)
    if options.data is None and options.shard is None:
        missing = MissingDataError(getattr(task, "data_hint", f"data of the task {name}"))
        missing.is_public = is_named(name) and getattr(task, "public", None) is not None
        raise saying(missing, f"no data was given to this silo ({missing})")
    shard = None
    if options.shard is not None:
        shard = Shard(*options.shard, similarity=config.similarity, seed=config.seed)
    root = options.data or options.cache
    if options.data is not None:
        see_folder(options.data)
    train = evaluation = None
    if options.role == "trainer":
        train = load_train(task, root, shard, options.num_workers)
        if not len(train):
            text = "there is nothing in it"
            raise saying(DataError(f"training data in {root}: {text}"), f"training data: {text}")
    tests = load_tests(task, root, shard, options.num_workers)
    evaluation = tests if tests is not None and len(tests) else None
    if options.role == "evaluator" and evaluation is None:
        text = "an evaluator needs test data, and there is none"
        raise saying(DataError(f"{text} in {root}"), text)
    loader = train if train is not None else evaluation
    assert loader is not None
    with task_errors("what the data mean cannot be found out"):
        meaning = of_task(task, root, shard, loader.dataset, loader.items)
    version = torch.__version__.partition("+")[0]
    meaning = meaning.model_copy(update={"code": task_code(task), "torch": version})
    check_own(meaning)
    model = build_model(task, config.seed)
    with in_stage("device"), task_errors(f"the model cannot be put on {options.device}"):
        model = model.to(options.device)
    return Work(task, model, train, evaluation, meaning)


def layout_of(offer: Offer) -> Layout:
    """The layout of a run's model, without a look at data.

    Raises:
        TaskError: The task has no such model.
    """
    model = build_model(task_of(offer.config), offer.config.seed)
    with task_errors(CANNOT):
        return FlatModel(model, offer.config.private).layout


def look_at(work: Work, offer: Offer, silo_id: str, options: AgentOptions) -> tuple[str, ...]:
    """Take a batch of each kind through the task, before the silo enrols.

    Returns:
        What is no fault, and may be no wish either.

    Raises:
        TaskError: What is wrong with the task, its model or its data.
    """
    with task_errors(CANNOT):
        flat = FlatModel(work.model, offer.config.private)
    samples = len(work.train) if work.train else 0
    how = look_of(offer.config, silo_id, samples, options.autocast)
    return look(work.task, flat, work.train, work.evaluation, how)
