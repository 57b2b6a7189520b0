"""The simulation against the page beside the paper; what it promises about order and tests."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from domo import reference
from domo.errors import ConfigError, DivergenceError, LayoutMismatchError
from domo.methods import METHODS, PRESETS, Hyperparameters, make_kernel, method_row
from domo.model.layout import Section
from domo.model.model_file import save_model
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, SimulationResult, simulate
from domo.tasks.base import (
    ArrayDataset,
    Shard,
    Sum,
    classification_sums,
    cross_entropy_loss,
)
from domo.training.batches import BatchLoader, random_plan
from domo.training.initial import build_initial, build_model

FEATURES, CLASSES = 5, 3
SIZES = {"silo-0": 20, "silo-1": 11, "silo-10": 14, "silo-2": 10}
WEIGHTS = {"silo-0": 1.0, "silo-1": 2.5, "silo-10": 0.4, "silo-2": 3.0}


def data_of(silo_id: str, purpose: str, size: int) -> ArrayDataset:
    source = torch.Generator().manual_seed(sum(map(ord, silo_id + purpose)))
    inputs = torch.randn(size, FEATURES, generator=source)
    return ArrayDataset(inputs, torch.randint(0, CLASSES, (size,), generator=source))


class LinearTask:
    """A linear softmax classifier."""

    def build_model(self) -> nn.Module:
        return nn.Linear(FEATURES, CLASSES)

    def train_data(self, root: Path, shard: Shard | None) -> Dataset:
        raise NotImplementedError

    def loss(self, model: nn.Module, batch) -> Tensor:
        return cross_entropy_loss(model, batch)

    def evaluate(self, model: nn.Module, batch) -> dict[str, Sum]:
        return classification_sums(model, batch)


class BufferTask(LinearTask):
    """With BatchNorm (float and integer buffers) and a frozen layer."""

    def build_model(self) -> nn.Module:
        model = nn.Sequential(
            nn.Linear(FEATURES, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, CLASSES)
        )
        model[0].weight.requires_grad_(False)
        return model


def silos(**changes) -> list[SimulatedSilo]:
    made = [
        SimulatedSilo(k, BatchLoader(data_of(k, "train", n)), BatchLoader(data_of(k, "eval", 7)))
        for k, n in SIZES.items()
    ]
    return [replace(s, **changes) for s in made]


def config(**changes) -> RunConfig:
    given = {"task": "linear", "num_rounds": 4, "num_silos": 4, "batch_size": 4, "local_lr": 0.1}
    return RunConfig(**(given | changes))


def same(a: SimulationResult, b: SimulationResult) -> bool:
    pairs = [(a.vectors[s], b.vectors[s]) for s in Section] + [(a.m, b.m)]
    return all(torch.equal(u, v) for u, v in pairs)


def as_printed(c: RunConfig) -> reference.Server:
    """The page beside the paper in float64; nothing of ours but the batch order."""
    roster = sorted(SIZES)
    model = build_model(LinearTask(), c.seed).double()
    x_0 = nn.utils.parameters_to_vector(model.parameters()).detach()

    def gradient(r: int, k: int, p: int, x: Tensor) -> Tensor:
        data = data_of(roster[k], "train", SIZES[roster[k]])
        plan = random_plan(len(data), c.batch_size, c.seed, roster[k], r)
        where = next(islice(plan, p, None))
        nn.utils.vector_to_parameters(x, model.parameters())
        batch = data.inputs[where].double(), data.labels[where]
        grads = torch.autograd.grad(cross_entropy_loss(model, batch), list(model.parameters()))
        return torch.cat([g.reshape(-1) for g in grads])

    rounds = []
    for r in range(c.num_rounds):
        silos = {}
        for s in c.participants_at(r, roster):
            silos[roster.index(s)] = c.weight_of(s, SIZES[s]), c.steps_at(r, s, SIZES[s])
        rounds.append(reference.Round(c.lr_at(r), silos))
    total = sum(c.weight_of(s, SIZES[s]) for s in roster)
    return reference.train(c.kernel, x_0, rounds, gradient, total)[-1]


@pytest.mark.parametrize(
    "method",
    [m for m in (*METHODS, *PRESETS) if make_kernel(m, Hyperparameters()).optimizer == "SGD"],
)
@pytest.mark.parametrize(
    ("weights", "step_norm"), [("uniform", "per_silo"), ("samples", "per_silo"), (WEIGHTS, "delta")]
)
def test_every_method_is_the_algorithm_as_printed(method, weights, step_norm):
    c = config(
        method=method,
        weights=weights,
        step_norm=step_norm,
        weight_decay=0.01,
        lr_milestones=(0.5,),
        local_epochs=1.5,
        participation=3,
        server_lr=0.8,
    )
    result = simulate(c, LinearTask(), silos())
    printed = as_printed(c)
    torch.testing.assert_close(result.x.double(), printed.x, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(result.m.double(), printed.m, rtol=1e-3, atol=2e-5)
    assert (result.mbar is not None) == (method_row(method).round_end == "average")
    if result.mbar is not None:
        torch.testing.assert_close(result.mbar.double(), printed.mbar, rtol=1e-3, atol=2e-5)


def test_same_config_and_seed_same_bytes_in_any_order_of_silos():
    c = config(method="DOMO-S", local_epochs=2)
    a = simulate(c, BufferTask(), silos())
    torch.manual_seed(99)
    b = simulate(c, BufferTask(), silos()[::-1])
    assert same(a, b)
    assert a.history == b.history
    assert not same(a, simulate(c.model_copy(update={"seed": 1}), BufferTask(), silos()))


def test_one_module_for_all_silos_leaks_nothing():
    """A silo's update does not depend on who trained before it."""
    alone = config(num_rounds=1, participants=(("silo-2",),))
    after = config(num_rounds=1, participants=(("silo-0", "silo-1", "silo-2"),))
    weights = {"silo-0": 1e-30, "silo-1": 1e-30, "silo-2": 1.0}
    a = simulate(alone, BufferTask(), silos())
    b = simulate(after.model_copy(update={"weights": weights}), BufferTask(), silos())
    torch.testing.assert_close(a.x, b.x, rtol=0, atol=1e-7)


