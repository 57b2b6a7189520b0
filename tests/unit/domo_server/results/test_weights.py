"""No silo's numbers count for more than the samples that it enrolled with."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from domo.errors import ProtocolError
from domo.metrics.table import Sum, Table
from domo_server.results.evaluations import check_counts
from domo_server.results.numbers import metric_points
from domo_server.results.weights import ITEMS, too_heavy
from domo_server.store.measured import EvaluationRow, table_row

SAMPLES = {"a": 100, "b": 200, "c": 50}


def heavy(*counts: float, **samples: int) -> dict[str, float]:
    nums = {name: {"accuracy": n} for name, n in zip("abc", counts, strict=False)}
    return {name: f for (name, _), f in too_heavy(nums, {**SAMPLES, **samples}).items()}


def test_honest_counts_of_whatever_kind_stay_as_they_are() -> None:
    assert heavy(100, 200, 50) == {}, "samples"
    assert heavy(100 * 4096, 200 * 4096, 50 * 16384) == {}, "pixels"
    assert heavy(70_000, 70_000, 70_000) == {}, "words"
    assert heavy(12, 30, 50) == {}, "those of one class"
    assert heavy(1e9) == {}, "alone it is a mean"


def test_who_counts_more_than_it_has_counts_for_what_it_has() -> None:
    assert heavy(100, 2e11) == {"b": 200 / 2e11}, "with two silos"
    assert heavy(1e11, 200, 50) == {"a": 100 / 1e11}
    assert heavy(100, 200, 60) == {"c": 50 / 60}, "where all others count samples, so must it"
    assert heavy(100 * 64, 200 * 64, 50 * 64e6) == {"c": pytest.approx(ITEMS / 1e6)}
    assert heavy(100, 200, 50, c=0) == {"c": 0.0}, "one without test samples"


def points(rows: Mapping[str, Mapping[str, Any]], **samples: int) -> Any:
    sums = [
        EvaluationRow(1, s, m, *one)
        for s, mine in rows.items()
        for m, one in mine.items()
        if isinstance(one, Sum)
    ]
    tables = [
        table_row(1, s, m, one)
        for s, mine in rows.items()
        for m, one in mine.items()
        if isinstance(one, Table)
    ]
    (point,) = metric_points(sums, tables, (), {**SAMPLES, **samples})
    return point


def test_one_silo_cannot_set_the_federations_accuracy() -> None:
    honest = {"a": {"accuracy": Sum(90, 100)}}
    assert points({**honest, "b": {"accuracy": Sum(0.0, 1e60)}}).metrics == {
        "accuracy": pytest.approx(90 / 300)
    }
    assert points({**honest, "b": {"accuracy": Sum(0.0, 1e60)}}).num_samples == 300
    assert points({**honest, "b": {"accuracy": Sum(0.0, 1e9)}}, b=0).metrics == {"accuracy": 0.9}


def confusion(right: float, wrong: float) -> Table:
    return Table("confusion", np.array([[right, wrong], [wrong, right]], dtype=np.float64))


def test_tables_are_bounded_likewise() -> None:
    rows = {"a": {"confusion": confusion(45, 5)}, "b": {"confusion": confusion(0, 1e12)}}
    assert points(rows).metrics["accuracy"] == pytest.approx(90 / 300)


def test_a_sum_of_one_silo_does_not_stand_for_the_tables_of_all() -> None:
    tables = {s: {"confusion": confusion(n / 2, 0)} for s, n in SAMPLES.items()}
    alone = {**tables, "c": {**tables["c"], "balanced_accuracy": Sum(0.0, 50)}}
    assert points(alone).metrics["balanced_accuracy"] == 1.0
    mine = {"balanced_accuracy": Sum(0.5, 1.0)}
    most = {s: {**tables[s], **mine} if s != "c" else tables[s] for s in SAMPLES}
    assert points(most).metrics["balanced_accuracy"] == 0.5, "they say so themselves"


def test_counts_that_no_sample_has_are_refused() -> None:
    check_counts("a", {"loss": Sum(1.0, 1e11)}, 100)
    with pytest.raises(ProtocolError, match=r"counts 1e.13, and it has enrolled with 100 test"):
        check_counts("a", {"loss": Sum(1.0, 1e13)}, 100)
    with pytest.raises(ProtocolError, match="has enrolled without test samples"):
        check_counts("a", {"loss": Sum(1.0, 1.0)}, 0)
