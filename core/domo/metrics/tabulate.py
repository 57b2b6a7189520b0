"""What a task's `evaluate` calls: a batch's labels and outputs to a table of counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from domo.metrics.table import MOST_CLASSES, Table, bins_of, num_bins, why_bad

Cells = NDArray[np.float64]
MOST_LOGIT = 1e6
"""Beyond it scores are as good as sure."""
Outputs = Any
"""A tensor, an array, or what numpy makes one of."""


def auc(
    labels: Outputs,
    *,
    logits: Outputs = None,
    probabilities: Outputs = None,
    classes: Sequence[str] = (),
) -> Table:
    """Area under the ROC curve, over all silos: for two classes, one against the rest for more.

    Silos send how many samples of each class lie in each bin of the score, not the scores.

    Args:
        labels: Numbers of classes, shape (N,); or 0 and 1 for each of several labels, (N, K).
        logits: Of the positive class, (N,) or (N, 1); or of all classes, (N, K).
        probabilities: The same after the sigmoid or softmax, in place of `logits`.
        classes: Names of the classes, for the numbers of each.

    Raises:
        ValueError: Shapes, labels or outputs do not go together.
    """
    return _scores("auc", labels, logits, probabilities, classes)


def average_precision(
    labels: Outputs,
    *,
    logits: Outputs = None,
    probabilities: Outputs = None,
    classes: Sequence[str] = (),
) -> Table:
    """Average precision over all silos, also called the area under the precision-recall curve.

    Arguments and errors are those of `auc`.
    """
    return _scores("average_precision", labels, logits, probabilities, classes)


def confusion(
    labels: Outputs,
    *,
    logits: Outputs = None,
    probabilities: Outputs = None,
    predictions: Outputs = None,
    classes: int | Sequence[str] = (),
) -> Table:
    """Confusion matrix; precision, recall and F1 of each class; balanced accuracy and macro F1.

    Args:
        labels: Numbers of classes, any shape, such as (N,) or (N, H, W).
        logits: (N,) of the positive class, or with classes in dimension 1: (N, K), (N, K, H, W).
        probabilities: The same after the sigmoid or softmax, in place of `logits`.
        predictions: Numbers of classes, in place of both; needs `classes`.
        classes: Names of the classes, or how many there are.

    Raises:
        ValueError: Shapes, labels or outputs do not go together.
    """
    names = () if isinstance(classes, int) else tuple(classes)
    size = classes if isinstance(classes, int) else len(names)
    if predictions is not None:
        if logits is not None or probabilities is not None:
            raise ValueError("give one of logits, probabilities and predictions")
        if not size:
            raise ValueError("predictions alone do not tell how many classes there are: classes=")
        said, broken = _whole(predictions, size, "predictions"), False
    else:
        outputs, broken = _odds(logits, probabilities)
        if outputs.ndim == np.ndim(_array(labels)):
            said, found = (outputs > 0).astype(np.int64).ravel(), 2
        else:
            said, found = outputs.argmax(1).ravel(), outputs.shape[1]
        size = size or found
        if found > size:
            raise ValueError(f"the outputs have {found} classes, and classes names {size}")
    truth = _whole(labels, size, "labels")
    if truth.shape != said.shape:
        raise ValueError(f"{truth.size} labels and {said.size} outputs do not go together")
    counts = np.bincount(truth * size + said, minlength=size * size).astype(np.float64)
    return _checked("confusion", counts.reshape(size, size), names, broken)


def calibration(
    labels: Outputs,
    *,
    logits: Outputs = None,
    probabilities: Outputs = None,
    bins: int = 15,
) -> Table:
    """Expected calibration error (`ece`) and reliability bins, over all silos.

    Args:
        labels: Numbers of classes, shape (N,).
        logits: Of the positive class, (N,) or (N, 1); or of all classes, (N, K).
        probabilities: The same after the sigmoid or softmax, in place of `logits`.
        bins: Of confidence, of equal width; the same at all silos.

    Raises:
        ValueError: Shapes, labels or outputs do not go together.
    """
    outputs, broken = _odds(logits, probabilities)
    outputs = outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
    if outputs.ndim == 1:
        said, confidence, size = outputs > 0, 1 / (1 + np.exp(-np.abs(outputs))), 2
    elif outputs.ndim == 2:
        shifted = np.exp(outputs - outputs.max(1, keepdims=True))
        said, size = outputs.argmax(1), outputs.shape[1]
        confidence = shifted.max(1) / shifted.sum(1)
    else:
        raise ValueError(f"outputs have shape (N,) or (N, K), not {outputs.shape}")
    truth = _whole(labels, size, "labels")
    if truth.shape != said.shape:
        raise ValueError(f"{truth.size} labels and {said.size} outputs do not go together")
    at = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    rows = (None, confidence, (said == truth).astype(np.float64))
    sums = [np.bincount(at, weights=row, minlength=bins).astype(np.float64) for row in rows]
    counts = np.stack(sums)
    return _checked("calibration", counts, (), broken)


def regression(targets: Outputs, predictions: Outputs) -> Table:
    """Mean absolute and squared error, its root, and R2, over all silos: `mae mse rmse r2`.

    Args:
        targets: Any shape.
        predictions: The same shape.

    Raises:
        ValueError: The shapes differ.
    """
    y, said = _array(targets).astype(np.float64), _array(predictions).astype(np.float64)
    if y.shape != said.shape:
        raise ValueError(f"targets have shape {y.shape} and predictions {said.shape}")
    error = said - y
    sums = [y.size, np.abs(error).sum(), (error**2).sum(), y.sum(), (y**2).sum()]
    values = np.array(sums, dtype=np.float64)
    return _checked("regression", values, (), not np.isfinite(values).all())


def _scores(
    kind: str, labels: Outputs, logits: Outputs, probabilities: Outputs, classes: Sequence[str]
) -> Table:
    truth = _array(labels)
    several = truth.ndim == 2 and truth.shape[1] > 1
    outputs, broken = _odds(logits, probabilities, several)
    outputs = outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
    if outputs.ndim not in (1, 2) or outputs.shape[:1] != truth.shape[:1]:
        raise ValueError(
            f"labels of shape {truth.shape} and outputs of shape {outputs.shape} do not go together"
        )
    if several and truth.shape != outputs.shape:
        raise ValueError(f"labels have shape {truth.shape} and outputs {outputs.shape}")
    if outputs.ndim == 1:
        columns, hits = outputs[:, None], _whole(truth, 2, "labels")[:, None] == 1
    elif several:
        columns, hits = outputs, _whole(truth, 2, "labels").reshape(truth.shape) == 1
    else:
        size = outputs.shape[1]
        numbers = _whole(truth, size, "labels")
        if size == 2:
            columns, hits = outputs[:, 1:] - outputs[:, :1], numbers[:, None] == 1
        else:
            columns, hits = _against_the_rest(outputs), numbers[:, None] == np.arange(size)
            columns = columns + np.log(size - 1)  # a net that knows nothing is where bins are fine
    num_classes = columns.shape[1]
    if num_classes > MOST_CLASSES:
        raise ValueError(f"{num_classes} classes: histograms of scores have {MOST_CLASSES} at most")
    bins = num_bins(num_classes)
    at = bins_of(columns, bins)
    cell = (2 * np.arange(num_classes) + hits) * bins + at
    counts = np.bincount(cell.ravel(), minlength=2 * bins * num_classes).astype(np.float64)
    names = tuple(classes) if num_classes > 1 else ()
    return _checked(kind, counts.reshape(num_classes, 2, bins), names, broken)


def _against_the_rest(logits: Cells) -> Cells:
    """The logit of each class's probability under the softmax; exact where that is near 1 too."""
    rows, first = np.arange(len(logits)), logits.argmax(1)
    top = logits[rows, first][:, None]
    parts = np.exp(logits - top)
    others = logits.copy()
    others[rows, first] = -np.inf
    second = others.max(1)[:, None]
    with np.errstate(divide="ignore"):
        rest = top + np.log(parts.sum(1, keepdims=True) - parts)
        rest[rows, first] = (second + np.log(np.exp(others - second).sum(1, keepdims=True)))[:, 0]
    apart: Cells = logits - rest
    return apart


