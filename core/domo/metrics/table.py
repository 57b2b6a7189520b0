"""Sums that are added over batches and silos: a number with its count, or a table of counts."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domo.errors import TaskError
from domo.metrics.names import MOST_METRICS, MOST_NAME, is_metric_name
from domo.names import prints
from domo.outside.text import task_error

log = logging.getLogger(__name__)

MOST_CELLS = 131_072
"""Of one table."""
MOST_SENT = 2 * MOST_CELLS
"""Of all tables of one silo's test."""
MOST_CLASSES = 256
MOST_LABEL = 64
MOST_TOTAL = 1e15
"""Of all that a table counts: below it float64 adds counts without rounding."""
MOST_BINS = 65_536
RANGE = 1e4
"""Scores beyond this, as logits, share the outermost bins."""
FINE = 50.0
"""Bins are as wide as each other up to about 1/FINE around 0, and relative to the score beyond."""


class Sum(NamedTuple):
    """A sum and how many terms it has, so that averages over silos are exact."""

    total: float
    num: float


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Counts that numbers are made of once all silos are added.

    Attributes:
        kind: A row of `KINDS`.
        values: float64, of the kind's shape.
        labels: Names of the classes; empty: their numbers.
    """

    kind: str
    values: NDArray[np.float64]
    labels: tuple[str, ...] = ()

    def __add__(self, other: "Table") -> "Table":
        """Both together.

        Raises:
            ValueError: They count different things.
        """
        why = why_apart(self, other)
        if why is not None:
            raise ValueError(why)
        return Table(self.kind, self.values + other.values, self.labels)

    @property
    def num(self) -> float:
        """How many samples it counts; of many pixels or labels each, as many times."""
        if self.kind in ("auc", "average_precision"):
            return float(self.values.sum()) / len(self.values)
        if self.kind == "calibration":
            return float(self.values[0].sum())
        return float(self.values[0] if self.kind == "regression" else self.values.sum())

    def emptied(self) -> "Table":
        """One of the same kind that counts nothing."""
        return Table(self.kind, np.broadcast_to(0.0, self.values.shape), self.labels)

    @property
    def finite(self) -> bool:
        """Whether all of it is a number: a model that has fallen apart gives none."""
        return bool(np.isfinite(self.values).all())

    def label(self, index: int) -> str:
        """The name of a class, or its number."""
        return self.labels[index] if self.labels else str(index)


Measured = Mapping[str, Sum | Table]
"""What a silo has measured of one model, by name."""


def more(before: Sum | Table | None, name: str, given: Any) -> Sum | Table:
    """What a batch gives under a name, added to what there is.

    Raises:
        TaskError: It is neither a sum with its count nor a table.
    """
    if isinstance(given, Table):
        if before is not None and not isinstance(before, Table):
            raise task_error(f"{name!r} was a sum before, and is a table now")
        try:
            return given if before is None else before + given
        except ValueError as error:
            raise task_error(f"{name!r}: {error}") from None
    try:
        total, num = map(float, given)
    except (TypeError, ValueError):
        raise TaskError(
            f"{name!r} must be a sum and its count, such as Sum(correct, len(labels)), or a table "
            f"of domo.metrics; it is {given!r:.80}"
        ) from None
    if isinstance(before, Table):
        raise task_error(f"{name!r} was a table before, and is a sum now")
    return Sum(total, num) if before is None else Sum(before.total + total, before.num + num)


def is_finite(one: Sum | Table) -> bool:
    """Whether all of it is a number: numbers overflow."""
    if isinstance(one, Table):
        return one.finite
    return math.isfinite(one.total) and math.isfinite(one.num)


def counts(one: Sum | Table) -> bool:
    """Whether it tells anything: a silo may have no sample of a class, or numbers overflow."""
    return is_finite(one) and (one.num > 0 if isinstance(one, Table) else one.num != 0)


def check_measured(measured: Measured) -> None:
    """See that what a silo has measured can be sent and shown.

    Raises:
        TaskError: Tables are too large together; or names as in `check_names`.
    """
    check_names(measured)
    cells = sum(one.values.size for one in measured.values() if isinstance(one, Table))
    if cells > MOST_SENT:
        raise task_error(f"tables of {cells} cells: a silo sends {MOST_SENT} of one model at most")


def finite_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that are some; others are said and left out."""
    values = {name: float(value) for name, value in metrics.items()}
    for name, value in values.items():
        if not math.isfinite(value):
            log.warning("metric %r is not finite (%s); it is left out", name, value)
    return {name: value for name, value in values.items() if math.isfinite(value)}


