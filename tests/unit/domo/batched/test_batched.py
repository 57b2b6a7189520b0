"""The fast simulator against the exact one: the same run, but for rounding."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

import domo
from domo.batched import measure, together
from domo.errors import ConfigError, DivergenceError
from domo.methods import METHODS, PRESETS, Hyperparameters, make_kernel
from domo.tasks.augment import augmentation
from domo.tasks.base import ArrayDataset, classification_sums, cross_entropy_loss
from domo.tasks.datasets import PixelDataset
from domo.tasks.models import mlp

SETTINGS = {"num_rounds": 3, "local_steps": 6, "batch_size": 16, "weight_decay": 5e-4, "seed": 3}


def data(sizes=(40, 40, 40), kind=ArrayDataset):
    """Silos that see mostly one class each."""
    torch.manual_seed(0)
    made = {}
    for k, n in enumerate(sizes):
        labels = torch.where(torch.rand(n) < 0.3, torch.randint(3, (n,)), torch.full((n,), k % 3))
        inputs = torch.randn(n, 1, 4, 4) + labels.view(-1, 1, 1, 1) * 0.5
        if kind is PixelDataset:
            inputs = (inputs * 40 + 120).clamp(0, 255).byte()
            part = PixelDataset(inputs, labels, [0.5], [0.2])
        else:
            part = kind(inputs, labels)
        made[f"silo-{k}"] = (part, part)
    return made


class Small:
    """An MLP on 4x4 inputs; subclasses change a part."""

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    def build_model(self):
        return mlp((16, 8, 3))

    def train_data(self, root, shard):
        raise NotImplementedError


class OwnLoss(Small):
    """A loss that the package does not know, which looks at the whole batch."""

    def loss(self, model, batch):
        inputs, labels = batch
        logits = model(inputs)
        return functional.cross_entropy(logits, labels) + 0.1 * logits.std(0).sum()


class Augmented(Small):
    augment = staticmethod(augmentation([0.5], [0.2]))


class OwnAugment(Small):
    def augment(self, batch, generator):
        inputs, labels = batch
        return inputs + torch.randn(inputs.shape, generator=generator), labels


def both(task, silos, **settings):
    given = SETTINGS | settings
    if settings.keys() & {"local_epochs", "local_steps_list"}:
        del given["local_steps"]
    run = functools.partial(domo.simulate, task(), silos, **given)
    exact, batched = run(), run(mode="batched")
    assert (exact.mode, batched.mode) == ("exact", "batched")
    assert (exact.to_history().facts.mode, batched.to_history().facts.mode) == ("exact", "batched")
    assert "batched" in batched._repr_html_()
    return exact, batched


def check_close(exact, batched):
    torch.testing.assert_close(batched.x, exact.x, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(batched.m, exact.m, rtol=1e-4, atol=1e-5)
    assert len(batched.history) == len(exact.history)
    for ours, theirs in zip(batched.history, exact.history, strict=True):
        assert ours.silos.keys() == theirs.silos.keys()
        assert ours.metrics == pytest.approx(theirs.metrics, rel=1e-3)
        if theirs.made_by is not None:
            assert ours.made_by.participants == theirs.made_by.participants
            assert ours.made_by.steps == theirs.made_by.steps
            assert ours.made_by.train_loss == pytest.approx(theirs.made_by.train_loss, rel=1e-4)


@pytest.mark.parametrize(
    "method",
    [m for m in (*METHODS, *PRESETS) if make_kernel(m, Hyperparameters()).optimizer == "SGD"],
)
def test_every_method_ends_where_the_exact_loop_ends(method):
    check_close(*both(Small, data(), method=method, local_lr=0.05))


@pytest.mark.parametrize("task", [OwnLoss, Augmented, OwnAugment])
def test_own_losses_and_augmentation_draw_what_they_draw_in_the_exact_loop(task):
    check_close(*both(task, data()))


@pytest.mark.parametrize(
    "settings",
    [
        {"participation": 2, "num_rounds": 4},
        {"local_steps_list": (3, {"silo-0": 2, "silo-1": 5, "silo-2": 2}, 4)},
        {"weights": "samples", "step_norm": "delta", "local_epochs": 1.0},
        {"weights": "samples", "local_steps": 7},
        {"lr_milestones": (0.5,), "drop_last": True},
    ],
    ids=["participation", "list", "epochs", "ragged", "drop_last"],
)
def test_silos_that_differ_in_size_steps_and_weight(settings):
    sizes = (40, 33, 57)  # the last batches of a pass differ in size
    check_close(*both(Small, data(sizes), **settings))


@pytest.mark.parametrize("kind", [ArrayDataset, PixelDataset])
def test_silos_that_are_tested_together_have_numbers_of_their_own(kind, monkeypatch):
    silos = data((40, 300, 41), kind) | {"silo-9": (data((30,), kind)["silo-0"][0], None)}
    exact = domo.simulate(Small(), silos, **SETTINGS)
    monkeypatch.setattr(measure, "MOST_BYTES", 0)  # so that batches hold the ends of silos
    monkeypatch.setattr(together, "visit", None)
    batched = domo.simulate(Small(), silos, mode="batched", **SETTINGS)
    for ours, theirs in zip(batched.history, exact.history, strict=True):
        assert ours.silos.keys() == theirs.silos.keys() == {"silo-0", "silo-1", "silo-2"}
        for silo_id, numbers in theirs.silos.items():
            assert ours.silos[silo_id] == pytest.approx(numbers, rel=1e-4)


def test_another_test_is_called_silo_by_silo():
    class Own(Small):
        def evaluate(self, model, batch):
            return {"largest": (float(model(batch[0]).max()) * len(batch[0]), len(batch[0]))}

    check_close(*both(Own, data()))


def test_frozen_layers_and_constant_buffers():
    class Frozen(Small):
        def build_model(self):
            model = nn.Sequential(mlp((16, 8, 3)), Scale())
            model[0][1].requires_grad_(False)
            return model

    exact, batched = both(Frozen, data())
    check_close(exact, batched)
    assert all(torch.equal(batched.buffers[s], exact.buffers[s]) for s in exact.buffers)


class Scale(nn.Module):
    """A buffer that nothing changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.tensor([0.5]))

    def forward(self, x):
        return x * self.factor


