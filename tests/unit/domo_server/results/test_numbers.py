"""Numbers of many silos: as large as a peer may send them, and read once."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from domo.metrics.table import Table
from domo_server.results import numbers
from domo_server.results.numbers import model_tests, read_points
from domo_server.store.database import open_database
from domo_server.store.measured import Judgement, table_row
from domo_server.store.store import Store


def test_the_spread_of_silos_is_read_once_and_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'a.db'}"))
    for silo_id, value in (("a", 0.5), ("b", 0.9)):
        for index in (0, 1):
            sums = {"accuracy": (10 * value, 10.0), "loss": (1.0, 2.0)}
            sums |= {"far": (1e100 if silo_id == "a" else -1e100, 1e-100)}
            store.add_evaluation("1-r", index, silo_id, sums)
    asked, real = [], store.evaluations_of

    def evaluations_of(*given: Any) -> Any:
        asked.append(given)
        return real(*given)

    monkeypatch.setattr(store, "evaluations_of", evaluations_of)
    _, test = model_tests(store, "1-r", lambda name: "higher")
    store.close()
    assert len(asked) == 1
    assert test.metrics["accuracy"] == pytest.approx(0.7)
    assert test.spread["accuracy"].std == pytest.approx(0.2)
    assert test.spread["accuracy"].worst == "a"
    assert test.spread["loss"].std == 0.0
    assert math.isclose(test.spread["far"].std, 1e200)


def test_tests_of_a_long_run_come_in_pieces(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'a.db'}"))
    for index in (0, 3, 4, 9):
        for silo_id in ("a", "b"):
            store.add_evaluation("1-r", index, silo_id, {"loss": (float(index), 2.0)})

    def pieces(after: int, limit: int | None) -> list[int]:
        found = model_tests(store, "1-r", lambda name: "lower", after, limit)
        assert all(len(test.silos) == 2 for test in found)
        return [test.model_index for test in found]

    assert pieces(-1, None) == [0, 3, 4, 9]
    assert pieces(-1, 3) == [0, 3, 4]
    assert pieces(4, 3) == [9]
    assert pieces(0, 1) == [3]
    assert pieces(-1, 4) == pieces(-1, 5) == [0, 3, 4, 9]
    assert pieces(9, 3) == []
    store.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_long_run_is_read_in_pieces_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'a.db'}"))
    for index in (0, 3, 4, 9):
        for silo_id in ("a", "b"):
            table = Table("confusion", np.array([[index + 1.0, 1], [0, 2]]))
            rows = [table_row(index, silo_id, "confusion", table)] if index != 4 else []
            store.add_evaluation("1-r", index, silo_id, {"loss": (index + 1.0, 2)}, tables=rows)
        if index < 4:
            store.judge("1-r", Judgement(index, "loss", 1.0, 2, {"accuracy": 0.25}), {}, [])
    asked, real = [], store.evaluations_of

    def evaluations_of(run_id: str, first: int = 0, last: int | None = None) -> Any:
        found = real(run_id, first, last)
        asked.append(len({row.model_index for row in found}))
        return found

    monkeypatch.setattr(store, "evaluations_of", evaluations_of)

    def everything() -> list[Any]:
        found = read_points(store, "1-r"), model_tests(store, "1-r", lambda name: "lower")
        return [*found, read_points(store, "1-r", 4), read_points(store, "1-r", 10)]

    whole, found = everything(), asked.copy()
    assert [p.metrics.get("accuracy") for p in whole[0]] == [0.25, 0.25, None, 12 / 13]
    assert found == [4, 4, 2, 0]
    assert store.tested_by("1-r") == {(i, s) for i in (0, 3, 4, 9) for s in ("a", "b")}
    assert store.summed_by("1-r") == {("a", "loss"), ("b", "loss")}
    monkeypatch.setattr(numbers, "PIECE", size)
    assert everything() == whole
    assert max(asked[4:]) == min(size, 4)
    store.close()
