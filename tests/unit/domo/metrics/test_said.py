"""What a task's metrics are looked at for before the first round, and in a round."""

import logging
from typing import Any

import pytest

import domo
from domo.errors import TaskError
from domo.metrics import Sum
from domo.metrics.names import main_names
from domo.model.flat import FlatModel
from domo.training.looking.ready import Look, load_tests, look
from tests.support.played.one_round import DATA, local_round, train
from tests.support.tasks.measured import MeasuredDigits


def test_a_mean_that_is_none_is_noted_before_the_first_round(tmp_path: Any) -> None:
    """The doctor, the agent and `try_task` show these notes."""
    task = MeasuredDigits()
    shard = domo.Shard(0, 4)
    notes = look(
        task, FlatModel(task.build_model()), None, load_tests(task, tmp_path, shard), Look(8)
    )
    (note,) = notes
    assert note.startswith("'macro_auc' comes as a mean over batches or silos")
    assert "return domo.metrics.auc(labels, logits=...) in its place" in note


def test_a_simulation_says_it_once(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    more = {"num_rounds": 2, "num_silos": 2, "local_steps": 1}
    with caplog.at_level(logging.WARNING):
        result = domo.simulate(MeasuredDigits(), tmp_path, **more)
    assert [bool(record.notes) for record in result.history] == [True, False, False]
    assert [r.getMessage() for r in caplog.records] == list(result.history[0].notes)


def test_many_names_of_single_classes_are_not_for_a_line() -> None:
    many = [*(f"recall/{i}" for i in range(20)), "loss", "auc", "accuracy"]
    assert main_names(many, "auc") == ["auc", "accuracy", "loss"]
    assert main_names(many, "recall/3")[0] == "recall/3"
    assert main_names(["val/loss", "val/x"]) == ["val/loss", "val/x"]
    assert len(main_names([f"val/{i}" for i in range(20)])) == 12


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": 0.5}, "'a' must be a sum and its count"),
        ({"a": (1, 2, 3)}, "'a' must be a sum and its count"),
        ({"a" * 65: Sum(1, 2)}, "up to 64 characters"),
        ({"a\nb": Sum(1, 2)}, "one printable line"),
        ({f"m{i}": Sum(1, 2) for i in range(65)}, "65 metrics"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_words(given: dict[str, Any], text: str) -> None:
    with pytest.raises(TaskError, match=text):
        local_round().evaluate(lambda model, batch: given, [DATA[:2]])


def test_what_a_loop_logs_is_kept_if_it_is_a_number(caplog: pytest.LogCaptureFixture) -> None:
    rnd = local_round()
    rnd.log(loss=0.5, **{"auc/cat": 1, "norm": float("nan")})
    rnd.log(loss=0.25)
    assert train(rnd).metrics == {"loss": 0.25, "auc/cat": 1.0}
    assert "metric 'norm' is not finite (nan); it is left out" in caplog.text
    with pytest.raises(TaskError, match="one printable line"):
        rnd.log(**{"a\tb": 1.0})
