"""A coordinator that comes back on the same port without its state: silos find their way."""

import gc
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import domo_client
import domo_client.rpc.session
from domo.tasks.base import ArrayDataset
from domo.training.local_round import LocalRound
from domo_client.loop.outcome import Outcome
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import Agent, options

INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
DATA = ArrayDataset(INPUTS, INPUTS.sum(1, keepdim=True))
SILOS = ("site-a", "site-b")
ROUNDS = 3


def sums(module: nn.Module, batch: Any) -> Mapping[str, tuple[float, float]]:
    return {"loss": (float((module(batch[0]) - batch[1]).square().sum()), len(batch[0]))}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LONGEST_PAUSE_S", 0.2), ("JITTER_S", 0.0)):
        monkeypatch.setattr(domo_client.rpc.session, name, value)


class Loops:
    """Two loops of one's own in threads; both wait in round 2 of the first coordinator."""

    def __init__(self, address: str, folder: Path):
        self.reached, self.go_on = threading.Barrier(3), threading.Event()
        self.outcomes: dict[str, Outcome | None] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(address, folder / name, name), daemon=True)
            for name in SILOS
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, address: str, state_dir: Path, name: str) -> None:
        with domo_client.connect(address, name, state_dir=state_dir) as silo:
            for rnd in silo.rounds(nn.Linear(2, 1), samples=4):
                self._body(rnd)
            self.outcomes[name] = silo.outcome

    def _body(self, rnd: LocalRound) -> None:
        rnd.evaluate(sums, [DATA[0:4]])
        opt = rnd.optimizer()
        for inputs, targets in rnd.batches(DATA):
            if rnd.round_index == 1 and not self.go_on.is_set():
                self.reached.wait(60)
                self.go_on.wait(60)
            (rnd.model(inputs) - targets).square().mean().backward()
            opt.step()
            opt.zero_grad()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


def test_silos_enrol_anew_and_every_model_is_tested(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=2, num_rounds=ROUNDS)
    first = Coordinator(tmp_path / "a", run, long_poll_s=0.2)
    loops = Loops(first.address, tmp_path)
    loops.reached.wait(60)
    before = first.run()["metrics"]
    first.close()
    with coordinator(tmp_path / "b", run, listen=first.address, long_poll_s=0.2) as second:
        assert second.run_ids == first.run_ids
        loops.go_on.set()
        ended = second.ended()
        loops.end()
    assert [o.state for o in loops.outcomes.values() if o] == ["FINISHED"] * 2
    tested = [(m["model_index"], m["num_silos"]) for m in ended["metrics"]]
    assert tested == [(r, 2) for r in range(ROUNDS + 1)]
    assert ended["metrics"][:2] == before


class Kept:
    """A task that knows of its models whether they are still there, and of its first round."""

    models: ClassVar[list[weakref.ref[nn.Module]]] = []
    reached = threading.Event()

    def build_model(self) -> nn.Module:
        model = nn.Linear(2, 1)
        Kept.models.append(weakref.ref(model))
        return model

    def train_data(self, root: Path, shard: Any) -> ArrayDataset:
        return DATA

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        Kept.reached.set()
        loss: torch.Tensor = (model(batch[0]) - batch[1]).square().mean()
        return loss

    def evaluate(self, model: nn.Module, batch: Any) -> Mapping[str, tuple[float, float]]:
        return sums(model, batch)


def test_the_model_of_a_run_that_is_lost_does_not_wait_for_the_garbage_collector(
    tmp_path: Path,
) -> None:
    """It may lie on a GPU, and an agent that waits makes no garbage."""
    task = f"{__name__}:Kept"
    run = own_run(tmp_path, nn.Linear(2, 1), task=task, num_silos=2)
    gc.disable()
    try:
        with coordinator(tmp_path / "a", run, long_poll_s=0.2) as first:
            other = domo_client.connect(first.address, "site-b", state_dir=tmp_path / "other")
            rounds = other.rounds(nn.Linear(2, 1), samples=4)
            agent = Agent(first.address, "site-a", tmp_path, options(tmp_path, task))
            next(rounds)
            assert Kept.reached.wait(60)
            other.close()
        try:
            with coordinator(tmp_path / "b", listen=first.address, long_poll_s=0.2) as second:
                second.until("/silos", lambda silos: any(s["phase"] == "idle" for s in silos))
                end = time.monotonic() + 10
                while Kept.models[0]() is not None:
                    assert time.monotonic() < end
                    time.sleep(0.01)
        finally:
            agent.close()
    finally:
        gc.enable()
    assert len(Kept.models) == 1


def test_an_agent_leaves_a_run_that_is_gone_and_takes_the_next_one(tmp_path: Path) -> None:
    """Also where the next one has the same id, and other settings."""
    data = tmp_path / "data"
    data.mkdir()
    images, labels = np.zeros((4, 1, 8, 8), np.float32), np.arange(4)
    np.savez(data / "train.npz", inputs=images, labels=labels)
    run = {"task": "digits", "method": "DOMO", "num_rounds": 1, "local_steps": 1}
    with coordinator(tmp_path / "a", {**run, "num_silos": 2}, long_poll_s=0.2) as first:
        agent = Agent(first.address, "site-a", tmp_path, options(data))
        first.until("/silos", lambda silos: silos and silos[0]["num_samples"] == 4)
    try:
        with coordinator(tmp_path / "b", listen=first.address, long_poll_s=0.2) as second:
            second.until("/silos", lambda silos: bool(silos))
            made = second.post("/runs", {**run, "num_silos": 1})
            assert made["run_id"] == first.run_ids[0]
            second.until(f"/runs/{made['run_id']}", lambda run: run["state"] == "FINISHED")
            assert "declined" not in {e["kind"] for e in second.get("/events")}
    finally:
        agent.close()
