"""The agent behind `domo-client`: takes the runs that its tasks allow, and trains them.

It uses the loop API like anybody else. Long-lived: it waits for further runs until stopped.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from domo.errors import (
    ConfigError,
    DataError,
    DomoError,
    IncompleteRoundError,
    TaskError,
    code_of,
)
from domo.tasks import TASKS, is_named, load_task
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader
from domo.training.initial import build_model
from domo.training.local_round import LocalRound
from domo.training.task_round import run_task_round
from domo_client.loop.rounds import Outcome
from domo_client.loop.silo import Silo
from domo_client.observe.messages import Ui
from domo_client.rpc.control import LostRunError, Offer, UnknownRunError

log = logging.getLogger(__name__)


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


class MissingDataError(ConfigError):
    """The run needs data, and none was given."""

    code = "no-data"


class NotAllowedError(TaskError):
    """The run's task is not on this silo's list."""

    code = "task-not-allowed"


def parse_device(text: str) -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:1`.

    Raises:
        ConfigError: No such device here.
    """
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"--device {text}: not usable here ({first}); try auto or cpu") from None
    return device


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """`i/K`, 0 <= i < K.

    Raises:
        ConfigError: Not of that form.
    """
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ConfigError(f"--shard must be i/K with 0 <= i < K, such as 0/4; got {text!r}")
    return int(index), int(count)


def prepare(offer: Offer, options: AgentOptions) -> Work:
    """Load task, data and model of a run.

    Raises:
        MissingDataError: The run needs data, and neither --data nor --shard is given.
        TaskError, ConfigError: The text says what is wrong.
    """
    allowed = options.tasks or tuple(TASKS)
    if offer.task not in allowed and (options.tasks or not is_named(offer.task)):
        raise NotAllowedError(
            f"the run trains {offer.task!r}, which is not on this silo's list "
            f"({', '.join(allowed)}); allow it with --task {offer.task}"
        )
    task = load_task(offer.task)
    config = offer.config
    if options.data is None and options.shard is None:
        raise MissingDataError(getattr(task, "data_hint", f"data of the task {offer.task}"))
    shard = None
    if options.shard is not None:
        shard = Shard(*options.shard, similarity=config.similarity, seed=config.seed)
    root = options.data or options.cache
    train = None
    if options.role == "trainer":
        data = _user_code(offer, "train_data", task.train_data, root, shard)
        train = _loader(data, options, f"training data in {root}")
    eval_data = getattr(task, "eval_data", None)
    held_out = _user_code(offer, "eval_data", eval_data, root, shard) if eval_data else None
    evaluation = None
    if held_out is not None and len(held_out):
        evaluation = _loader(held_out, options, "test data")
    if options.role == "evaluator" and evaluation is None:
        raise DataError(f"an evaluator needs test data, and there is none in {root}")
    model = _user_code(offer, "build_model", build_model, task, config.seed).to(options.device)
    return Work(task, model, train, evaluation)


def _user_code(offer: Offer, what: str, call: Callable[..., Any], *args: Any) -> Any:
    """Call a method of a task; what it raises is this silo's reason to decline, not a crash."""
    try:
        return call(*args)
    except DomoError:
        raise
    except Exception as error:
        log.debug("%s of the task %s failed", what, offer.task, exc_info=True)
        raise TaskError(
            f"{what} of the task {offer.task} failed: {type(error).__name__}: {error}"
        ) from error


def _loader(dataset: Any, options: AgentOptions, what: str) -> BatchLoader:
    if not len(dataset):
        raise DataError(f"{what}: there is nothing in it")
    return BatchLoader(dataset, options.num_workers)


def run_agent(silo: Silo, options: AgentOptions, ui: Ui, *, once: bool = False) -> Outcome | None:
    """Take part in runs until interrupted.

    Args:
        silo: Joined.
        options: The operator's.
        ui: Told what happens.
        once: Return after the first run that this silo took part in, or declined.

    Returns:
        How the last run ended; None if it was declined.
    """
    ui.waiting()
    while True:
        try:
            offer = silo.next_run()
        except UnknownRunError as error:
            ui.declined(error.run_id, str(error))
            if once:
                return None
            continue
        try:
            ui.offered(offer)
            work = prepare(offer, options)
            samples = len(work.train) if work.train else 0
            tests = len(work.evaluation) if work.evaluation else 0
            ui.prepared(offer, samples, tests)
            outcome = _take_part(silo, offer, work, samples, tests, options, ui)
            ui.ended(outcome)
        except LostRunError as error:
            ui.lost(str(error))
            ui.waiting()
            continue
        except MissingDataError as error:
            silo.decline(offer, f"no data was given to this silo ({error})", code_of(error))
            ui.needs_data(offer, str(error))
            outcome = None
        except DomoError as error:
            if error.retryable:
                raise
            silo.decline(offer, str(error), code_of(error))
            ui.declined(offer.run_id, str(error))
            outcome = None
        if once:
            return outcome
        ui.waiting()


def _take_part(
    silo: Silo,
    offer: Offer,
    work: Work,
    samples: int,
    tests: int,
    options: AgentOptions,
    ui: Ui,
) -> Outcome:
    rounds = silo.rounds(work.model, samples=samples, eval_samples=tests, offer=offer)
    for rnd in rounds:
        ui.round_begins(rnd)
        try:
            _one_round(work, rnd, options)
        except KeyboardInterrupt:
            raise
        except Exception as error:
            silo.fail(error)
            ui.failed(rnd, error)
        else:
            ui.round_done(rnd)
    assert silo.outcome is not None
    return silo.outcome


def _one_round(work: Work, rnd: LocalRound, options: AgentOptions) -> None:
    result = run_task_round(work.task, rnd, work.train, work.evaluation, options.autocast)
    if result is None and rnd.num_steps and not rnd.abandoned:
        raise IncompleteRoundError("no training data for a round of training", 0, rnd.num_steps)
