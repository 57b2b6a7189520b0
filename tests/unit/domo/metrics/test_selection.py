"""Which model is the best, and when it is enough."""

import pytest

from domo import metrics
from domo.metrics import Sum
from domo.metrics.numbers import numbers_of, shared_numbers
from domo.metrics.selection import Judged, Jury, choose, why_enough


def judged(*values: float | None, silos: dict[int, int] | None = None) -> list[Judged]:
    return [Judged(i, v, (silos or {}).get(i, 4)) for i, v in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "better", "best", "waited"),
    [
        ((0.1, 0.5, 0.3), "higher", 1, 1),
        ((0.1, 0.5, 0.3), "lower", 0, 2),
        ((0.1, 0.5, 0.5, 0.5), "higher", 1, 2),  # of equal ones the earliest
        ((None, 0.2, None, 0.3), "higher", 3, 0),  # what was not measured counts neither way
        ((-0.5, -0.1), "higher", 1, 0),
        ((-0.5, -0.7, -0.6), "lower", 1, 1),
    ],
)
def test_the_best(values: tuple[float | None, ...], better: str, best: int, waited: int) -> None:
    choice = choose(judged(*values), better)  # type: ignore[arg-type]
    assert choice.best is not None
    assert (choice.best.model_index, choice.waited) == (best, waited)


def test_nothing_is_the_best_of_nothing() -> None:
    assert choose([], "higher").best is None
    assert choose(judged(None, None), "lower") == (None, 0)


def test_many_small_steps_are_progress_only_beyond_the_least_difference() -> None:
    rising = judged(0.50, 0.504, 0.508, 0.511, 0.512)
    choice = choose(rising, "higher", 0.01)
    assert choice.best == rising[4]  # still the best
    assert choice.waited == 1  # since 0.511, which is 0.011 above 0.5
    assert choose(rising[:3], "higher", 0.01).waited == 2


def test_a_model_that_fewer_silos_have_tested_is_passed_over_unless_they_stay_fewer() -> None:
    values = judged(0.5, 0.9, 0.6, 0.7, 0.8, silos={1: 1, 3: 3, 4: 3})
    assert choose(values[:3], "higher").best == values[2]
    assert choose(values[:4], "higher").best == values[2]
    assert choose(values, "higher").best == values[4]  # a silo is gone for good


def test_what_is_said_at_the_end() -> None:
    choice = choose(judged(0.1, 0.5, 0.3, 0.4), "higher")
    assert why_enough("auc", choice, 3, 2, 0.0) == (
        "stopped early after round 3: auc did not improve for 2 tests; best was round 1"
    )
    assert why_enough("auc", choice, 3, 3, 0.0) is None
    assert why_enough("auc", choice, 3, None, 0.0) is None
    assert why_enough("auc", choice, 3, 1, 0.01) == (
        "stopped early after round 3: auc did not improve by more than 0.01 for 1 test; best was "
        "round 1"
    )


def test_a_jury_goes_by_what_the_first_model_has() -> None:
    jury = Jury(None, lambda name: "lower" if name == "loss" else None, stop_after=1)
    jury.judge(0, {"wobble": 3.0, "loss": 1.0}, 2)
    assert jury.metric == "loss"
    jury.judge(1, {"wobble": 3.0, "loss": 0.5, "accuracy": 0.1}, 2)
    assert (jury.metric, jury.why_enough) == ("loss", None)
    jury.judge(2, {"loss": 0.5}, 2)
    assert (jury.why_enough or "").startswith("stopped early after round 2: loss")
    jury.take_back()
    assert jury.why_enough is None
    again = Jury(None, lambda name: "lower")
    for one in jury.judged:
        again.recall("loss", one)
    assert (again.metric, again.choice) == ("loss", jury.choice)


def test_of_a_metric_that_nobody_knows_none_is_the_best() -> None:
    jury = Jury(None, lambda name: None, stop_after=1)
    for i in range(4):
        jury.judge(i, {"wobble": 1.0}, 2)
    assert (jury.metric, jury.choice.best, jury.why_enough) == ("wobble", None, None)


def test_a_run_is_judged_by_what_most_silos_measure() -> None:
    silos = [{"loss": Sum(1, 2), "accuracy": Sum(2, 2)}, {"loss": Sum(1, 2)}]
    shared = shared_numbers(silos)
    assert shared == ["loss"]
    jury = Jury(None, lambda name: "lower")
    jury.judge(0, numbers_of(silos), 2, shared)
    assert jury.metric == "loss"
    table = metrics.confusion([0, 1], predictions=[0, 0], classes=("a", "b"))
    assert "accuracy" in shared_numbers(2 * [{"confusion": table}] + [{"other": Sum(1, 2)}])
    given = Jury("accuracy", lambda name: "higher")
    given.judge(0, numbers_of(silos), 2, shared)
    assert given.judged[0].value == 1.0