def test_identities_hold_to_the_bit():
    def run(method, **changes):
        return simulate(config(method=method, **changes), BufferTask(), silos())

    assert same(run("DOMO", fusion_coef=0), run("FedAvgSLM-Z"))
    assert same(run("DOMO-S", fusion_coef=0), run("FedAvgSLM-Z"))
    assert same(run("FedAvgSM", server_momentum=0), run("FedAvg"))
    assert same(run("FedAvgLM", local_momentum=0), run("FedAvg"))
    assert not same(run("DOMO"), run("FedAvgSLM-Z"))


def test_roster_is_bytewise_and_participants_are_in_its_order():
    result = simulate(config(), LinearTask(), silos())
    for record in result.history[1:]:
        assert record.made_by.participants == ("silo-0", "silo-1", "silo-10", "silo-2")
        assert record.made_by.steps == (5, 3, 4, 3)
    assert result.history[0].made_by is None


def test_a_sampled_run_is_repeated_by_listing_its_participants():
    c = config(method="DOMO", participation=2)
    sampled = simulate(c, BufferTask(), silos())
    who = tuple(r.made_by.participants for r in sampled.history[1:])
    assert {len(w) for w in who} == {2}
    listed = config(method="DOMO", participants=who)
    assert same(sampled, simulate(listed, BufferTask(), silos()))


def test_buffers_float_mean_integer_first_frozen_untouched():
    c = config(num_rounds=1, weights="samples")
    start = build_initial(BufferTask(), c.seed)[1]
    result = simulate(c, BufferTask(), silos())
    assert result.buffers[Section.INTEGER_BUFFER].view(torch.int64).tolist() == [5]  # silo-0's P
    assert torch.equal(result.buffers[Section.FROZEN], start[Section.FROZEN])
    floats, n = torch.zeros_like(start[Section.FLOAT_BUFFER]), sum(SIZES.values())
    for silo_id, size in SIZES.items():
        one = simulate(config(num_rounds=1, participants=((silo_id,),)), BufferTask(), silos())
        floats += one.buffers[Section.FLOAT_BUFFER] * size / n
    torch.testing.assert_close(result.buffers[Section.FLOAT_BUFFER], floats)


def test_test_numbers_are_exact_over_all_silos():
    c = config(num_rounds=3, participation=1)
    result = simulate(c, LinearTask(), silos())
    assert [r.model_index for r in result.history] == [0, 1, 2, 3]
    model = build_model(LinearTask(), c.seed)
    nn.utils.vector_to_parameters(result.x, model.parameters())
    held_out = [data_of(k, "eval", 7) for k in SIZES]
    inputs = torch.cat([d.inputs for d in held_out])
    labels = torch.cat([d.labels for d in held_out])
    with torch.no_grad():
        sums = classification_sums(model, (inputs, labels))
    last = result.history[-1].metrics
    assert last["accuracy"] == sums["accuracy"].total / 28
    assert last["loss"] == pytest.approx(sums["loss"].total / 28, rel=1e-6)


def test_evaluation_changes_no_byte_and_keeps_its_interval():
    often = simulate(config(), BufferTask(), silos())
    never = simulate(config(evaluate_every=0), BufferTask(), silos())
    thrice = simulate(config(evaluate_every=3), BufferTask(), silos())
    nobody = simulate(config(), BufferTask(), silos(evaluation=None))
    assert same(often, never)
    assert same(often, nobody)
    assert [bool(r.metrics) for r in thrice.history] == [True, False, False, True, True]
    assert not any(r.metrics for r in never.history)


