"""Numbers of tables that silos add up, against those of all samples at one place."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from domo import metrics
from domo.metrics import Table
from domo.metrics.numbers import (
    auc_error_of,
    auc_of,
    average_precision_of,
    numbers_of,
    numbers_of_table,
)

SILOS, BATCH = 5, 97
N = 6000


def drawn(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels and logits of nine kinds of nets."""
    random = np.random.default_rng(abs(hash_of(name)))
    labels = (random.random(N) < (0.03 if name == "rare" else 0.4)).astype(np.int64)
    noise = random.normal(size=N)
    return labels, {
        "ordinary": noise + 1.2 * labels,
        "untrained": 1e-3 * noise + 6e-4 * labels,
        "untrained, one-sided": -4.6 + 0.05 * noise + 0.04 * labels,
        "confident": 12 * noise + 20 * labels - 8,
        "very confident": 90 * noise + 150 * labels - 60,
        "saturated": np.where(random.random(N) < 0.9, 400 * (2 * labels - 1), 30 * noise),
        "rare": noise + 2 * labels - 3.5,
        "useless": noise,
        "few values": np.round(noise + labels),
    }[name]


def hash_of(name: str) -> int:
    return sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**32


NETS = ("ordinary", "untrained", "untrained, one-sided", "confident", "very confident",
        "saturated", "rare", "useless", "few values")  # fmt: skip


def exact_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """The share of pairs that are in order; a tie counts half."""
    negative = np.sort(scores[labels == 0])
    positive = scores[labels == 1]
    below = np.searchsorted(negative, positive, "left")
    upto = np.searchsorted(negative, positive, "right")
    return float((below + (upto - below) / 2).sum() / (len(positive) * len(negative)))


def exact_average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(labels[order]), scores[order]
    last = np.r_[np.flatnonzero(np.diff(ranked)), len(ranked) - 1]  # ties are one threshold
    recall, precision = hits[last] / labels.sum(), hits[last] / (last + 1)
    return float((np.diff(np.r_[0.0, recall]) * precision).sum())


