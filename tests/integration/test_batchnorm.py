"""BatchNorm through a federation: statistics are averaged, counters kept, momentum is elsewhere."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import domo_client
from domo.model.layout import Layout, Section
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.tasks.base import ArrayDataset
from domo.training.batches import BatchLoader
from domo.training.initial import build_initial
from domo.training.local_round import LocalRound
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.tasks.failing import FailingTask

A, B, C = NAMES = ["site-a", "site-b", "site-c"]
STEPS = {A: 3, B: 5, C: 2}
WEIGHTS = {A: 1.0, B: 3.0, C: 2.0}
STATISTICS = ("1.running_mean", "1.running_var")
COUNTER = "1.num_batches_tracked"


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def data(name: str) -> ArrayDataset:
    source = torch.Generator().manual_seed(NAMES.index(name))
    inputs = torch.randn(12, 2, generator=source) * (1 + NAMES.index(name)) + NAMES.index(name)
    return ArrayDataset(inputs, inputs.sum(1, keepdim=True))


def buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: b.clone() for name, b in module.named_buffers()}


class Silo:
    """A loop of one's own; keeps the buffers that each round began and ended with."""

    def __init__(self, name: str):
        self.name, self.begun, self.ended = name, {}, {}

    def loop(self, server: Coordinator, folder: Path) -> None:
        torch.set_num_threads(1)
        state = folder / f"state-{self.name}"
        with domo_client.connect(server.address, self.name, state_dir=state) as silo:
            for rnd in silo.rounds(model(), samples=12, eval_samples=0):
                self.begun[rnd.round_index] = buffers(rnd.model)
                self.train(rnd)
                self.ended[rnd.round_index] = buffers(rnd.model)

    def train(self, rnd: LocalRound) -> None:
        opt = rnd.optimizer()
        rnd.model.train()
        for inputs, targets in rnd.batches(data(self.name)):
            (rnd.model(inputs) - targets).square().mean().backward()
            opt.step()
            opt.zero_grad()
        rnd.log(loss=1.0)


def side_by_side(loops: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def guarded(loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(loop,), daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive(), "a loop does not end"
    assert not errors, errors


def weighted(values: list[Tensor], weights: list[float]) -> Tensor:
    """The mean as the coordinator forms it: in order, divided once."""
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * weight
    return total / sum(weights)


@pytest.mark.parametrize("method", ["DOMO", "FedAvgSLM"])
def test_statistics_are_averaged_and_counters_are_the_first_participants(
    method: str, tmp_path: Path
) -> None:
    participants = [[A, B, C], [B, C], [A, B, C]]
    run = own_run(
        *(tmp_path, model()),
        method=method,
        num_rounds=3,
        num_silos=None,
        roster=NAMES,
        participants=participants,
        local_steps_list=3 * [STEPS],
        weights=WEIGHTS,
        batch_size=4,
        evaluate_every=0,
    )
    silos = [Silo(name) for name in NAMES]
    with coordinator(tmp_path, run) as server:
        side_by_side([lambda s=s: s.loop(server, tmp_path) for s in silos])
        assert server.ended()["state"] == "FINISHED"
        folder = server.state_dir / "runs" / server.run_ids[0]

    # what each round ended with, from what its silos sent
    by_name = {s.name: s for s in silos}
    state, counted = buffers(model()), 0
    for r, who in enumerate(participants):
        sent = [by_name[name].ended[r] for name in who]
        for name in who:
            begun = by_name[name].begun[r]
            assert all(torch.equal(begun[k], state[k]) for k in state), (r, name)
        weights = [WEIGHTS[name] for name in who]
        state = {k: weighted([s[k] for s in sent], weights) for k in STATISTICS}
        state[COUNTER] = sent[0][COUNTER]
        counted += STEPS[who[0]]
        assert int(state[COUNTER]) == counted
        assert len({int(s[COUNTER]) for s in sent}) == len(who), "all counters are the same"

    exported = load_file(folder / "model.safetensors")
    assert exported[COUNTER].dtype == torch.int64
    assert exported[COUNTER].shape == ()
    assert int(exported[COUNTER]) == STEPS[A] + STEPS[B] + STEPS[A]
    for name in STATISTICS:
        assert exported[name].dtype == torch.float32
        assert torch.equal(exported[name], state[name]), name
        assert not torch.equal(exported[name], buffers(model())[name])

    # momentum has the length of what is trained, and nothing of the buffers
    layout = Layout.of(model())
    final = load_file(max((folder / "checkpoints").glob("x*.safetensors")))
    for name in ("x", "m", *(["mbar"] if method == "FedAvgSLM" else [])):
        assert final[name].numel() == layout.num_params == 2 * 4 + 4 + 4 + 4 + 4 + 1, name
    assert final[Section.FLOAT_BUFFER.value].numel() == 8
    assert final[Section.INTEGER_BUFFER.value].numel() == 8, "one int64"

    fresh = model()
    with torch.no_grad():
        for tensor in fresh.state_dict().values():
            tensor.zero_()
    fresh.load_state_dict(exported, strict=True)
    assert fresh.eval()(data(A)[0:4][0]).isfinite().all()


@pytest.mark.parametrize("method", ["DOMO-S", "FedAvgSLM"])
def test_the_bytes_are_those_of_the_simulation(method: str, tmp_path: Path) -> None:
    task_name = "tests.support.tasks.failing:FailingTask"
    save_model(tmp_path / "x0.safetensors", *build_initial(FailingTask(), 5))
    folders = [tmp_path / name for name in NAMES]
    for i, folder in enumerate(folders):
        folder.mkdir()
        (folder / "samples.txt").write_text(str(20 + 7 * i))
    run: dict[str, Any] = {
        "task": task_name,
        "method": method,
        "num_rounds": 3,
        "roster": NAMES,
        "weights": "samples",
        "batch_size": 8,
        "local_epochs": 1.0,
        "initial_model": str(tmp_path / "x0.safetensors"),
        "evaluate_every": 0,
        "seed": 5,
    }
    with (
        coordinator(tmp_path, run) as server,
        agents(server.address, NAMES, tmp_path, lambda i: options(folders[i], task_name)),
    ):
        assert server.ended()["complete"] is True
        folder = server.state_dir / "runs" / server.run_ids[0]
        steps = {p["num_steps"] for r in server.rounds() for p in r["participants"]}
        final = load_file(max((folder / "checkpoints").glob("x*.safetensors")))
        exported = load_file(folder / "model.safetensors")
    assert len(steps) > 1, "all silos make the same number of steps"
    task = FailingTask()
    silos = [
        SimulatedSilo(name, BatchLoader(task.train_data(data, None)))
        for name, data in zip(NAMES, folders, strict=True)
    ]
    expected = simulate(validate(RunConfig, run, "the test"), task, silos)
    assert torch.equal(final["x"], expected.x)
    assert torch.equal(final["m"], expected.m)
    if expected.mbar is not None:
        assert torch.equal(final["mbar"], expected.mbar)
    for section in (Section.FLOAT_BUFFER, Section.INTEGER_BUFFER):
        assert torch.equal(final[section.value], expected.buffers[section]), section
    assert exported[COUNTER].dtype == torch.int64
    assert int(exported[COUNTER]) == 3 * min(steps), "that of site-a"
    module = FailingTask().build_model()
    module.load_state_dict(exported, strict=True)
    named = expected.layout.state_dict(expected.vectors)
    assert all(torch.equal(t, named[name]) for name, t in module.state_dict().items())
