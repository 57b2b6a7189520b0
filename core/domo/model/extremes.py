"""Updates that no training gives: finite, and beyond what a model can take.

A check that needs no majority. An update is measured by the model that it belongs to and, once the
others of its round are there, by those and by the rounds before. The bounds are generous: training
that falls apart stays below the first kind, and all silos that fall apart together stay below the
second. What is above costs its silo the round, whatever `norm_check` says.

Pure functions of what a coordinator has recorded: they say the same after a restart.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from domo.errors import DivergenceError
from domo.fold import ReadBlock, blocks, dot
from domo.model.layout import Entry, Layout, Section

MOST_VALUE = 1e30
"""Of a norm, or of a buffer: what is summed from such values is finite in float32, with room."""
MOST_MOVED = 1e9
"""Times |x_r| + sqrt(n), as if every entry were 1: one update does not move a model so far."""
FAR = 1e3
"""Times the norms of the others, where the update also moves the model by `FAR_MOVED`."""
FAR_MOVED = 10.0
"""Times |x_r|, or, of a model of smaller entries, as if every entry were `SMALL`."""
SMALL = 0.1
"""Some models begin at 0, and go far at once. Without it, of two silos one that sends next to
nothing would make the other look far from it."""
FAR_STEPS = 1e3
"""Times the others' local steps, where the round also moves the model by `FAR_MOVED`."""
FAR_BUFFER = 1e12
"""Times what the model and the others have in the same buffer, and times 1."""
PASSES = 1000
"""Forward passes in a local step, which a BatchNorm layer counts; more than any loop makes."""
COUNT = "num_batches_tracked"
"""How torch names what its normalising layers count."""
NEVER_BELOW_0 = ("running_var", COUNT)


@dataclass(frozen=True, slots=True)
class Size:
    """How large an update is.

    Attributes:
        update: |d_k|.
        momentum: |m_{k,P}|; 0 where the method does not average it.
        buffers: Of each buffer that is not as it was, the largest absolute value, by name.
        before: Of the same buffers, that of the model before.
    """

    update: float
    momentum: float
    buffers: Mapping[str, float]
    before: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Step:
    """What an update does to the model, by its norm.

    Attributes:
        update: How far d_k of norm 1 moves the model: alpha*h*P.
        momentum: The same of m_{k,P}, as local steps begin with it: h/(1 - mu_l).
        num_params: n.
        model_norm: Gives |x_r|; called where it is needed.
    """

    update: float
    momentum: float
    num_params: int
    model_norm: Callable[[], float]

    @property
    def bound(self) -> float:
        """|x_r|, or that of a model of small entries."""
        return max(self.model_norm(), SMALL * math.sqrt(self.num_params))


def norm_of(read: ReadBlock, n: int) -> float:
    """The norm of a vector of n entries, read block by block."""
    parts = (read(*block).numpy() for block in blocks(n))
    return math.sqrt(sum(dot(part, part) for part in parts))


def measure(
    layout: Layout,
    norms: tuple[float, float],
    floats: tuple[ReadBlock, ReadBlock],
    integers: tuple[Tensor, Tensor],
    num_steps: int,
) -> Size:
    """How large an update is.

    Args:
        layout: Of the model.
        norms: |d_k| and |m_{k,P}|.
        floats: Float buffers, those of the update and of the model before.
        integers: Integer buffers as bytes (uint8), likewise.
        num_steps: P_k.

    Raises:
        DivergenceError: A buffer has what no training gives.
    """
    largest: dict[str, float] = {}
    before: dict[str, float] = {}
    for entry, values, was in (*_floats(layout, *floats), *_integers(layout, *integers)):
        largest[entry.name], before[entry.name] = values.most, was
        if (why := _why_bad(entry, values, was, num_steps)) is not None:
            raise DivergenceError(f"its buffer {entry.name} {why}")
    return Size(*norms, largest, before)


def _why_bad(entry: Entry, values: "_Range", was: float, num_steps: int) -> str | None:
    """What a buffer has that no training gives, in words; None: nothing."""
    kind = entry.name.rpartition(".")[2]
    if kind in NEVER_BELOW_0 and values.least < 0:
        return f"has {values.least:.4g}, and is never below 0"
    most = was + PASSES * (num_steps + 1)
    if kind == COUNT and values.most > most:
        return f"has {values.most:.4g} after {num_steps} local steps, and cannot be above {most:g}"
    if entry.section is Section.FLOAT_BUFFER and values.most > MOST_VALUE:
        return f"reaches {values.most:.3g}, which no training gives"
    return None


def check_alone(size: Size, step: Step) -> None:
    """Measure an update by the model alone.

    Raises:
        DivergenceError: No training gives that.
    """
    parts = (("update", size.update, step.update), ("momentum", size.momentum, step.momentum))
    floor = math.sqrt(step.num_params)
    for what, norm, per_norm in parts:
        if norm > MOST_VALUE:
            raise DivergenceError(
                f"the norm of its {what}, {norm:.3g}, is more than training gives"
            )
        moved = norm * per_norm
        if moved > MOST_MOVED * floor and moved > MOST_MOVED * (step.model_norm() + floor):
            raise DivergenceError(
                f"its {what}, of norm {norm:.3g}, would move the model by {moved:.3g}, and the "
                f"model's own norm is {step.model_norm():.3g}: no training gives that"
            )


