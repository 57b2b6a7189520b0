"""Exact or batched: what somebody asks for, or what is quicker on this machine, for this model.

Both are tried for a few steps before the first round. That also shows whether batching is right for
a model and a loss: where the updates differ by more than rounding, it is refused.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from domo.batched.how import How
from domo.batched.layers import why_not
from domo.batched.together import Together
from domo.errors import ConfigError, TaskError
from domo.model.flat import FlatModel
from domo.model.layout import BUFFERS
from domo.ops.words import duration
from domo.run_config import RunConfig
from domo.simulating.state import Held
from domo.simulating.visit import Broadcast, SimulatedSilo, visit
from domo.tasks.base import Task
from domo.training.round_data import Kept, LocalResult

FIRST_STEPS, TIMED_STEPS = 2, 8
"""Local steps that are tried: to compare updates, and to measure."""
QUICK_S = 2.0
"""Of a run below it, nobody asks what the other mode would take."""
SLOW_S = 1.0
"""A first try that takes longer is the measurement itself."""
MOST_APART = 1e-3
"""Largest difference of two updates, relative to their norm, that is rounding."""
TINY = 1e-12


class Pace(NamedTuple):
    """Seconds that one local step of one silo takes in either mode; None: not measured."""

    exact: float
    batched: float | None


class CannotBatch(Exception):
    """These silos cannot be batched; the exact loop takes them."""


def choose(
    how: How,
    config: RunConfig,
    task: Task,
    flat: FlatModel,
    silos: Sequence[SimulatedSilo],
    begin: Held,
    tell: Callable[[str], None],
) -> Together | None:
    """The silos batched, or None: the exact loop is to be taken.

    Args:
        how: What is asked for.
        config: The run.
        task: What is trained.
        flat: A model, on its device, with all frozen parameters in it.
        silos: All silos, in roster order.
        begin: Where the run begins.
        tell: Told in one line what is taken, and what the other would take.

    Raises:
        ConfigError: The silos cannot be batched, and `batched` was asked for; says why.
        DivergenceError: Non-finite numbers in these steps.
    """
    if begin.history and how.mode != "auto" and begin.mode != how.mode:
        raise ConfigError(f"the run began with mode {begin.mode}: go on with that, not {how.mode}")
    asked = how.mode if not begin.history else begin.mode
    if asked == "exact" and not how.measure:
        return None
    samples = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    rounds = [
        {s: config.steps_at(r, s, samples[s]) for s in config.participants_at(r, list(samples))}
        for r in range(len(begin.history), config.num_rounds)
    ]
    total = sum(sum(steps.values()) for steps in rounds)
    if not total:  # nothing is left to train
        return (
            Together(config, task, flat, silos, begin.state.buffers) if asked == "batched" else None
        )
    steps = next(steps for steps in rounds if steps)
    usual = Counter(steps.values()).most_common(1)[0][0]
    tried = [s for s in silos if steps.get(s.silo_id) == usual]
    state = begin.state
    scale = state.made_by.inference_scale if state.made_by else None
    r = len(begin.history)
    sent = Broadcast(r, state.x, state.x_prev, state.mbar, state.c, state.buffers, scale)
    least_s = QUICK_S / total if asked == "exact" else 0.0
    with torch.random.fork_rng([flat.vector.device] if flat.vector.is_cuda else []):
        try:
            together, pace = _try(
                config, task, flat, silos, sent, begin.kept, tried, how.dtype, least_s
            )
        except CannotBatch as error:
            if asked == "batched":
                raise ConfigError(str(error)) from error
            tell(f"silos one after another (exact): {error}")
            return None
    exact = _about(pace.exact * total)
    if together is None or pace.batched is None:
        tell(f"silos one after another (exact): about {exact} of local steps")
        return None
    batched = _about(pace.batched * total)
    if asked == "batched" or (asked == "auto" and pace.batched < pace.exact):
        tell(f"silos batched: about {batched} of local steps; one after another (exact) {exact}")
        return together
    tell(f"silos one after another (exact): about {exact} of local steps; batched {batched}")
    return None


def _about(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.1f} s"


def _try(
    config: RunConfig,
    task: Task,
    flat: FlatModel,
    silos: Sequence[SimulatedSilo],
    sent: Broadcast,
    kept: Mapping[str, Kept],
    tried: Sequence[SimulatedSilo],
    dtype: torch.dtype | None,
    least_s: float,
) -> tuple[Together | None, Pace]:
    """A few steps of some silos in both modes; only in the exact one where it takes less.

    Raises:
        CannotBatch: Batching is not right here; says why.
    """
    alone = replace(tried[0], evaluation=None)

    def one(num_steps: int) -> LocalResult:
        own = kept.get(alone.silo_id, {})
        result = visit(config, task, flat, alone, sent, num_steps, own).result
        assert result is not None
        return result

    most = config.steps_at(sent.round_index, alone.silo_id, len(alone.train or ()))
    on_cpu = flat.vector.device.type == "cpu" and config.threads == 1
    clock = time.process_time if on_cpu else time.perf_counter  # others compute on this machine
    expected, exact_s = _timed(one, most, clock)
    if exact_s < least_s:
        return None, Pace(exact_s, None)
    if (why := _why_not(config, task, flat, sent)) is not None:
        raise CannotBatch(f"silos cannot be batched: {why}")
    together = Together(config, task, flat, silos, sent.buffers)
    names = [s.silo_id for s in tried]

    def all_of_them(num_steps: int) -> LocalResult:
        return together.train(sent, dict.fromkeys(names, num_steps), kept)[names[0]]

    try:
        found = all_of_them(min(FIRST_STEPS, most))
    except TaskError as error:
        raise CannotBatch(f"silos cannot be batched: {error}") from error
    apart = float((found.update - expected.update).norm() / expected.update.norm().clamp_min(TINY))
    if not apart <= MOST_APART:
        raise CannotBatch(
            f"silos cannot be batched: their updates are others (by {apart:.2g} of their norm) "
            "than those of silos alone; a loss over a batch has to be a mean over its samples"
        )
    together.dtype = dtype
    batched_s = _timed(all_of_them, most, clock)[1] / len(names)
    return together, Pace(exact_s, batched_s)


def _why_not(config: RunConfig, task: Task, flat: FlatModel, sent: Broadcast) -> str | None:
    """Why silos cannot be batched, as far as it can be told by looking; after exact steps."""
    if (why := why_not(flat.module)) is not None:
        return why
    kernel = config.kernel
    if kernel.optimizer != "SGD":
        return f"local_optimizer is {kernel.optimizer}, and is SGD for batched silos"
    if kernel.round_end == "keep" or kernel.clip is not None or config.private:
        return "private tensors, local_state = keep and clip_norm are one silo's"
    if config.personal != "none":
        return "a personal model is one silo's"
    if config.update_dtype != "float32":
        return f"update_dtype is {config.update_dtype}, and is float32 for batched silos"
    if getattr(task, "on_gradients", None) is not None:
        return "the task has on_gradients, which takes the model of one silo"
    if any(not torch.equal(flat.read(s), sent.buffers[s]) for s in BUFFERS):
        return "training changes buffers of the model, which are one silo's"
    return None


def _timed(
    train: Callable[[int], LocalResult], most: int, clock: Callable[[], float]
) -> tuple[LocalResult, float]:
    """The result of the first steps, and how many seconds one takes; of `most` that there are."""
    num, more = min(FIRST_STEPS, most), min(TIMED_STEPS, most)
    began = clock()
    first = train(num)
    took = clock() - began
    if took > SLOW_S:
        return first, took / num
    began = clock()
    train(more)
    return first, (clock() - began) / more
