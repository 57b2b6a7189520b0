"""What is said of runs that fall apart, and nothing of those that only look it for a while."""

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest

import domo
from domo.methods import PAPER_METHODS
from domo.run_config import RunConfig
from domo.training.falling_apart import IN_A_ROW, Curve, CurvePoint, advice, falls
from tests.unit.domo.training.real_curves import HOLDS, OVERFITS, README_0_1


def points_of(curve: Sequence[tuple[float, float, float | None]]) -> list[CurvePoint]:
    return [CurvePoint(i, loss, a / 100, train) for i, (a, loss, train) in enumerate(curve)]


def values(*numbers: float | None, loss: float | None = None) -> list[CurvePoint]:
    return [CurvePoint(i, loss, value) for i, value in enumerate(numbers)]


def test_the_example_that_fell_apart_is_told_long_before_its_end() -> None:
    (fall,) = falls(points_of(README_0_1))
    assert (fall.model_index, fall.best) == (20, 7)
    assert fall.sign == (
        "the test loss after round 20, 6.64, is 4.2 times its best, 1.56 after round 6"
    )


@pytest.mark.parametrize("curve", [OVERFITS, HOLDS])
def test_a_run_that_gets_better_to_its_end_does_not(
    curve: list[tuple[float, float, float | None]],
) -> None:
    assert falls(points_of(curve)) == []


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_noisy_runs_of_every_method_do_not(method: str) -> None:
    """Four silos with different digits each: FedAvg loses 15 points from one round to the next."""
    settings: dict[str, Any] = {"method": method, "num_rounds": 20, "seed": 1}
    history = domo.simulate("digits", **settings).history
    made = [r.made_by.train_loss if r.made_by else None for r in history]
    tests = [
        CurvePoint(r.model_index, r.metrics["loss"], r.metrics["accuracy"], loss)
        for r, loss in zip(history, made, strict=True)
    ]
    assert falls(tests) == []


def test_more_tests_take_nothing_back() -> None:
    whole = points_of(README_0_1)
    for n in range(len(whole)):
        assert falls(whole[:n]) == [f for f in falls(whole) if f.model_index < n]


def test_it_is_said_once_each_time() -> None:
    good, bad = [0.8] * 3, [0.5] * (IN_A_ROW + 3)
    found = falls(values(*good, *bad, *good, *bad))
    assert [f.model_index for f in found] == [3 + IN_A_ROW - 1, 3 + IN_A_ROW + 3 + 3 + IN_A_ROW - 1]
    assert "accuracy after round 7, 0.5, is 38 % worse than its best, 0.8" in found[0].sign
    assert falls(values(*good, *bad[: IN_A_ROW - 1], 0.79, *bad[: IN_A_ROW - 1])) == []


def test_a_number_that_is_to_fall_and_one_without_a_loss() -> None:
    found = falls(values(2.0, 1.0, *[1.5] * IN_A_ROW), "error", "lower")
    assert [(f.model_index, f.best) for f in found] == [(IN_A_ROW + 1, 1)]
    only_loss = [CurvePoint(i, loss) for i, loss in enumerate([1.0, *[4.0] * IN_A_ROW])]
    assert [f.best for f in falls(only_loss)] == [0]
    assert falls([]) == falls(values(None, None)) == falls(values(0.0, 0.0)) == []


def test_what_is_not_finite_is_told_at_once_and_once() -> None:
    found = falls(
        [CurvePoint(i, loss) for i, loss in enumerate([1.0, math.nan, math.inf, math.nan])]
    )
    assert [f.model_index for f in found] == [1]
    assert "not finite" in found[0].sign


def test_a_training_loss_that_is_back_where_it_began() -> None:
    losses = [2.0, 0.5, *[2.5] * IN_A_ROW]
    found = falls([CurvePoint(i, 1.0, 0.5, loss) for i, loss in enumerate(losses)])
    assert [f.model_index for f in found] == [IN_A_ROW + 1]
    assert found[0].sign.endswith("2.5, is back above that of the first, 2")


def test_the_advice_names_settings_that_the_run_does_not_have_yet() -> None:
    plain = RunConfig(task="digits", num_rounds=50, num_silos=3)
    assert advice(plain, 7, is_kept=True) == (
        "Begin again with local_lr = 0.01, lr_milestones = [0.6, 0.8], weight_decay = 0.01. "
        "The best model so far is that after round 7, which is kept"
    )
    careful = plain.model_copy(update={"lr_milestones": (0.5,), "weight_decay": 1e-4})
    assert advice(careful, 7, is_kept=False) == (
        "Begin again with local_lr = 0.01. The best model so far is that after round 7"
    )


def test_each_test_is_looked_at_once() -> None:
    """A run of many rounds is looked at after each: not from its start again."""
    tests = [CurvePoint(i, 1.0, 0.5 + i / 10_000) for i in range(800)]
    curve = Curve("accuracy", "higher")
    begun = time.process_time()
    assert [curve.add(test) for test in tests] == [None] * 800
    whole = time.process_time() - begun
    begun = time.process_time()
    curve.add(CurvePoint(800, 1.0, 0.8))
    assert time.process_time() - begun < whole / 20
