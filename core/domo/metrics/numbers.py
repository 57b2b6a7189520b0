"""Numbers of summed tables: AUC, average precision, F1, calibration, R2; and the curves to draw."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domo.metrics.names import why_no_mean, why_no_share
from domo.metrics.table import Measured, Sum, Table

MOST_SHOWN = 20
"""Classes up to which each has its own numbers."""
MOST_POINTS = 200
"""Of a curve to draw."""

Cells = NDArray[np.float64]


def numbers_of(silos: Iterable[Measured]) -> dict[str, float]:
    """The federation's numbers, from what its silos have measured (in roster order).

    Raises:
        ValueError: Two silos' tables of one name count different things.
    """
    sums, tables = added(silos)
    found: dict[str, float] = {}
    for name, table in tables.items():
        found |= numbers_of_table(name, table)
    return found | {name: s.total / s.num for name, s in sums.items() if s.num}


def in_most(silos: Collection[Collection[str]]) -> set[str]:
    """Names that more than half of the silos have."""
    count = Counter(name for names in silos for name in names)
    return {name for name, num in count.items() if 2 * num > len(silos)}


def shared_numbers(silos: Collection[Measured]) -> list[str]:
    """Names of the federation's numbers that are made of what most silos measure."""
    most = in_most(silos)
    return list(numbers_of({n: one for n, one in m.items() if n in most} for m in silos))


def added(silos: Iterable[Measured]) -> tuple[dict[str, Sum], dict[str, Table]]:
    """Sums and tables over silos.

    Raises:
        ValueError: Two silos' tables of one name count different things.
    """
    sums: dict[str, Sum] = {}
    tables: dict[str, Table] = {}
    for measured in silos:
        for name, one in measured.items():
            if isinstance(one, Table):
                tables[name] = tables[name] + one if name in tables else one
            else:
                before = sums.get(name, Sum(0.0, 0.0))
                sums[name] = Sum(before.total + one.total, before.num + one.num)
    return sums, tables


def numbers_of_table(name: str, table: Table) -> dict[str, float]:
    """All numbers that a table gives, by name; those that are not defined are left out.

    A table under its kind's own name gives plain ones, such as `balanced_accuracy`; under another
    name they come below it, such as `per_patient/balanced_accuracy`.
    """
    if not table.finite:
        return {}
    if table.kind in ("auc", "average_precision"):
        return _finite(dict(_of_scores(name, table)))
    prefix = "" if name == table.kind else f"{name}/"
    of = {"confusion": _of_confusion, "calibration": _of_bins, "regression": _of_errors}
    return _finite({prefix + key: value for key, value in of[table.kind](table)})


def _finite(found: Mapping[str, float]) -> dict[str, float]:
    """Cells that are finite may have a quotient that is not: no JSON and no chart can hold it."""
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _of_scores(name: str, table: Table) -> Iterator[tuple[str, float]]:
    area = auc_of if table.kind == "auc" else average_precision_of
    found = [area(negative, positive) for negative, positive in table.values]
    known = [value for value in found if value is not None]
    if known:
        yield name, sum(known) / len(known)
    if 1 < len(found) <= MOST_SHOWN:
        for index, value in enumerate(found):
            if value is not None:
                yield f"{name}/{table.label(index)}", value


def auc_of(negative: Cells, positive: Cells) -> float | None:
    """Area under the ROC curve; of a pair in one bin nobody knows the order: it counts half."""
    pairs = float(positive.sum() * negative.sum())
    below = np.cumsum(negative) - negative
    return float((positive * (below + negative / 2)).sum()) / pairs if pairs else None


def auc_error_of(negative: Cells, positive: Cells) -> float:
    """How far `auc_of` can be from the AUC of the scores themselves, at the very most."""
    pairs = float(positive.sum() * negative.sum())
    return float((positive * negative).sum()) / pairs / 2 if pairs else 0.0


def average_precision_of(negative: Cells, positive: Cells) -> float | None:
    """Mean precision over the recalls, from the highest score down."""
    found = np.cumsum(positive[::-1])
    said = found + np.cumsum(negative[::-1])
    if not len(found) or not found[-1]:
        return None
    precision = np.divide(found, said, out=np.zeros_like(found), where=said > 0)
    return float((positive[::-1] * precision).sum() / found[-1])


