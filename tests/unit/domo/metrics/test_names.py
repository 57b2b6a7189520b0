"""What the name of a metric tells."""

import pytest

from domo.metrics import Sum, auc
from domo.metrics.names import direction, is_metric_name, primary_of, why_no_mean
from domo.metrics.numbers import notes_on


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("loss", "lower"),
        ("val_loss", "lower"),
        ("top5_error", "lower"),
        ("RMSE", "lower"),
        ("calibration/ece", "lower"),
        ("accuracy", "higher"),
        ("balanced_accuracy", "higher"),
        ("auc/cat", "higher"),
        ("f1/no error", "higher"),  # the class is not the metric
        ("per_site/macro_f1", "higher"),
        ("wobble", None),
        ("classes", None),
        ("maps", None),
    ],
)
def test_which_way_is_better(name: str, way: str | None) -> None:
    assert direction(name) == way


def test_what_a_run_is_judged_by() -> None:
    assert primary_of(["loss", "accuracy", "auc"], None) == "accuracy"
    assert primary_of(["loss", "auc"], None) == "loss"
    assert primary_of(["wobble", "auc"], None) == "auc"
    assert primary_of(["loss"], "auc") == "auc"
    assert primary_of([], None) is None
    assert primary_of(["a" * 65, "b"], None) == "b", "no run could be told to go by it"


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\tb", "x" * 65, "\x1b[31m"])
def test_what_is_no_name(name: str) -> None:
    assert not is_metric_name(name)
    assert is_metric_name("précision/chat noir")


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("auc", "domo.metrics.auc(labels, logits=...)"),
        ("val_AUROC", "domo.metrics.auc(labels, logits=...)"),
        ("average_precision", "domo.metrics.average_precision(labels, logits=...)"),
        ("mAP", "domo.metrics.average_precision(labels, logits=...)"),
        ("balanced_accuracy", "domo.metrics.confusion(labels, logits=...)"),
        ("rmse", "domo.metrics.regression(targets, predictions)"),
        ("r2", "domo.metrics.regression(targets, predictions)"),
        ("ece", "domo.metrics.calibration(labels, logits=...)"),
        ("mcc", "return sums that it can be made of"),
        ("f1", "domo.metrics.confusion(labels, logits=...)"),
        ("dice_score", "Sum(intersection, union)"),
    ],
)
def test_a_mean_that_is_not_the_metric_is_said_with_its_cure(name: str, cure: str) -> None:
    notes = notes_on({name: Sum(3.2, 4.0), "loss": Sum(1.0, 4.0)})
    assert list(notes) == [name]
    assert notes[name].startswith(f"{name!r} comes as a mean over batches or silos, which is not")
    assert cure in notes[name]


def test_what_is_a_quotient_of_sums_is_left_alone() -> None:
    hits_of_said = {"precision": Sum(3.0, 7.0), "loss": Sum(1.0, 32.0), "accuracy": Sum(9.0, 32.0)}
    assert notes_on(hits_of_said, [320.0]) == {}
    assert notes_on({"auc": auc([0, 1], logits=[0.1, 0.2])}) == {}
    for name in ("mae", "mse", "macroscopic", "capacity", "autocast", "loss", "top5_accuracy"):
        assert why_no_mean(name, 32.0, [32.0]) is None, name