def over_silos(make: Callable[[slice], Table]) -> Table:
    """As a federation adds them: batches of each silo, then the silos."""
    whole: Table | None = None
    for lo, hi in zip(range(0, N, N // SILOS), range(N // SILOS, N + 1, N // SILOS), strict=True):
        own: Table | None = None
        for at in range(lo, hi, BATCH):
            part = make(slice(at, min(at + BATCH, hi)))
            own = part if own is None else own + part
        assert own is not None
        whole = own if whole is None else whole + own
    assert whole is not None
    return whole


@pytest.mark.parametrize("net", NETS)
def test_the_auc_of_histograms_is_that_of_all_scores(net: str) -> None:
    labels, logits = drawn(net)
    table = over_silos(lambda s: metrics.auc(labels[s], logits=logits[s]))
    (found,) = numbers_of_table("auc", table).values()
    off = abs(found - exact_auc(labels, logits))
    assert off <= 0.0002, off  # 0.002 is promised
    assert off <= auc_error_of(*table.values[0]) + 1e-12


@pytest.mark.parametrize("net", NETS)
def test_so_is_the_average_precision(net: str) -> None:
    labels, logits = drawn(net)
    table = over_silos(lambda s: metrics.average_precision(labels[s], logits=logits[s]))
    (found,) = numbers_of_table("average_precision", table).values()
    assert found == pytest.approx(exact_average_precision(labels, logits), abs=0.003)


@pytest.mark.parametrize("num_classes", [3, 10, 100])
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_one_against_the_rest_is_that_of_the_softmax(num_classes: int, scale: float) -> None:
    random = np.random.default_rng(num_classes)
    labels = random.integers(0, num_classes, N)
    logits = random.normal(size=(N, num_classes)) + 1.5 * np.eye(num_classes)[labels]
    logits *= scale
    table = over_silos(lambda s: metrics.auc(labels[s], logits=logits[s]))
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    shares = shifted / shifted.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        odds = np.log(shares) - np.log1p(-shares)
    ovr = [exact_auc((labels == k).astype(int), odds[:, k]) for k in range(num_classes)]
    found = numbers_of_table("auc", table)
    assert found["auc"] == pytest.approx(np.mean(ovr), abs=0.002)
    assert (len(found) == 1) == (num_classes > 20)
    if num_classes <= 20:
        assert [found[f"auc/{k}"] for k in range(num_classes)] == pytest.approx(ovr, abs=0.002)


def test_the_mean_of_batch_aucs_is_another_number() -> None:
    labels, logits = drawn("rare")
    shift = np.repeat(np.arange(SILOS), N // SILOS)  # each silo's scores lie elsewhere
    logits = logits + 2 * shift
    parts = [slice(at, at + BATCH) for at in range(0, N, BATCH)]
    means = [exact_auc(labels[s], logits[s]) for s in parts if 0 < labels[s].sum() < len(labels[s])]
    table = over_silos(lambda s: metrics.auc(labels[s], logits=logits[s]))
    pooled, found = exact_auc(labels, logits), numbers_of_table("auc", table)["auc"]
    assert found == pytest.approx(pooled, abs=0.0005)
    assert abs(float(np.mean(means)) - pooled) > 0.1


def test_probabilities_give_what_logits_give() -> None:
    labels, logits = drawn("ordinary")
    p = 1 / (1 + np.exp(-logits))
    both = np.stack([1 - p, p], 1)
    by = {
        "logits": metrics.auc(labels, logits=logits),
        "column": metrics.auc(labels, logits=logits[:, None]),
        "probabilities": metrics.auc(labels, probabilities=p),
        "two classes": metrics.auc(labels, probabilities=both),
        "torch": metrics.auc(torch.tensor(labels), logits=torch.tensor(logits)),
    }
    exact = exact_auc(labels, logits)
    for how, table in by.items():
        assert numbers_of_table("auc", table)["auc"] == pytest.approx(exact, abs=2e-4), how


def test_several_labels_at_once() -> None:
    random = np.random.default_rng(3)
    labels = (random.random((N, 3)) < [0.5, 0.1, 0.9]).astype(int)
    logits = random.normal(size=(N, 3)) + labels
    table = metrics.auc(labels, logits=logits, classes=["a", "b", "c"])
    found = numbers_of_table("auc", table)
    for k, name in enumerate("abc"):
        exact = exact_auc(labels[:, k], logits[:, k])
        assert found[f"auc/{name}"] == pytest.approx(exact, abs=5e-4)


def test_a_confusion_matrix_gives_each_class_its_numbers() -> None:
    random = np.random.default_rng(4)
    labels = random.integers(0, 3, N)
    said = np.where(random.random(N) < 0.7, labels, random.integers(0, 3, N))
    table = over_silos(
        lambda s: metrics.confusion(labels[s], predictions=said[s], classes=["a", "b", "c"])
    )
    found = numbers_of_table("confusion", table)
    recalls = [float((said[labels == k] == k).mean()) for k in range(3)]
    precisions = [float((labels[said == k] == k).mean()) for k in range(3)]
    f1 = [2 * p * r / (p + r) for p, r in zip(precisions, recalls, strict=True)]
    assert found["accuracy"] == pytest.approx(float((labels == said).mean()), abs=1e-12)
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls), abs=1e-12)
    assert found["macro_f1"] == pytest.approx(np.mean(f1), abs=1e-12)
    for k, name in enumerate("abc"):
        told = [found[f"{what}/{name}"] for what in ("precision", "recall", "f1")]
        assert told == pytest.approx([precisions[k], recalls[k], f1[k]], abs=1e-12)
    assert "per_site/accuracy" in numbers_of_table("per_site", table)


def test_pixels_count_too() -> None:
    labels = torch.tensor([[[0, 1], [1, 1]]])
    logits = torch.zeros(1, 2, 2, 2)
    logits[0, 1, :, 1] = 1.0
    table = metrics.confusion(labels, logits=logits)
    assert table.values.tolist() == [[1.0, 0.0], [1.0, 2.0]]


def test_calibration_is_that_of_all_samples() -> None:
    random = np.random.default_rng(5)
    labels = random.integers(0, 4, N)
    logits = 2 * random.normal(size=(N, 4)) + np.eye(4)[labels]
    table = over_silos(lambda s: metrics.calibration(labels[s], logits=logits[s]))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    confidence, right = shares.max(1), shares.argmax(1) == labels
    ece = 0.0
    for lo in np.arange(15) / 15:
        inside = (confidence >= lo) & (confidence < lo + 1 / 15)
        if inside.any():
            ece += abs(confidence[inside].sum() - right[inside].sum()) / N
    assert numbers_of_table("calibration", table)["ece"] == pytest.approx(ece, abs=1e-9)


def test_regression_is_that_of_all_samples() -> None:
    random = np.random.default_rng(6)
    y = random.normal(size=N) * 3 + np.repeat(np.arange(SILOS), N // SILOS)
    said = y + random.normal(size=N)
    table = over_silos(lambda s: metrics.regression(y[s], said[s]))
    found = numbers_of_table("regression", table)
    error = said - y
    assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-12)
    assert found["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
    assert found["r2"] == pytest.approx(1 - (error**2).sum() / ((y - y.mean()) ** 2).sum())


def test_what_is_not_defined_is_left_out() -> None:
    only = metrics.auc([1, 1], logits=[0.2, 0.4])
    assert numbers_of([{"auc": only}]) == {}
    assert (auc_of(*only.values[0]), average_precision_of(*only.values[0])) == (None, 1.0)
    broken = metrics.auc([0, 1], logits=[float("nan"), 0.4])
    assert not broken.finite
    assert numbers_of([{"auc": broken}]) == {}
    assert metrics.auc([0, 1], logits=[float("-inf"), float("inf")]).finite


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: metrics.auc([0, 1], logits=[0.0, 1.0], probabilities=[0.0, 1.0]), "give one of"),
        (lambda: metrics.auc([0, 1], probabilities=[0.2, 1.4]), "are they logits"),
        (lambda: metrics.auc([0, 2], logits=[0.0, 1.0]), "whole numbers from 0 to 1"),
        (lambda: metrics.auc([0, 1, 1], logits=[0.0, 1.0]), "do not go together"),
        (lambda: metrics.auc([0, 1], probabilities=[[0.5, 0.5, 0.5], [1, 0, 0]]), "add up to 1"),
        (lambda: metrics.auc([0, 1], logits=np.zeros((2, 300))), "256 at most"),
        (lambda: metrics.confusion([0, 1], predictions=[0, 1]), "classes="),
        (lambda: metrics.confusion([0], logits=[[0, 1, 2]], classes=["a"]), "classes names 1"),
        (lambda: metrics.confusion([0], logits=[[0, 1]], classes=["a", "a"]), "two that are the"),
        (lambda: metrics.regression([1.0], [[1.0]]), "shape"),
    ],
)
def test_what_does_not_go_together_is_said(call: Callable[[], Table], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_silos_with_other_classes_cannot_be_added() -> None:
    one = metrics.confusion([0, 1], predictions=[0, 1], classes=["cat", "dog"])
    other = metrics.confusion([0, 1], predictions=[0, 1], classes=["dog", "cat"])
    with pytest.raises(ValueError, match=r"the classes dog, cat cannot be .* the classes cat, dog"):
        one + other


@pytest.mark.parametrize(
    "values",
    [
        [1e-300, 1e100, 1e100, 0.0, 1.0],
        [1.0, 1.0, 1e100, 0.0, 1e-300],
        [2.0, 1.0, 1.0, 1e200, 1.0],
    ],
    ids=["hardly a sample", "hardly a spread", "targets without end"],
)
def test_no_number_of_finite_sums_is_infinite(values: list[float]) -> None:
    found = numbers_of_table("regression", Table("regression", np.array(values)))
    assert all(map(np.isfinite, found.values())), found