def far_from_others(
    sizes: Mapping[str, Size], steps: Mapping[str, Step], past: float | None
) -> dict[str, str]:
    """Silos whose update is beyond what the others of the round and those before it can explain.

    With two silos too: of two that are so far apart the larger one is not training.

    Args:
        sizes: By silo.
        steps: By silo.
        past: `low_median` of the norms of the rounds before; None: there are none.

    Returns:
        Why, in words, by silo.
    """
    found = {}
    for silo_id, size in sizes.items():
        others = [other for name, other in sizes.items() if name != silo_id]
        why = _why_far(size, others, steps[silo_id], past)
        if why is not None:
            found[silo_id] = why
    return found


def _why_far(size: Size, others: Sequence[Size], step: Step, past: float | None) -> str | None:
    updates = low_median([other.update for other in others])
    usual = max((known for known in (updates, past) if known is not None), default=None)
    momenta = low_median([other.momentum for other in others])
    usual_m = max((known for known in (momenta, usual) if known is not None), default=None)
    for what, norm, per_norm, known in (
        ("update", size.update, step.update, usual),
        ("momentum", size.momentum, step.momentum, usual_m),
    ):
        if known is None or norm <= FAR * known:
            continue
        if (moved := norm * per_norm) > FAR_MOVED * step.bound:
            return (
                f"the norm of its {what}, {norm:.3g}, is {norm / known:.3g} times that of the "
                f"others, and would move the model by {moved:.3g}, whose own norm is "
                f"{step.model_norm():.3g}: no training gives that"
            )
    for name, most in size.buffers.items() if others or past is not None else ():
        known = low_median([other.buffers.get(name, 0.0) for other in others]) or 0.0
        if most > FAR_BUFFER * max(1.0, known, size.before[name]):
            return (
                f"its buffer {name} reaches {most:.3g}, where the model has "
                f"{size.before[name]:.3g} and others {known:.3g}: no training gives that"
            )
    return None


def far_steps(
    steps: Mapping[str, int],
    there: Collection[str],
    norm: float = math.inf,
    step: Step | None = None,
) -> dict[str, str]:
    """Silos with so many local steps that they alone make a round go too far.

    Where steps follow from samples, a silo that says it has more of them makes all updates count
    for more (P_ref). Its own may be nothing.

    Args:
        steps: P of all silos of the run.
        there: Those of the round.
        norm: At most of the mean update with the server momentum.
        step: Of P_ref; None: however far the round goes.

    Returns:
        Why, in words, by silo.
    """
    found = {}
    for silo_id in there:
        usual = low_median([num for name, num in steps.items() if name != silo_id])
        if usual is None or steps.get(silo_id, 0) <= FAR_STEPS * usual:
            continue
        moved = norm if step is None else norm * step.update
        if step is None or moved > FAR_MOVED * step.bound:
            found[silo_id] = (
                f"its {steps[silo_id]} local steps, by the samples that it says it has, are "
                f"{steps[silo_id] / usual:.3g} times those of the others, and with them the round "
                f"would move the model by {moved:.3g}: no training gives that"
            )
    return found


def low_median(values: Sequence[float]) -> float | None:
    """The lower one of the two in the middle, of those above 0; None: there is none.

    Of as many that lie as do not, it is one that does not lie, or smaller.
    """
    there = sorted(value for value in values if value > 0)
    return there[(len(there) - 1) // 2] if there else None


@dataclass(frozen=True, slots=True)
class _Range:
    """What a buffer that is not as it was has: its least value, and the largest by size."""

    least: float
    most: float


def _floats(
    layout: Layout, now: ReadBlock, before: ReadBlock
) -> Iterator[tuple[Entry, _Range, float]]:
    """Each float buffer, but for values that are as they were, bit for bit: masks, constants."""
    at = 0
    for entry in layout.section(Section.FLOAT_BUFFER):
        ranges, was = [], 0.0
        for lo, hi in blocks(entry.numel):
            new, old = now(at + lo, at + hi).numpy(), before(at + lo, at + hi).numpy()
            other = new.view(np.uint32) != old.view(np.uint32)
            if other.any():
                ranges.append((new[other].min(), np.abs(new[other]).max()))
                was = max(was, float(np.abs(np.nan_to_num(old[other])).max()))
        at += entry.numel
        if ranges:
            least, most = min(low for low, _ in ranges), max(high for _, high in ranges)
            yield entry, _Range(float(least), float(most)), was


def _integers(layout: Layout, now: Tensor, before: Tensor) -> Iterator[tuple[Entry, _Range, float]]:
    """Each buffer of whole numbers that is not as it was."""
    new, old = (layout.split(Section.INTEGER_BUFFER, vector) for vector in (now, before))
    for entry in layout.section(Section.INTEGER_BUFFER):
        mine, was = new[entry.name], old[entry.name]
        if mine.dtype == torch.bool or mine.is_complex() or torch.equal(mine, was):
            continue
        least, most = (float(v) for v in torch.aminmax(mine))
        low, high = (float(v) for v in torch.aminmax(was))
        yield entry, _Range(least, max(abs(least), abs(most))), max(abs(low), abs(high))
