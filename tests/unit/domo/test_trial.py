"""`domo.simulate`: what is given, over what is there by default."""

from operator import mul
from typing import Any

import pytest
import torch
from torch import nn

import domo
from domo.history.records import RunFacts
from domo.simulated import history_of
from domo.simulating.state import ModelRecord, RoundRecord
from domo.trial import laid_over


class Own:
    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def train_data(self, root: Any, shard: Any) -> Any:
        raise NotImplementedError

    loss = staticmethod(domo.cross_entropy_loss)
    evaluate = staticmethod(domo.classification_sums)


NAMED = domo.RunConfig(task="digits", num_rounds=1, roster=["b", "a"], local_steps=1)


@pytest.mark.parametrize(
    ("settings", "silos", "steps"),
    [
        ({"num_rounds": 1, "roster": ["b", "a"], "local_steps": 1}, ("a", "b"), (1, 1)),
        ({"config": NAMED}, ("a", "b"), (1, 1)),
        ({"config": NAMED, "num_silos": 1}, ("silo-0",), (1,)),
        ({"config": NAMED, "num_silos": 1, "local_epochs": 0.1}, ("silo-0",), (5,)),
    ],
)
def test_a_setting_takes_the_place_of_others_that_say_the_same(
    settings: dict[str, Any], silos: tuple[str, ...], steps: tuple[int, ...]
) -> None:
    made_by = domo.simulate(**settings).history[-1].made_by
    assert made_by is not None
    assert (made_by.participants, made_by.steps) == (silos, steps)


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(domo.ConfigError, match="num_silos or roster, not both"):
        domo.simulate("digits", num_silos=2, roster=["a", "b"])


def test_datasets_by_name_are_the_roster_unless_a_number_is_given() -> None:
    task = domo.load_task("digits")
    held = {name: task.train_data(".", domo.Shard(0, 20, 0.5, 0)) for name in ("b", "a")}
    few = {"num_rounds": 1, "local_steps": 1}
    for settings in (few, few | {"num_silos": 2}, few | {"config": NAMED}):
        made_by = domo.simulate(task, held, **settings).history[-1].made_by
        assert made_by is not None
        assert made_by.participants == ("a", "b")


def test_what_is_given_goes_before_defaults_and_changes_neither() -> None:
    base, given = {"num_silos": 4, "seed": 1, "batch_size": 8}, {"roster": ["a"], "seed": 2}
    assert laid_over(base, given) == {"batch_size": 8, "roster": ["a"], "seed": 2}
    assert base == {"num_silos": 4, "seed": 1, "batch_size": 8}


@pytest.mark.parametrize("exact", [False, True])
def test_torch_is_left_as_it_was_also_after_a_fault(exact: bool) -> None:
    torch.set_num_threads(3)
    torch.use_deterministic_algorithms(exact)
    drawn = torch.get_rng_state()
    domo.simulate("digits", num_rounds=1, local_steps=1)
    with pytest.raises(domo.DivergenceError):
        domo.simulate("digits", num_rounds=1, local_steps=2, local_lr=1e38)
    assert torch.get_num_threads() == 3
    assert torch.are_deterministic_algorithms_enabled() == exact
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.equal(torch.get_rng_state(), drawn)
    torch.use_deterministic_algorithms(False)


def test_what_a_notebook_shows_of_a_result_is_a_line() -> None:
    made = domo.simulate(config=NAMED)
    last = made.history[-1].metrics
    line = f"accuracy {last['accuracy']:.4g}, loss {last['loss']:.4g}; best accuracy: x_"
    assert repr(made) == f"<SimulationResult: 1 round, {line}{made.best_index}>"


def test_a_configuration_may_come_first() -> None:
    config = domo.RunConfig(
        task="digits", num_rounds=1, num_silos=2, local_steps=1, method="FedAvg"
    )
    first, named = domo.simulate(config), domo.simulate(config=config)
    assert first.checkpoint_digest == named.checkpoint_digest
    assert first.to_history() == named.to_history()
    held = {s: domo.ArrayDataset(torch.rand(8, 1, 8, 8), torch.arange(8)) for s in ("a", "b")}
    own = domo.simulate(config, task=Own(), data=held)
    facts = own.to_history().facts
    assert (facts.method, facts.num_silos) == ("FedAvg", 2)
    assert facts.task == "tests.unit.domo.test_trial:Own"
    assert own.to_history().rounds[0].participants == ("a", "b")


@pytest.mark.parametrize(
    ("what", "given", "text"),
    [
        (NAMED, {"config": NAMED}, "two configurations"),
        ("digits", {"task": "digits"}, "two tasks"),
        ({"task": "digits"}, {}, r"not dict; settings are given by name, as \*\*settings"),
        (5, {}, "the first argument is a domo.RunConfig, a task's name, or an object"),
        (Own, {}, r"Own is a class; give an object: Own\(\)"),
    ],
)
def test_what_comes_first_is_looked_at(what: Any, given: dict[str, Any], text: str) -> None:
    with pytest.raises(domo.ConfigError, match=text):
        domo.simulate(what, **given)


def test_the_history_of_a_simulation() -> None:
    made = domo.simulate(
        "digits", num_rounds=3, num_silos=3, participation=2, local_steps=2, seed=4
    )
    history = made.to_history()
    records = [r.made_by for r in made.history[1:]]
    for rnd, record in zip(history.rounds, records, strict=True):
        assert record is not None
        assert (rnd.participants, rnd.steps) == (record.participants, record.steps)
        assert (rnd.local_lr, rnd.train_loss) == (record.local_lr, record.train_loss)
        assert (rnd.duration_s, rnd.update_bytes) == (None, None)
        losses, weights = [[getattr(k, n) for k in rnd.silos] for n in ("train_loss", "weight")]
        assert len(set(losses)) == 2
        of_all = sum(map(mul, losses, weights)) / sum(weights)
        assert rnd.train_loss == pytest.approx(of_all)
    assert [t.metrics for t in history.tests] == [r.metrics for r in made.history]
    assert history.tests[2].silos == made.history[2].silos
    facts = history.facts
    assert (facts.mode, facts.seed, facts.num_silos, facts.num_rounds) == ("exact", 4, 3, 3)
    assert facts.digest == made.checkpoint_digest
    assert (facts.best_index, facts.best_value) == (made.best_index, made.best_value)
    assert made.to_pandas().equals(history.to_pandas())
    assert made.silos_to_pandas().equals(history.silos_to_pandas())
    assert made._repr_html_() == history._repr_html_()
    curve = list(history.curve("accuracy").values())
    assert curve == made.accuracies


def test_a_round_without_silos_is_none() -> None:
    one = RoundRecord(("a",), (1,), 0.1, 0.5, 0.1)
    records = [ModelRecord(0, {}, None), ModelRecord(1, {}, one), ModelRecord(2, {}, one)]
    assert [r.round_index for r in history_of(records, RunFacts()).rounds] == [0]