def _of_confusion(table: Table) -> Iterator[tuple[str, float]]:
    counts = table.values
    right, truth, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    if truth.sum():
        yield "accuracy", float(right.sum() / truth.sum())
    there = truth > 0
    if there.any():
        yield "balanced_accuracy", float((right[there] / truth[there]).mean())
    either = truth + said > 0
    if either.any():
        yield "macro_f1", float((2 * right[either] / (truth + said)[either]).mean())
    for i in range(len(counts) if len(counts) <= MOST_SHOWN else 0):
        label = table.label(i)
        if said[i]:
            yield f"precision/{label}", float(right[i] / said[i])
        if truth[i]:
            yield f"recall/{label}", float(right[i] / truth[i])
        if truth[i] + said[i]:
            yield f"f1/{label}", float(2 * right[i] / (truth[i] + said[i]))


def _of_bins(table: Table) -> Iterator[tuple[str, float]]:
    num, confidence, correct = table.values
    if num.sum():
        yield "ece", float(np.abs(confidence - correct).sum() / num.sum())


def _of_errors(table: Table) -> Iterator[tuple[str, float]]:
    num, absolute, squared, total, square = map(float, table.values)
    if num:
        yield "mae", absolute / num
        yield "mse", squared / num
        yield "rmse", (squared / num) ** 0.5
        spread = square - total * total / num
        if spread > 0:
            yield "r2", 1 - squared / spread


def drawing_of(table: Table) -> dict[str, Any]:
    """What a page draws of a table: `matrix`, `curves` by class, `counts`, `max_error`."""
    if table.kind == "confusion":
        return {"matrix": table.values.tolist()}
    if table.kind == "calibration":
        num, confidence, correct = table.values
        there = num > 0
        points = np.stack([confidence[there] / num[there], correct[there] / num[there]], 1)
        return {"curves": {"": points.tolist()}, "counts": num[there].tolist()}
    if table.kind == "regression":
        return {}
    curves = {}
    for i, (negative, positive) in enumerate(table.values[:MOST_SHOWN]):
        label = "" if len(table.values) == 1 else table.label(i)
        curves[label] = _curve(table.kind, negative[::-1], positive[::-1])
    errors = [auc_error_of(*pair) for pair in table.values] if table.kind == "auc" else []
    return {"curves": curves, "max_error": max(errors, default=None)}


def _curve(kind: str, negative: Cells, positive: Cells) -> Sequence[Sequence[float]]:
    """Points from the highest score down, no more than a picture needs."""
    there = positive + negative > 0
    hits, misses = np.cumsum(positive[there]), np.cumsum(negative[there])
    if not len(hits) or not hits[-1] or not misses[-1]:
        return []
    if kind == "auc":
        points = np.stack([misses / misses[-1], hits / hits[-1]], 1)
        points = np.concatenate([[[0.0, 0.0]], points])
    else:
        points = np.stack([hits / hits[-1], hits / (hits + misses)], 1)
    every = np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int))
    chosen: list[list[float]] = points[every].tolist()
    return chosen


def notes_on(measured: Measured, nums: Sequence[float] = ()) -> dict[str, str]:
    """What should be known of sums that are not what their name says, by name.

    Args:
        measured: By one silo, or of one batch.
        nums: How many samples there are, where that is known beside.
    """
    notes = {}
    for name, one in measured.items():
        others = [*nums, *(other.num for k, other in measured.items() if k != name)]
        if isinstance(one, Sum) and (why := why_no_mean(name, one.num, others)) is not None:
            notes[name] = why
    return notes | only_shares(measured)[1]


def only_shares(measured: Measured) -> tuple[Measured, dict[str, str]]:
    """What was measured, but for sums that are named as shares and are none; and why, by name."""
    notes = {
        name: why
        for name, one in measured.items()
        if isinstance(one, Sum)
        and one.num
        and (why := why_no_share(name, one.total / one.num)) is not None
    }
    return {name: one for name, one in measured.items() if name not in notes}, notes
