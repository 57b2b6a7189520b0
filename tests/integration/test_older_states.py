"""One end comes back from an older backup than the other: what it is told, and which bytes come."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo
import domo_client
import domo_client.rpc.session
from domo.tasks.base import ArrayDataset
from domo.training.local_round import LocalRound
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import copy_state

INPUTS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [-2.0, 0.25], [1.5, 1.0]])
SILOS = ("site-a", "site-b")
EARLY, LATE, ROUNDS = 1, 6, 8
"""Rounds in which all silos can be held, and how many there are."""


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LONGEST_PAUSE_S", 0.2), ("JITTER_S", 0.0)):
        monkeypatch.setattr(domo_client.rpc.session, name, value)


class Gate:
    """Where the silos wait for each other, and for the test."""

    def __init__(self) -> None:
        self.reached, self.go = threading.Semaphore(0), threading.Event()

    def wait_here(self, over: threading.Event) -> None:
        if not self.go.is_set():
            self.reached.release()
        while not self.go.wait(0.02) and not over.is_set():
            pass

    def until_all_are_here(self) -> None:
        for _ in SILOS:
            assert self.reached.acquire(timeout=60)


class Loop:
    """A silo's loop in a thread."""

    def __init__(self, address: str, folder: Path, name: str, gates: dict[int, Gate]):
        self.silo = domo_client.connect(address, name, state_dir=folder / name)
        self._gates, self._shift = gates, float(name[-1] == "a")
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        data = ArrayDataset(INPUTS + self._shift, INPUTS.sum(1, keepdim=True))
        model = nn.Linear(2, 1)
        with self.silo as silo:
            for rnd in silo.rounds(model, samples=4, eval_samples=0):
                if rnd.round_index in self._gates:
                    self._gates[rnd.round_index].wait_here(self.over)
                if self.over.is_set():
                    return
                self._body(rnd, data)

    def _body(self, rnd: LocalRound, data: ArrayDataset) -> None:
        opt = rnd.optimizer()
        for inputs, targets in rnd.batches(data):
            (rnd.model(inputs) - targets).square().mean().backward()
            opt.step()
            opt.zero_grad()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def run_of(folder: Path, dtype: str) -> dict[str, Any]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x0 = nn.Linear(2, 1)
    return own_run(
        folder, x0, num_silos=2, num_rounds=ROUNDS, local_lr=0.03, update_dtype=dtype,
        server_momentum=0.5, local_momentum=0.5,
    )  # fmt: skip


def final(server: Coordinator, folder: Path) -> dict[str, Any]:
    assert server.ended()["state"] == "FINISHED"
    return domo.load_weights(
        folder / "coordinator" / "runs" / server.run_ids[0] / "model.safetensors"
    )


def undisturbed(folder: Path, dtype: str) -> dict[str, Any]:
    folder.mkdir()
    with coordinator(folder, run_of(folder, dtype), long_poll_s=0.2) as server:
        loops = [Loop(server.address, folder, name, {}) for name in SILOS]
        found = final(server, folder)
        for loop in loops:
            loop.end()
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_coordinator_from_an_older_backup_goes_back_and_says_so(
    dtype: str, tmp_path: Path
) -> None:
    run, gates = run_of(tmp_path, dtype), {EARLY: Gate(), LATE: Gate()}
    state, backup = tmp_path / "coordinator", tmp_path / "backup"
    how: dict[str, Any] = {"long_poll_s": 0.2, "report_interval_s": 0.2}
    first = Coordinator(tmp_path, run, **how)
    loops = [Loop(first.address, tmp_path, name, gates) for name in SILOS]
    gates[EARLY].until_all_are_here()
    first.close()
    shutil.copytree(state, backup)
    second = Coordinator(tmp_path, run, listen=first.address, **how)
    gates[EARLY].go.set()
    gates[LATE].until_all_are_here()
    second.close()
    shutil.rmtree(state)
    backup.rename(state)
    with coordinator(tmp_path, run, listen=first.address, **how) as third:
        gates[LATE].go.set()
        found = final(third, tmp_path)
        for loop in loops:
            loop.end()
        told = [e["text"] for e in third.get("/events?kind=silo-note")]
    back = [
        text for text in told if "was in round 7 of it: the coordinator's state is older" in text
    ]
    assert len(back) == 2, told
    assert all("is now in round 2" in text for text in back)
    lost = [text for text in told if "error feedback begins anew" in text]
    assert len(lost) == (2 if dtype == "bfloat16" else 0), told
    if dtype == "float32":
        assert same(found, undisturbed(tmp_path / "plain", dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_silo_from_an_older_backup_goes_on(dtype: str, tmp_path: Path) -> None:
    run, gates = run_of(tmp_path, dtype), {EARLY: Gate(), LATE: Gate()}
    backup = tmp_path / "backup"
    with coordinator(tmp_path, run, long_poll_s=0.2, report_interval_s=0.2) as server:
        loops = [Loop(server.address, tmp_path, name, gates) for name in SILOS]
        gates[EARLY].until_all_are_here()
        copy_state(tmp_path / "site-a", backup)
        gates[EARLY].go.set()
        gates[LATE].until_all_are_here()
        loops[0].over.set()
        loops[0].end()
        shutil.rmtree(tmp_path / "site-a")
        backup.rename(tmp_path / "site-a")
        again = Loop(server.address, tmp_path, "site-a", {})
        gates[LATE].go.set()
        found = final(server, tmp_path)
        again.end()
        loops[1].end()
        told = [e["text"] for e in server.get("/events?kind=silo-note")]
    lost = [text for text in told if text.startswith("site-a: error feedback begins anew")]
    assert len(lost) == (1 if dtype == "bfloat16" else 0), told
    if dtype == "float32":
        assert same(found, undisturbed(tmp_path / "plain", dtype))
