"""One silo's part in one round of a simulation, in whichever process it is computed."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from domo.errors import DivergenceError
from domo.meaning.value import NOTHING, Meaning
from domo.metrics.numbers import only_shares
from domo.metrics.table import Measured, counts, is_finite
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.run_config import RunConfig
from domo.tasks.base import Task
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.round_data import RESIDUAL, Kept, LocalResult, round_numbers
from domo.training.task_errors import task_errors
from domo.training.task_round import run_task_round
from domo.update_format import encode_result

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SimulatedSilo:
    """One silo and its data; without training data it only evaluates, and is not on the roster."""

    silo_id: str
    train: BatchLoader | None
    evaluation: BatchLoader | None = None
    meaning: Meaning = NOTHING


class Broadcast(NamedTuple):
    """What all silos are sent in a round.

    Attributes:
        round_index: r; R where x_R is only tested.
        x: x_r, shape (n,).
        x_prev: x_{r-1}, shape (n,); None in round 0.
        mbar: mbar_r, shape (n,); average rows only.
        c: c_r, shape (n,), where it travels; None in round 0.
        buffers: Float and integer buffers.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
    """

    round_index: int
    x: Tensor
    x_prev: Tensor | None
    mbar: Tensor | None
    c: Tensor | None
    buffers: Mapping[Section, Tensor]
    inference_scale: float | None


class Visited(NamedTuple):
    """What a silo gives in a round.

    Attributes:
        silo_id: Whose it is.
        result: The update as it travels; None: it has only tested.
        kept: What the silo keeps of it once the update is committed.
        measured: What it has measured of x_r.
        not_finite: The metrics that are left out, as they are not finite.
    """

    silo_id: str
    result: LocalResult | None
    kept: Kept
    measured: Measured
    not_finite: tuple[str, ...]


def asked(
    config: RunConfig, silos: Iterable[SimulatedSilo], r: int, steps: Mapping[str, int]
) -> list[SimulatedSilo]:
    """The silos that have something to do in round r, in roster order."""
    tests = config.evaluates_at(r)
    return [s for s in silos if s.silo_id in steps or (tests and s.evaluation is not None)]


def visit(
    config: RunConfig,
    task: Task,
    flat: FlatModel,
    silo: SimulatedSilo,
    sent: Broadcast,
    num_steps: int,
    kept: Kept,
) -> Visited:
    """One round at one silo: the test of x_r, and P_k steps.

    Args:
        config: The run.
        task: What is trained.
        flat: A model; all that is in it is overwritten.
        silo: The silo.
        sent: The round.
        num_steps: P_k; 0 where it only tests.
        kept: What the silo has kept of its last round.

    Raises:
        TaskError: The task fails; names the round and the silo.
        DivergenceError: Non-finite numbers; names the round and the silo.
    """
    r = sent.round_index
    eta = config.lr_at(min(r, config.num_rounds - 1))
    numbers = round_numbers(config, silo.silo_id, r, num_steps, eta, sent.inference_scale)
    own = {name: vector for name, vector in kept.items() if name != RESIDUAL}
    x, given = sent.x, (sent.x_prev, sent.mbar, sent.buffers)
    rnd = LocalRound(flat, numbers, x, *given, c_r=sent.c, kept=own)
    evaluation = silo.evaluation if config.evaluates_at(r) else None
    where, following = f"round {r + 1}, {silo.silo_id}", dict[str, Tensor]()
    try:
        with task_errors(where):
            result = run_task_round(task, rnd, silo.train, evaluation)
        if result is not None:
            following = encode_result(result, kept.get(RESIDUAL), config.update_dtype)
    except DivergenceError as error:
        raise DivergenceError(f"{where}: {error}", error.count) from error
    return Visited(silo.silo_id, result, following, *told_of(rnd.evaluation))


def told_of(measured: Measured) -> tuple[Measured, tuple[str, ...]]:
    """What of a test tells anything, and which metrics are not finite."""
    told = {k: one for k, one in only_shares(measured)[0].items() if counts(one)}
    others = measured.keys() - told.keys()
    return told, tuple(name for name in others if not is_finite(measured[name]))


def gather(
    visits: Iterable[Visited], r: int
) -> tuple[dict[str, LocalResult], dict[str, Kept], dict[str, Measured]]:
    """What all silos give in a round.

    Returns:
        Updates as they travel, what silos keep once they are committed, and what each
        silo has measured.
    """
    back: dict[str, LocalResult] = {}
    kept: dict[str, Kept] = {}
    measured: dict[str, Measured] = {}
    for one in visits:
        if one.result is not None:
            back[one.silo_id], kept[one.silo_id] = one.result, one.kept
        for name in one.not_finite:
            log.warning("metric %r of x_%d is not finite at %s", name, r, one.silo_id)
        if one.measured:
            measured[one.silo_id] = one.measured
    return back, kept, measured


class Here:
    """Silos in this process, one after another, with one model for all.

    Args:
        config: The run.
        task: What is trained.
        flat: The model, on its device.
    """

    def __init__(self, config: RunConfig, task: Task, flat: FlatModel):
        self._config, self._task, self._flat = config, task, flat

    def visit(
        self,
        sent: Broadcast,
        silos: Sequence[SimulatedSilo],
        steps: Mapping[str, int],
        kept: Mapping[str, Kept],
    ) -> Iterator[Visited]:
        """A round at some silos, in the order given.

        Raises:
            DomoError: Of the first silo that fails.
        """
        for silo in silos:
            num, own = steps.get(silo.silo_id, 0), kept.get(silo.silo_id, {})
            yield visit(self._config, self._task, self._flat, silo, sent, num, own)