def check_names(names: Iterable[str]) -> None:
    """See that metrics can be shown and kept by these names.

    Raises:
        TaskError: They are too many, too long, or no line of text.
    """
    there = list(names)
    if len(there) > MOST_METRICS:
        raise task_error(f"{len(there)} metrics: a run shows {MOST_METRICS} of a silo at most")
    bad = next((n for n in there if not isinstance(n, str) or not is_metric_name(n)), None)
    if bad is not None:
        raise TaskError(
            f"a metric cannot be named {bad!r:.100}: a name is one printable line of up to "
            f"{MOST_NAME} characters"
        )


def _is_confusion(shape: Sequence[int]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1] and 2 <= shape[0] <= MOST_CLASSES


def _is_scores(shape: Sequence[int]) -> bool:
    few = len(shape) == 3 and 1 <= shape[0] <= MOST_CLASSES and shape[1] == 2
    return few and shape[2] == num_bins(shape[0])


KINDS: Mapping[str, Any] = {
    "confusion": _is_confusion,
    "auc": _is_scores,
    "average_precision": _is_scores,
    "calibration": lambda shape: len(shape) == 2 and shape[0] == 3 and 2 <= shape[1] <= 100,
    "regression": lambda shape: tuple(shape) == (5,),
}
"""Kind to whether a shape is one of it: K x K with the truth in rows; classes x (negative,
positive) x bins; (count, confidence, correct) x bins; count, |e|, e^2, y, y^2."""


def num_bins(num_classes: int) -> int:
    """Bins of a histogram of scores: the more classes, the fewer."""
    bins = MOST_BINS
    while 2 * bins * num_classes > MOST_CELLS:
        bins //= 2
    return bins


def bins_of(logits: NDArray[np.float64], num: int) -> NDArray[np.int64]:
    """Bin of each score. The same at all silos, and in the order of the scores.

    A network's scores lie close together while it knows little and far apart once it is sure, so
    bins are narrow around 0 and grow with the score: 1/2400 of it, of 65,536 bins.
    """
    at = np.arcsinh(FINE * np.clip(logits, -RANGE, RANGE)) / math.asinh(FINE * RANGE)
    return np.minimum((0.5 * (at + 1) * num).astype(np.int64), num - 1)


def why_bad(kind: str, shape: Sequence[int], labels: Sequence[str], values: Any) -> str | None:
    """What is wrong with a table that a peer or a task gives; None: nothing.

    Args:
        kind: Of the table.
        shape: Of the table.
        labels: Names of its classes.
        values: Its cells; of a sparse one those that are not 0.
    """
    if kind not in KINDS:
        return f"there is no kind of table {kind[:40]!r}"
    if len(shape) > 3 or not KINDS[kind](shape):
        return f"a table of kind {kind} has no shape {tuple(shape[:4])}"
    classes = 0 if kind in ("calibration", "regression") else shape[0]
    if labels and (len(labels) != classes or len(set(labels)) < len(labels)):
        return f"a table of {classes} classes has {len(labels)} labels, or two that are the same"
    if any(not 0 < len(x) <= MOST_LABEL or not prints(x) for x in labels):
        return f"the label of a class is one printable line of up to {MOST_LABEL} characters"
    cells = np.asarray(values, dtype=np.float64)
    if not np.isfinite(cells).all():
        return "a table has cells that are not finite"
    if kind != "regression" and (cells < 0).any():
        return "a table counts less than nothing"
    if np.abs(cells).sum() > MOST_TOTAL and kind != "regression":
        return f"a table counts more than {MOST_TOTAL:g}"
    return None


def why_unlike(table: Table) -> str | None:
    """What is wrong with cells that do not go together; None: nothing."""
    values = table.values
    if table.kind == "calibration":
        num, confidence, correct = values
        if (np.maximum(confidence, correct) > num * (1 + 1e-6)).any():
            return "a bin has more confidence, or more that is right, than samples"
    if table.kind == "regression":
        num, absolute, squared, total, square = values
        if min(num, absolute, squared, square) < 0 or num > MOST_TOTAL:
            return "sums of sizes and of squares are not below 0"
        if np.abs(values).max() > 1e100 or total**2 > num * square * (1 + 1e-6):
            return "the sums of targets and of their squares do not go together"
    return None


def why_apart(one: Table, other: Table) -> str | None:
    """Why two tables cannot be added; None: they can."""
    if one.kind != other.kind or one.values.shape != other.values.shape:
        return (
            f"a table of kind {other.kind}, {_size(other)}, cannot be added to one of kind "
            f"{one.kind}, {_size(one)}"
        )
    if one.labels != other.labels:
        return (
            f"the classes {_listed(other.labels)} cannot be added to the classes "
            f"{_listed(one.labels)}"
        )
    return None


def _size(table: Table) -> str:
    return " x ".join(map(str, table.values.shape))


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    return shown or "without names"