def _odds(logits: Outputs, probabilities: Outputs, several: bool = False) -> tuple[Cells, bool]:
    """Outputs as logits in float64, and whether some are not a number.

    Args:
        logits: As they are.
        probabilities: In their place.
        several: Whether each is of a label of its own, and not of one of the classes.
    """
    if (logits is None) == (probabilities is None):
        raise ValueError("give one of logits and probabilities")
    given = _array(probabilities if logits is None else logits).astype(np.float64)
    broken = bool(np.isnan(given).any())
    given = np.nan_to_num(given, nan=0.0, posinf=MOST_LOGIT, neginf=-MOST_LOGIT)
    if logits is not None or broken:
        return np.clip(given, -MOST_LOGIT, MOST_LOGIT), broken
    low, high = given.min(initial=0.0), given.max(initial=1.0)
    if low < -1e-6 or high > 1 + 1e-6:
        text = f"these lie between {low:.4g} and {high:.4g}: are they logits?"
        raise ValueError(f"probabilities lie between 0 and 1, {text}")
    given = np.clip(given, 0.0, 1.0)
    classes = given.ndim >= 2 and given.shape[1] > 1 and not several
    if classes and np.abs(given.sum(1) - 1).max(initial=0.0) > 0.02:
        raise ValueError("the probabilities of a sample's classes do not add up to 1")
    with np.errstate(divide="ignore"):
        odds = np.log(given) if classes else np.log(given) - np.log1p(-given)
    return np.clip(odds, -MOST_LOGIT, MOST_LOGIT), broken


def _array(given: Outputs) -> NDArray[Any]:
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        return np.asarray((given.float() if given.is_floating_point() else given).numpy())
    return np.asarray(given)


def _whole(given: Outputs, size: int, what: str) -> NDArray[np.int64]:
    """Numbers of classes, flat.

    Raises:
        ValueError: Some are none.
    """
    found = _array(given).ravel()
    numbers = found.astype(np.int64)
    if (numbers != found).any() or (numbers < 0).any() or (numbers >= size).any():
        low, high = (found.min(), found.max()) if found.size else (0, 0)
        raise ValueError(
            f"{what} must be whole numbers from 0 to {size - 1}, these lie between {low} and "
            f"{high}; leave out what is not to count before"
        )
    return numbers


def _checked(kind: str, values: Cells, labels: Sequence[str], broken: bool) -> Table:
    why = why_bad(kind, values.shape, labels, np.zeros(1) if broken else values)
    if why is not None:
        raise ValueError(why)
    return Table(kind, np.full_like(values, np.nan) if broken else values, tuple(labels))
