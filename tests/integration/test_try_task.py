"""`try_task` says what is wrong with a task, and nothing of one that is right."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo
from domo_client.testing import try_task
from domo_server import testing

NOBODY = "127.0.0.1:1"
"""Faults that are seen before anybody dials."""


class Good:
    """Dropout and augmentation, drawn as they should be."""

    def build_model(self):
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 3))

    def train_data(self, root, shard):
        inputs = torch.linspace(-1, 1, 160).view(40, 2, 2)
        return domo.ArrayDataset(inputs, torch.arange(40) % 3)

    def eval_data(self, root, shard):
        return self.train_data(root, shard)

    def augment(self, batch, generator):
        inputs, labels = batch
        return inputs + 0.1 * torch.randn(inputs.shape, generator=generator), labels

    loss = staticmethod(domo.cross_entropy_loss)
    evaluate = staticmethod(domo.classification_sums)


def changed(**methods: Callable[..., Any]) -> domo.Task:
    return type("Changed", (Good,), methods)()


def fails(self, *_: Any) -> Any:
    raise ValueError("the scanner is broken")


def exits(self, *_: Any) -> Any:
    raise SystemExit("the licence has expired")


def untrained(self) -> nn.Module:
    return nn.Linear(4, 3).requires_grad_(False)


class Restless(domo.ArrayDataset):
    def stacked(self, indices):
        inputs, labels = super().stacked(indices)
        return inputs + torch.rand(()), labels


def restless(self, root, shard) -> Restless:
    return Restless(torch.zeros(9, 2, 2), torch.zeros(9).long())


def empty(self, root, shard) -> domo.ArrayDataset:
    return domo.ArrayDataset(torch.zeros(0, 2, 2), torch.zeros(0).long())


WRONG = [
    ({"build_model": fails}, r"build_model\(\) fails: ValueError: the scanner is broken"),
    ({"build_model": untrained}, "no trainable parameter"),
    ({"train_data": fails}, r"train_data\(root, shard\) fails: ValueError"),
    ({"train_data": empty}, "the dataset of train_data is empty"),
    ({"train_data": restless}, "train_data gives other items each time: .* belongs into augment"),
    ({"eval_data": fails}, r"eval_data\(root, shard\) fails"),
    (
        {"augment": lambda self, b, g: (torch.rand(9, 4), b[1][:9])},
        "from `generator` alone",
    ),
    (
        {"loss": lambda self, m, b: m(b[0])},
        r"must give one number, and gives a tensor of shape \[32",
    ),
    ({"loss": lambda self, m, b: torch.zeros(())}, "must give one number with a gradient"),
    ({"loss": lambda self, m, b: m(b[0]).sum() / 0}, "loss.* is -?inf on the first batch"),
    ({"loss": fails}, r"loss\(model, batch\) fails"),
    ({"loss": exits}, r"loss\(model, batch\) fails: SystemExit: the licence has expired"),
    ({"evaluate": lambda self, m, b: 0.5}, r"must give metric -> \(sum, count\), and gives 0\.5"),
    ({"evaluate": lambda self, m, b: {"accuracy": 0.5}}, r"\['accuracy'\] must be \(sum, count\)"),
    ({"evaluate": lambda self, m, b: {"x": (float("nan"), 1)}}, r"\['x'\] is \(nan, 1\)"),
]


@pytest.mark.parametrize(("methods", "text"), WRONG, ids=[text[:30] for _, text in WRONG])
def test_what_is_wrong_is_said_before_anybody_dials(
    methods: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(domo.TaskError, match=text):
        try_task(changed(**methods), tmp_path, NOBODY)


def test_weights_that_differ_each_time(tmp_path: Path) -> None:
    drawn = iter(range(9))

    def build(self) -> nn.Module:
        model = nn.Linear(4, 3)
        nn.init.constant_(model.bias, next(drawn))
        return model

    with pytest.raises(domo.TaskError, match="other weights each time"):
        try_task(changed(build_model=build), tmp_path, NOBODY)


def test_a_good_task_is_taken_through_a_run(tmp_path: Path) -> None:
    with testing.coordinator(task=Good()) as coordinator:
        tried = try_task(Good(), tmp_path, coordinator.address)
        with coordinator.rest() as rest:
            run = rest.run(coordinator.run_ids[0])
    assert (run.state, run.rounds_done) == ("FINISHED", 2)
    assert run.accuracy == pytest.approx(tried.metrics[-1]["accuracy"])
    assert (tried.num_params, tried.num_samples, tried.num_tests) == (15, 40, 40)
    assert (len(tried.losses), len(tried.metrics), tried.notes) == (2, 3, ())


class Masked(nn.Module):
    """A causal mask among the buffers, and a mean that `forward` assigns anew."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))
        self.register_buffer("ema", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        if self.training:
            self.ema = 0.9 * self.ema + 0.1 * x.mean(0)
        out: torch.Tensor = self.layer((x - self.ema) @ self.mask.softmax(1))
        return out


def test_constants_and_buffers_that_are_assigned_travel(tmp_path: Path) -> None:
    """Deployed and done again without a network: `try_task` compares the bytes."""
    task = changed(build_model=lambda self: Masked())
    with testing.coordinator(task=task) as coordinator:
        tried = try_task(task, tmp_path, coordinator.address)
        with coordinator.rest() as rest:
            rest.download_model(coordinator.run_ids[0], tmp_path / "x.safetensors")
    assert len(tried.losses) == 2
    held = domo.load_weights(tmp_path / "x.safetensors")
    assert torch.equal(held["mask"], Masked().mask)
    assert (held["ema"] != 0).all()


def test_what_is_random_without_a_seed_is_found_after_the_run(tmp_path: Path) -> None:
    """The loss remembers how often it was called, which one batch does not show."""
    calls = iter(range(1, 10_000))

    def loss(self, model, batch):
        return domo.cross_entropy_loss(model, batch) * next(calls)

    task = changed(loss=loss)
    with (
        testing.coordinator(task=task) as coordinator,
        pytest.raises(domo.TaskError, match="the same run, done again, comes to another model"),
    ):
        try_task(task, tmp_path, coordinator.address)


def test_what_fails_in_a_round_names_it(tmp_path: Path) -> None:
    calls = iter(range(10_000))

    def loss(self, model, batch):
        if next(calls) == 2:  # after a look by itself, and one as the run has it
            raise ValueError("the scanner is broken")
        return domo.cross_entropy_loss(model, batch)

    task = changed(loss=loss)
    with (
        testing.coordinator(task=task) as coordinator,
        pytest.raises(domo.TaskError, match="round 1 fails: ValueError: the scanner is broken"),
    ):
        try_task(task, tmp_path, coordinator.address)


def test_a_batch_of_one_by_the_run_s_own_size(tmp_path: Path) -> None:
    def build(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.Linear(4, 3))

    task = changed(build_model=build)
    run = testing.short_run(task, tmp_path, batch_size=13, local_steps=4)
    with (
        testing.coordinator(run) as coordinator,
        pytest.raises(domo.TaskError, match="the last of 40 samples by 13"),
    ):
        try_task(task, tmp_path, coordinator.address)
    with testing.coordinator({**run, "drop_last": True}) as coordinator:
        assert try_task(task, tmp_path, coordinator.address).num_samples == 40


def test_notes(tmp_path: Path) -> None:
    class Idle(Good):
        def build_model(self):
            model = super().build_model()
            model.idle = nn.Linear(1, 1)
            model.forward = lambda x: model[2](model[0](x))
            return model

        def eval_data(self, root, shard):
            return None

    with testing.coordinator(task=Idle()) as coordinator:
        tried = try_task(Idle(), tmp_path, coordinator.address)
    assert "no gradient reaches idle.weight" in tried.notes
    assert any("no test data" in note for note in tried.notes)
    assert tried.metrics == ()


def test_the_process_is_left_as_it_was(tmp_path) -> None:
    """It is somebody's test: no object is kept from the collector, no thread taken."""
    torch.set_num_threads(3)
    frozen, drawn = gc.get_freeze_count(), torch.get_rng_state()
    with testing.coordinator(task=Good()) as coordinator:
        try_task(Good(), tmp_path, coordinator.address)
    assert gc.get_freeze_count() <= frozen, "what others froze may go meanwhile"
    assert torch.get_num_threads() == 3
    assert torch.equal(torch.get_rng_state(), drawn)
