"""Private tensors: each silo trains and keeps its own; nothing of them is on the wire."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import domo_client
from domo.errors import TaskError
from domo.model.flat import FlatModel, as_bytes
from domo.model.layout import Layout, Section
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.tasks.base import ArrayDataset
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.looking.ready import Look, look
from domo_client.loop.own_model import OWN_FILE
from tests.integration.test_batchnorm import side_by_side
from tests.support.faults.proxy import proxy
from tests.support.live.coordinator import Coordinator, coordinator, own_run

A, B, C = NAMES = ["site-a", "site-b", "site-c"]
PRIVATE = ["1.*", "3.*"]
NUM_ROUNDS = 4
PARTICIPANTS = [[A, B, C], [B, C], [A, C], [A, B, C]]


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


class Own:
    """The task of the loop, for the simulation."""

    def build_model(self) -> nn.Module:
        return model()

    def loss(self, module: nn.Module, batch: Any) -> Tensor:
        inputs, targets = batch
        return (module(inputs) - targets).square().mean()

    def evaluate(self, module: nn.Module, batch: Any) -> dict[str, tuple[float, int]]:
        inputs, targets = batch
        return {"loss": (float((module(inputs) - targets).square().sum()), len(inputs))}


def data(name: str) -> ArrayDataset:
    source = torch.Generator().manual_seed(NAMES.index(name))
    inputs = torch.randn(12, 2, generator=source) * (1 + NAMES.index(name)) + NAMES.index(name)
    return ArrayDataset(inputs, inputs.sum(1, keepdim=True))


def private(module: nn.Module) -> dict[str, Tensor]:
    state = module.state_dict()
    return {n: t.clone() for n, t in state.items() if n.startswith(("1.", "3."))}


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


class Silo:
    """A loop of one's own behind a proxy that keeps all that passes."""

    def __init__(self, name: str):
        self.name, self.task, self.model = name, Own(), model()
        self.begun: dict[int, dict[str, Tensor]] = {}
        self.ended: dict[int, dict[str, Tensor]] = {}
        self.wire = {0: bytearray(), 1: bytearray()}

    def loop(self, server: Coordinator, folder: Path) -> None:
        torch.set_num_threads(1)
        with (
            proxy(server.address, on_data=lambda d, b: self.wire[d].extend(b)) as link,
            domo_client.connect(
                link.address, self.name, state_dir=folder / f"state-{self.name}"
            ) as silo,
        ):
            for rnd in silo.rounds(self.model, samples=12, eval_samples=12):
                self.begun[rnd.round_index] = private(rnd.model)
                rnd.evaluate(self.task.evaluate, [data(self.name)[:]])
                if rnd.num_steps:
                    self.train(rnd)
                    self.ended[rnd.round_index] = private(rnd.model)

    def train(self, rnd: LocalRound) -> None:
        opt, losses = rnd.optimizer(), []
        rnd.model.train()
        for batch in rnd.batches(data(self.name)):
            loss = self.task.loss(rnd.model, batch)
            loss.backward()
            opt.step()
            opt.zero_grad()
            losses.append(float(loss.detach()))
        rnd.log(loss=sum(losses) / len(losses))


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "DOMO"},
        {"method": "SCAFFOLD", "update_dtype": "bfloat16"},
        {"method": "FedAvg", "local_optimizer": "AdamW", "local_state": "keep"},
    ],
    ids=lambda s: s["method"],
)
def test_each_silo_has_its_own_and_no_byte_of_it_travels(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run = own_run(
        *(tmp_path, model()),
        private=PRIVATE,
        num_rounds=NUM_ROUNDS,
        num_silos=None,
        roster=NAMES,
        participants=PARTICIPANTS,
        local_steps=3,
        batch_size=4,
        **settings,
    )
    silos = [Silo(name) for name in NAMES]
    with coordinator(tmp_path, run) as server:
        side_by_side([lambda s=s: s.loop(server, tmp_path) for s in silos])
        assert server.ended()["state"] == "FINISHED"
        folder = server.state_dir / "runs" / server.run_ids[0]
        losses = [m["metrics"]["loss"] for m in server.run()["metrics"]]

    for silo in silos:
        before = private(model())
        for r in range(NUM_ROUNDS + 1):
            assert same(silo.begun[r], before), (silo.name, r)
            before = silo.ended.get(r, before)
        assert not same(silo.begun[NUM_ROUNDS], private(model()))
        trained = [t for state in silo.ended.values() for n, t in state.items() if "num_" not in n]
        for sent in silo.wire.values():
            assert len(sent) > 1000
            assert not any(bytes(as_bytes([t])) in sent for t in trained if t.numel() > 1)
    assert not same(silos[0].begun[NUM_ROUNDS], silos[1].begun[NUM_ROUNDS])
    final = load_file(max((folder / "checkpoints").glob("x*.safetensors")))
    for silo in silos:
        own = load_file(tmp_path / f"state-{silo.name}" / OWN_FILE)
        assert same(silo.begun[NUM_ROUNDS], own)
        shared = torch.cat([own["0.weight"].reshape(-1), own["0.bias"]])
        assert torch.equal(shared, final["x"])

    exported = load_file(folder / "model.safetensors")
    assert same(private(model()), exported), "of the private part there is x_0's alone"
    fresh = model()
    fresh.load_state_dict(exported, strict=True)

    assert final["x"].numel() == 2 * 4 + 4, "what is shared"
    config = validate(RunConfig, run, "the test")
    sims = [SimulatedSilo(n, BatchLoader(data(n)), BatchLoader(data(n))) for n in NAMES]
    for processes in (1, 2):
        made = simulate(config, Own(), sims, processes=processes)
        assert torch.equal(made.x, final["x"])
        assert torch.equal(made.m, final["m"])
        told = [record.metrics["loss"] for record in made.history]
        assert told == pytest.approx(losses)
    assert set(made.state_dict) == set(exported)
    assert same(made.state_dict, exported)


def test_what_private_must_fit() -> None:
    layout = Layout.of(model())
    with pytest.raises(TaskError, match=r"private = '\*\.bn' fits no tensor .* such as 0\.weight"):
        layout.with_private(["*.bn"])
    with pytest.raises(TaskError, match="nothing is left to be shared"):
        layout.with_private(["*"])
    named = {e.name: e.section for e in layout.with_private(PRIVATE).entries}
    assert named["0.weight"] is Section.TRAINABLE
    assert {named[f"1.{n}"] for n in ("weight", "running_mean", "num_batches_tracked")} == {
        Section.PRIVATE
    }


def test_private_parameters_are_the_models_own() -> None:
    batches = BatchLoader(data(NAMES[0]))
    assert look(Own(), FlatModel(model(), PRIVATE), batches, batches, Look(4)) == ()


def test_threads_end() -> None:
    assert not [t for t in threading.enumerate() if t.name == "proxy" and t.is_alive()]
