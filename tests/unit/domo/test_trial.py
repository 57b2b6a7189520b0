"""`domo.simulate`: what is given, over what is there by default."""

from typing import Any

import pytest
import torch

import domo
from domo.trial import laid_over

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
