"""Updates of 16 bits between a real coordinator and real silos: whose residual is used when."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import domo_client
from domo.tasks.base import ArrayDataset
from domo.training.local_round import LocalRound
from domo_client.rpc.data import Data
from domo_client.state.folder import PendingUpdate
from tests.support.live.coordinator import Coordinator, own_run

SHAPE = (9, 5)
NUM_ROUNDS = 6


def data() -> ArrayDataset:
    source = torch.Generator().manual_seed(2)
    labels = torch.randint(0, SHAPE[1], (30,), generator=source)
    return ArrayDataset(torch.randn(30, SHAPE[0], generator=source), labels)


class Scene:
    """One silo, and a coordinator that may be stopped, copied and put back."""

    def __init__(self, folder: Path, **settings: Any):
        folder.mkdir()
        torch.manual_seed(0)
        given = {"update_dtype": "bfloat16", "num_rounds": NUM_ROUNDS, "local_steps": 3, **settings}
        self.run = own_run(folder, nn.Linear(*SHAPE), **given)
        self.folder, self.copy = folder, folder / "copy"
        self.server = Coordinator(folder, self.run)
        self.trained: list[int] = []

    def stop(self) -> None:
        self.server.close()

    def start(self) -> None:
        self.server = Coordinator(self.folder, self.run, listen=self.server.address)

    def train(self, before_round: Callable[[LocalRound], None] = lambda rnd: None) -> str:
        """All rounds; the digest of the last checkpoint."""
        model, samples = nn.Linear(*SHAPE), data()
        with domo_client.connect(
            self.server.address, "site-a", state_dir=self.folder / "site-a"
        ) as silo:
            for rnd in silo.rounds(model, eval_samples=0):
                self.trained.append(rnd.round_index)
                before_round(rnd)
                opt = rnd.optimizer()
                for inputs, labels in rnd.batches(samples):
                    cross_entropy(model(inputs), labels).backward()
                    opt.step()
                    opt.zero_grad()
        run = self.server.ended()
        self.stop()
        assert run["state"] == "FINISHED", run["detail"]
        return run["checkpoint_digest"]


def test_a_coordinator_that_goes_back_a_round_changes_no_byte(tmp_path: Path) -> None:
    """As after a loss of power: the silo had been told that its update of round 3 counted."""
    undisturbed = Scene(tmp_path / "one").train()
    scene = Scene(tmp_path / "two")

    def disturb(rnd: LocalRound) -> None:
        if scene.trained == [0, 1, 2, 3]:
            scene.stop()
            shutil.copytree(scene.server.state_dir, scene.copy)
            scene.start()
        elif scene.trained == [0, 1, 2, 3, 4]:
            scene.stop()
            shutil.rmtree(scene.server.state_dir)
            scene.copy.rename(scene.server.state_dir)
            scene.start()

    assert scene.train(disturb) == undisturbed
    assert scene.trained == [0, 1, 2, 3, 4, 3, 4, 5]
    assert Scene(tmp_path / "three", update_dtype="float32").train() != undisturbed


class Died(Exception):
    """Stands for the death of a silo."""


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "residual lost"])
def test_a_silo_that_dies_with_an_update_unsent_changes_no_byte(
    lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an update left is here before the update counts as here, which is of no use without."""
    undisturbed = Scene(tmp_path / "one").train()
    scene = Scene(tmp_path / "two")
    submit = Data.submit

    def die(rpcs: Data, update: PendingUpdate, data: Any = None) -> tuple[str, str]:
        if update.round_index == 3:
            raise Died
        return submit(rpcs, update, data)

    monkeypatch.setattr(Data, "submit", die)
    with pytest.raises(Died):
        scene.train()
    monkeypatch.setattr(Data, "submit", submit)
    if lost:
        for notes in (scene.folder / "site-a").glob("kept-*.json"):
            if json.loads(notes.read_text())["round_index"] == 3:
                notes.unlink()
    assert scene.train() == undisturbed
    assert scene.trained == [0, 1, 2, 3, *([3] if lost else []), 4, 5]


def test_without_its_residual_a_silo_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = Scene(tmp_path / "one").train()
    scene = Scene(tmp_path / "two")

    def lose(rnd: LocalRound) -> None:
        if rnd.round_index == 3:
            for file in (scene.folder / "site-a").glob("kept-*"):
                file.unlink()

    assert scene.train(lose) != undisturbed
    assert "what the update of round 3 left is not in this silo's state folder" in caplog.text
    assert scene.trained == list(range(NUM_ROUNDS))


def test_residuals_end_with_their_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "one")
    scene.train()
    names = {f"kept-{i}.{kind}" for i in range(3) for kind in ("bin", "json")}
    assert names < {p.name for p in (scene.folder / "site-a").iterdir()}
    scene.run |= {"name": "other", "update_dtype": "float32"}
    scene.start()
    scene.train()
    assert not list((scene.folder / "site-a").glob("kept-*"))