class Counting(nn.Module):
    """A buffer that counts batches."""

    def __init__(self):
        super().__init__()
        self.register_buffer("num", torch.zeros(1))

    def forward(self, x):
        if self.training:
            self.num += 1
        return x


class Centred(nn.Module):
    """What one sample gives depends on the others."""

    def forward(self, x):
        return x - x.mean(0)


def with_(layer):
    class Task(Small):
        def build_model(self):
            return nn.Sequential(mlp((16, 8, 8)), layer(), nn.Linear(8, 3))

    return Task


class Clipped(Small):
    def on_gradients(self, model):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


class Penalty(Small):
    def loss(self, model, batch):
        penalty = sum(p.square().sum() for p in model.parameters())
        return cross_entropy_loss(model, batch) + penalty


@pytest.mark.parametrize(
    ("task", "settings", "said"),
    [
        (with_(functools.partial(nn.BatchNorm1d, 8)), {}, "statistics over a batch"),
        (with_(nn.Dropout), {}, "drops at random"),
        (with_(Counting), {}, "changes buffers"),
        (with_(Centred), {}, "a loss over a batch has to be a mean"),
        (Clipped, {}, "on_gradients"),
        (Penalty, {}, "cannot be batched"),
        (Small, {"update_dtype": "bfloat16"}, "update_dtype is bfloat16"),
    ],
    ids=["batch norm", "dropout", "buffer", "centred", "clipped", "penalty", "16 bits"],
)
def test_what_cannot_be_batched_is_refused_and_exact_in_auto(task, settings, said, caplog):
    settings = SETTINGS | {"num_rounds": 2} | settings
    with pytest.raises(ConfigError, match=said):
        domo.simulate(task(), data(), mode="batched", **settings)
    caplog.set_level("INFO")
    result = domo.simulate(task(), data(), mode="auto", **settings)
    assert result.mode == "exact"
    assert any(said in r.getMessage() for r in caplog.records)
    assert torch.equal(result.x, domo.simulate(task(), data(), **settings).x)


def test_what_diverges_names_the_round_and_the_silo():
    class Linear(Small):
        def build_model(self):
            return mlp((16, 3))

    made = data()
    made["silo-1"][0].inputs[:] = 1e25  # finite itself; after a step its products are not
    with pytest.raises(DivergenceError, match=r"round 1, silo-1"):
        domo.simulate(Linear(), made, mode="batched", **SETTINGS)


def test_a_mode_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="exact, batched or auto"):
        domo.simulate(Small(), data(), mode="fast", **SETTINGS)


def test_half_precision_is_close():
    plain = domo.simulate(Small(), data(), mode="batched", **SETTINGS)
    half = domo.simulate(Small(), data(), mode="batched", precision="bf16", **SETTINGS)
    assert not torch.equal(plain.x, half.x)
    assert (plain.x - half.x).norm() < 0.05 * plain.x.norm()


def test_a_precision_is_of_batched_silos():
    with pytest.raises(ConfigError, match="precision"):
        domo.simulate(Small(), data(), precision="bf16", **SETTINGS)


def test_images_that_are_kept_as_pixels():
    check_close(*both(Augmented, data(kind=PixelDataset)))
