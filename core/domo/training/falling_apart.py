"""Whether a run falls apart: its numbers were good, and get worse and worse.

A healthy curve is noisy too, so nothing is said of one bad test: a sign has to hold in `IN_A_ROW`
tests. It is said once for each time that it happens, at the test that made it certain. The rules
were set by curves of real runs, which the tests hold.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from domo.run_config import RunConfig

IN_A_ROW = 5
"""Tests in which a sign must hold."""
LOSS_TIMES = 3.0
"""Times the best test loss, with no new best of the number that the run is judged by meanwhile."""
SHARE_LOST = 0.25
"""Of the best of that number."""
LR_SHARE = 0.2
"""Of the step size, the first thing to try."""


class CurvePoint(NamedTuple):
    """A server model that was tested.

    Attributes:
        model_index: The i of x_i; the model after round i.
        loss: Test loss; None: the task gives none.
        value: The number that the run is judged by, such as accuracy; None: it is the loss.
        train_loss: Mean training loss of the round that made it.
    """

    model_index: int
    loss: float | None
    value: float | None = None
    train_loss: float | None = None


def point(
    index: int, numbers: Mapping[str, float], name: str | None, train_loss: float | None
) -> CurvePoint:
    """A model's place on the curve: by its test numbers, of which `name` is what the run is for."""
    value = None if name in (None, "loss") else numbers.get(str(name))
    return CurvePoint(index, numbers.get("loss"), value, train_loss)


class Fall(NamedTuple):
    """A time that a run falls apart.

    Attributes:
        model_index: The model at which it was certain.
        best: The model that was best before.
        sign: What shows it, in words.
    """

    model_index: int
    best: int
    sign: str


def falls(
    tests: Sequence[CurvePoint], name: str = "accuracy", better: str = "higher"
) -> list[Fall]:
    """Each time that a run fell apart, as far as it has been tested.

    Args:
        tests: In the order of rounds; more of them never take back what fewer have shown.
        name: What `CurvePoint.value` is.
        better: `higher` or `lower`.
    """
    curve = Curve(name, better)
    return [fall for test in tests if (fall := curve.add(test)) is not None]


class Curve:
    """A run's tests so far; each one is looked at once.

    Args:
        name: What `CurvePoint.value` is.
        better: `higher` or `lower`.
    """

    def __init__(self, name: str, better: str):
        self._name, self._higher = name, better == "higher"
        self._tests: list[CurvePoint] = []
        self._bad = 0

    def add(self, test: CurvePoint) -> Fall | None:
        """The next test; whether it makes certain that the run falls apart."""
        before, fall = self._tests, None
        sign = next(_signs(before, test, self._name, self._higher), None)
        self._bad = 0 if sign is None else self._bad + 1
        if sign is not None and self._bad == (1 if _is_broken(test) else IN_A_ROW):
            best = _best(before, self._higher)
            fall = Fall(test.model_index, best.model_index if best else 0, sign)
            self._bad = max(self._bad, IN_A_ROW)  # said; a broken test does not say it again
        before.append(test)
        return fall


def advice(config: RunConfig, best: int, is_kept: bool) -> str:
    """What to do about it.

    Args:
        config: The run.
        best: The model that was best.
        is_kept: Whether that one is still there.
    """
    first = max(config.lr_at(0), 1e-12)
    settings = [f"local_lr = {LR_SHARE * first:.2g}"]
    if not config.lr_milestones and config.local_lrs is None:
        settings.append("lr_milestones = [0.6, 0.8]")
    if not config.weight_decay:
        settings.append("weight_decay = 0.01")
    kept = ", which is kept" if is_kept else ""
    again = f"Begin again with {', '.join(settings)}"
    return f"{again}. The best model so far is that after round {best}{kept}"


def _is_broken(test: CurvePoint) -> bool:
    return any(v is not None and not math.isfinite(v) for v in (test.loss, test.value))


def _best(tests: Sequence[CurvePoint], higher: bool) -> CurvePoint | None:
    """The best by the number that the run is judged by, or else by its test loss."""
    judged = [t for t in tests if t.value is not None and math.isfinite(t.value)]
    if judged:
        return (max if higher else min)(judged, key=lambda t: t.value or 0.0)
    tried = [t for t in tests if t.loss is not None and math.isfinite(t.loss)]
    return min(tried, key=lambda t: t.loss or 0.0) if tried else None


def _signs(
    before: Sequence[CurvePoint], last: CurvePoint, name: str, higher: bool
) -> Iterator[str]:
    """What is wrong with the last of some tests, beside those before."""
    at = f"after round {last.model_index}"
    if _is_broken(last):
        yield f"the test {at} gives numbers that are not finite"
        return
    best = _best(before, higher)
    if best is None:
        return
    tried = [t for t in before if t.loss is not None and math.isfinite(t.loss)]
    lowest = min(tried, key=lambda t: t.loss or 0.0, default=None)
    rises = best.value is not None and best.model_index > last.model_index - IN_A_ROW
    if lowest is not None and lowest.loss and last.loss is not None and not rises:
        times = last.loss / lowest.loss
        if times > LOSS_TIMES:
            yield (
                f"the test loss {at}, {last.loss:.3g}, is {times:.2g} times its best, "
                f"{lowest.loss:.3g} after round {lowest.model_index}"
            )
    if best.value and last.value is not None:
        lost = (best.value - last.value if higher else last.value - best.value) / abs(best.value)
        if lost > SHARE_LOST:
            yield (
                f"{name} {at}, {last.value:.3g}, is {100 * lost:.0f} % worse than its best, "
                f"{best.value:.3g} after round {best.model_index}"
            )
    losses = [t.train_loss for t in before if t.train_loss is not None]
    first = losses[0] if losses and min(losses) < losses[0] / 2 else math.inf
    if last.train_loss is not None and last.train_loss > first:
        yield (
            f"the training loss of round {last.model_index}, {last.train_loss:.3g}, is back above "
            f"that of the first, {first:.3g}"
        )
