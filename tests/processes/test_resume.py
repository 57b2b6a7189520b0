"""Processes that are killed: the run goes on by itself, and ends with the same bytes."""

import json
import signal
import time
import tomllib
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.training.initial import build_initial
from domo.training.local_round import BatchLoader
from tests.support.live.federation import Federation, federation
from tests.support.tasks.gated import GatedTask

TASK = "tests.support.tasks.gated:GatedTask"
WAIT_S = 200.0
RUN = f"""
task = "{TASK}"
method = "DOMO"
num_rounds = 6
roster = ["site-a", "site-b"]
local_steps = 3
batch_size = 8
local_lr = 0.05
initial_model = "x0.safetensors"
seed = 5
"""


def until(good: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not good():
        assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


class Scene:
    """Two silos with gates, and a coordinator that may be killed."""

    def __init__(self, fed: Federation, folder: Path):
        self.fed, self.folder = fed, folder
        save_model(folder / "x0.safetensors", *build_initial(GatedTask(), 5))
        self.data = {name: folder / f"data-{name}" for name in ("site-a", "site-b")}
        for i, data in enumerate(self.data.values()):
            data.mkdir()
            (data / "samples.txt").write_text(str(20 + 7 * i))
        for name, r in (("site-b", 1), ("site-a", 2), ("site-b", 2), ("site-b", 3), ("site-b", 4)):
            (self.data[name] / f"hold-{r}").touch()

    def start_server(self, run: str, *flags: str) -> None:
        listen = self.fed.address or "127.0.0.1:0"
        self.fed.start_server(f'[[runs]]\nname = "r"\n{run}', *flags, listen=listen)

    def start_silo(self, name: str) -> None:
        self.fed.start_silo(name, "--data", str(self.data[name]), "--task", TASK)

    def kill_server(self) -> None:
        assert self.fed.server is not None
        assert self.fed.server.poll() is None, self.fed.server.output
        self.fed.server.kill()

    def release(self, name: str, r: int) -> None:
        (self.data[name] / f"hold-{r}").unlink()

    def trains(self, name: str, r: int) -> None:
        until((self.data[name] / f"training-{r}").exists, f"{name} trains round {r}")

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.fed.url}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)

    def only_waits_for(self, name: str, r: int) -> None:
        def there() -> bool:
            run = self.get("/runs/1-r")
            return (run["rounds_done"], run["waiting_for"]) == (r, [name])

        until(there, f"round {r} waits for {name} only")


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("update_dtype", ["float32", "bfloat16"])
def test_killed_coordinators_and_silos_change_no_byte(tmp_path: Path, update_dtype: str) -> None:
    run = f'{RUN}update_dtype = "{update_dtype}"\n'
    with federation(tmp_path) as fed:
        scene = Scene(fed, tmp_path)
        scene.start_server(run)
        for name in scene.data:
            scene.start_silo(name)

        # round 1: the coordinator dies with one of two updates accepted
        scene.only_waits_for("site-b", 1)
        scene.kill_server()
        scene.start_server(run)
        fed.server.wait_for("resumed at round 2 of 6 with 1 update already here")
        scene.release("site-b", 1)

        # round 2: it dies while both silos train
        scene.trains("site-a", 2)
        scene.trains("site-b", 2)
        scene.kill_server()
        scene.start_server(run)
        fed.server.wait_for("resumed at round 3 of 6 with 0 updates already here")
        scene.release("site-a", 2)
        scene.release("site-b", 2)

        # round 3: a silo dies while it trains
        scene.trains("site-b", 3)
        fed.silos["site-b"].kill()
        (scene.data["site-b"] / "training-3").unlink()
        scene.start_silo("site-b")
        scene.trains("site-b", 3)
        scene.release("site-b", 3)

        # round 4: both die with an update computed that nobody has received
        scene.only_waits_for("site-b", 4)
        scene.kill_server()
        scene.release("site-b", 4)
        pending = tmp_path / "state-site-b" / "pending.json"
        until(lambda: pending.exists() and json.loads(pending.read_text())["round_index"] == 4, "")
        fed.silos["site-b"].kill()
        (scene.data["site-b"] / "training-4").unlink()
        scene.start_server(run)
        scene.start_silo("site-b")
        until(lambda: scene.get("/runs/1-r")["state"] == "FINISHED", "the end")
        assert not (scene.data["site-b"] / "training-4").exists(), "it trained again"
        records = scene.get("/runs/1-r/rounds")
        final = fed.final_state("1-r")
        for silo in fed.silos.values():
            assert silo.stop() == 0, silo.output
        assert fed.server.stop() == 0, fed.server.output
        restarted(scene, run)
        changed(scene, run)
    assert [len(r["participants"]) for r in records] == [2] * 6
    config = validate(RunConfig, tomllib.loads(run), "test")
    config = config.model_copy(update={"initial_model": str(tmp_path / "x0.safetensors")})
    task = GatedTask()
    silos = [
        SimulatedSilo(name, BatchLoader(task.train_data(data, None)))
        for name, data in scene.data.items()
    ]
    undisturbed = simulate(config, task, silos)
    assert torch.equal(final["x"], undisturbed.x)
    assert torch.equal(final["m"], undisturbed.m)
    assert final["x"].isfinite().all()


def restarted(scene: Scene, run: str) -> None:
    """A coordinator whose runs have ended says so, and waits for others."""
    scene.start_server(run)
    assert scene.fed.server is not None
    scene.fed.server.wait_for(r"\[1-r\] has ended already: finished")
    assert scene.get("/status")["current_run"] is None
    assert scene.get("/runs/1-r")["rounds_done"] == 6
    assert scene.fed.server.stop(signal.SIGINT) == 0


def changed(scene: Scene, run: str) -> None:
    """Other settings under the same name are refused."""
    other = run.replace("local_lr = 0.05", "local_lr = 0.1").replace("seed = 5", "seed = 6")
    with pytest.raises(AssertionError, match="ended with 2 before"):
        scene.start_server(other)
    assert scene.fed.server is not None
    assert scene.fed.server.output.splitlines()[-1] == (
        f"error: the run 'r' in {scene.fed.state_dir} was started with other settings (seed, "
        "local_lr); give the changed run another name, or use another --state-dir"
    )
