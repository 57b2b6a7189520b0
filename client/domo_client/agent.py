"""The agent behind `domo-client`: takes the runs that its tasks allow, and trains them.

It uses the loop API like anybody else. Long-lived: it waits for further runs until stopped.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
from domo.meaning.code import task_code
from domo.meaning.compare import check_own
from domo.meaning.measure import of_task
from domo.meaning.value import Meaning
from domo.model.flat import FlatModel
from domo.model.layout import Layout
from domo.outside.faults import outside
from domo.outside.text import public, saying
from domo.stages.now import in_stage
from domo.tasks import TASKS, is_named
from domo.tasks.base import Shard, Task
from domo.training.batches import BatchLoader
from domo.training.initial import build_model, task_of
from domo.training.local_round import LocalRound
from domo.training.looking.ready import load_tests, load_train, look, look_of
from domo.training.task_errors import may_pass, task_errors, told
from domo.training.task_round import run_task_round
from domo_client.leftovers import process_as_it_was
from domo_client.loop.outcome import Outcome
from domo_client.loop.silo import Silo
from domo_client.not_yet import NotYet, Pauses, see_folder
from domo_client.observe.messages import Ui
from domo_client.operator_signals import users_code
from domo_client.policy.policy import OPEN_POLICY, Policy
from domo_client.rpc.control import LostRunError, MissedRunError
from domo_client.rpc.offer import Offer, RefusedRunError

log = logging.getLogger(__name__)

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


def run_agent(
    silo: Silo,
    options: AgentOptions,
    ui: Ui,
    *,
    once: bool = False,
    after_run: Callable[[], object] = lambda: None,
) -> Outcome | None:
    """Take part in runs until interrupted.

    Args:
        silo: Joined.
        options: The operator's.
        ui: Told what happens.
        once: Return after the first run that this silo took part in, or declined, or that ended
            before this silo was ready for it. Data that are not there are a reason to decline.
        after_run: Called when nothing of a run, or of a look at one, is held any more.

    Returns:
        How the last run ended; None if it was declined.
    """
    pauses = Pauses()
    ui.waiting()
    while True:
        try:
            offer = silo.next_run(pauses.run_id if once else "")
        except RefusedRunError as error:
            ui.declined(error.run_id, str(error))
            if once:
                return None
            continue
        except MissedRunError as error:
            ui.lost(str(error))
            return None
        if once and pauses.run_id not in ("", offer.run_id):
            ui.lost(f"run {pauses.run_id} went on without this silo, which was not ready for it")
            return None
        began, outcome, is_lost = time.monotonic(), None, False
        if offer.run_id != pauses.run_id:
            ui.offered(offer)
        try:
            outcome = _serve(silo, offer, options, ui, once)
        except LostRunError as error:
            ui.lost(str(error))
            is_lost = True
        after_run()
        if isinstance(outcome, NotYet):
            again_s = pauses.after(offer.run_id, time.monotonic() - began)
            ui.not_ready(offer, outcome.here, again_s)
            if silo.not_yet(offer, outcome.elsewhere, outcome.code, again_s):
                continue
            ui.lost(str(MissedRunError(offer.run_id)))
            outcome = None
        if once and not is_lost:
            return outcome
        ui.waiting()


def _serve(
    silo: Silo, offer: Offer, options: AgentOptions, ui: Ui, once: bool
) -> Outcome | NotYet | None:
    """Take part in a run, or decline it; its model and data go with this call."""
    try:
        with process_as_it_was():
            return _take_part(silo, offer, options, ui)
    except LostRunError:
        raise
    except RefusedRunError as error:
        ui.declined(offer.run_id, str(error))  # the coordinator knows
    except MissingDataError as error:
        silo.decline(offer, outside(error), code_of(error))
        ui.needs_data(offer, str(error), error.is_public)
    except DomoError as error:
        if error.retryable:
            raise
        if may_pass(error) and not (once and isinstance(error, DataError)):
            return NotYet.of(error)
        silo.decline(offer, outside(error), code_of(error))
        ui.declined(offer.run_id, told(error))
    return None


@contextmanager
def _no_network() -> Iterator[None]:
    """What a task raises in the words of domo's network is the task's: it may pass, no more."""
    try:
        yield
    except DomoError as error:
        if not error.retryable:
            raise
        raise saying(TaskError(f"{CANNOT}: {error}"), f"{CANNOT}: {outside(error)}") from error


def _take_part(silo: Silo, offer: Offer, options: AgentOptions, ui: Ui) -> Outcome:
    with _no_network(), task_errors(CANNOT), users_code():
        silo.prepares(offer)
        policy = silo.policy.policy
        if policy.looks_at_model:  # before the data are opened
            silo.check_model(offer, layout_of(offer))
        work = prepare(offer, options, policy)
        samples = len(work.train) if work.train else 0
        tests = len(work.evaluation) if work.evaluation else 0
        for note in look_at(work, offer, silo.connection.session.silo_id, options):
            log.warning("%s: %s", offer.task, note)
    ui.prepared(offer, samples, tests)
    rounds = silo.rounds(
        work.model, samples=samples, eval_samples=tests, meaning=work.meaning, offer=offer
    )
    for rnd in rounds:
        _one_round(silo, work, rnd, options, ui)
    assert silo.outcome is not None
    ui.ended(silo.outcome)
    return silo.outcome


def _one_round(silo: Silo, work: Work, rnd: LocalRound, options: AgentOptions, ui: Ui) -> None:
    """A round; what its task raises is said, and the round comes again."""
    ui.round_begins(rnd)
    try:
        with users_code():
            data = (work.train, work.evaluation)
            result = run_task_round(work.task, rnd, *data, options.autocast)
        if result is None and rnd.num_steps and not rnd.abandoned:
            raise IncompleteRoundError("no training data for a round of training", 0, rnd.num_steps)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        silo.fail(error)
        ui.failed(rnd.round_index, error, silo.faults)
    else:
        ui.round_done(rnd)