def test_an_evaluator_is_not_on_the_roster():
    judge = SimulatedSilo("judge", None, BatchLoader(data_of("judge", "eval", 30)))
    trainers = silos(evaluation=None)
    result = simulate(config(), BufferTask(), [*trainers, judge])
    assert same(result, simulate(config(), BufferTask(), trainers))
    assert result.history[-1].metrics["accuracy"] * 30 == pytest.approx(
        round(result.history[-1].metrics["accuracy"] * 30)
    )


def test_records_say_what_happened():
    seen = []
    c = config(method="DOMO", lr_milestones=(0.5,), server_lr=0.5, weights="samples")
    result = simulate(c, LinearTask(), silos(), on_model=seen.append)
    assert seen == result.history
    made = result.history[-1].made_by
    p_ref = sum(n * p for n, p in zip((20, 11, 14, 10), (5, 3, 4, 3), strict=True)) / 55
    assert made.local_lr == pytest.approx(0.01)
    assert made.inference_scale == pytest.approx(0.5 * 0.01 * p_ref)
    assert 0 < made.train_loss < 3


def test_starts_from_a_file(tmp_path):
    layout, vectors = build_initial(BufferTask(), 7)
    save_model(tmp_path / "x0.safetensors", layout, vectors)
    path = str(tmp_path / "x0.safetensors")
    given = simulate(config(initial_model=path), BufferTask(), silos())
    assert not same(given, simulate(config(), BufferTask(), silos()))
    assert torch.equal(given.buffers[Section.FROZEN], vectors[Section.FROZEN])
    with pytest.raises(LayoutMismatchError, match="does not match"):
        simulate(config(initial_model=path), LinearTask(), silos())


def test_divergence_names_round_and_silo():
    with pytest.raises(DivergenceError, match=r"round \d, silo-\d+: .*local_lr"):
        simulate(config(local_lr=1e30, weight_decay=1), LinearTask(), silos())


class HugeBuffer(LinearTask):
    """A buffer whose mean overflows."""

    def build_model(self) -> nn.Module:
        model = super().build_model()
        model.register_buffer("huge", torch.full((2,), 3e38))
        return model

    def loss(self, model, batch):
        model.huge.sub_(1e36 * batch[0].mean().abs())  # each silo has another value
        return super().loss(model, batch)


class Constants(LinearTask):
    """Buffers that do not change: a causal mask, what is nowhere defined, a third; one that does.

    Their float32 sums over three silos are not three times themselves.
    """

    def build_model(self) -> nn.Module:
        model = super().build_model()
        mask = torch.full((3, 3), float("-inf")).triu(1)
        model.register_buffer("mask", mask)
        model.register_buffer("undefined", torch.full((2,), float("nan")))
        model.register_buffer("some", torch.linspace(0.01, 0.9, 50))
        model.register_buffer("ema", torch.zeros(2))
        return model

    def loss(self, model, batch):
        model.ema = 0.5 * model.ema + 0.5 * batch[0].mean().detach().expand(2)
        return super().loss(model, batch)


def test_constant_buffers_stay_as_they_are():
    result = simulate(config(num_silos=3), Constants(), silos()[:3])
    x0 = Constants().build_model().state_dict()
    for name in ("mask", "undefined", "some"):
        made = result.state_dict[name]
        assert torch.equal(made.view(torch.int32), x0[name].view(torch.int32)), name
    third = torch.stack([x0["some"]] * 3).sum(0) / 3
    assert not torch.equal(third, x0["some"])  # a mean would not have been the same


def test_a_buffer_that_is_assigned_is_part_of_the_model():
    ema = simulate(config(), Constants(), silos()).state_dict["ema"]
    assert torch.isfinite(ema).all()
    assert (ema != 0).all()


class Spoils(Constants):
    """A constant that comes to hold other values that are not finite."""

    def loss(self, model, batch):
        model.mask[0, 0] = float("inf")
        return super().loss(model, batch)


def test_a_value_that_becomes_infinite_is_named():
    with pytest.raises(DivergenceError, match=r"round 1, silo-0: .*1 entries of the buffer mask"):
        simulate(config(), Spoils(), silos())


def test_a_mean_that_overflows_is_no_model():
    with pytest.raises(DivergenceError, match="mean of the float buffers would have 2 non-finite"):
        simulate(config(), HugeBuffer(), silos())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"num_silos": 3}, "the run has 3 silos, 4 have training data"),
        ({"num_silos": None, "roster": ("silo-0", "a", "b", "c")}, "are not the run's roster"),
        ({"weights": {"silo-0": 1.0}}, "weights has no entry for silo-1"),
    ],
)
def test_silos_that_do_not_fit_the_run(changes, text):
    with pytest.raises(ConfigError, match=text):
        simulate(config(**changes), LinearTask(), silos())


def test_silos_are_needed_and_named_once():
    with pytest.raises(ConfigError, match="same name"):
        simulate(config(), LinearTask(), [*silos(), silos()[0]])
    with pytest.raises(ConfigError, match="0 have training data"):
        simulate(config(), LinearTask(), silos(train=None))
