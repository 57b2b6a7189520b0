"""The examples as processes: agents and an own loop train together."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from domo.commands.split import write_silo_folders
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulationResult, simulate
from domo.tasks import load_task
from domo.training.initial import build_initial
from domo.trial import shard_silos
from tests.support.live.federation import Process, federation

TASK = "examples.own_task:OwnTask"
NAMES = ("silo-0", "silo-1", "silo-2")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What `domo data split --silos 3 --out data` leaves."""
    folder = tmp_path / "data"
    write_silo_folders(load_task("digits"), tmp_path, 3, 0.05, 0, folder)
    return folder


def simulated(config: RunConfig, data: Path) -> SimulationResult:
    task = load_task(TASK)
    return simulate(config, task, shard_silos(task, data, NAMES, config.similarity, config.seed))


@pytest.mark.e2e
@pytest.mark.slow
def test_agents_and_an_own_loop_train_together_and_end_with_the_simulated_bytes(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x0 = tmp_path / "x0.safetensors"
    settings = {"task": TASK, "num_rounds": 5, "num_silos": 3, "initial_model": str(x0)}
    config = validate(RunConfig, settings, "test")
    save_model(x0, *build_initial(load_task(TASK), config.seed))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with federation(tmp_path) as fed:
        fed.start_server(
            f'[[runs]]\nname = "own"\ntask = "{TASK}"\nnum_rounds = 5\nnum_silos = 3\n'
            f'initial_model = "{x0}"\n',
            "--exit-when-done",
        )
        for name in NAMES[:2]:
            fed.start_silo(name, "--task", TASK, "--data", str(data / name))
        command = ["python", "-m", "examples.own_loop", fed.address, "silo-2", str(data / "silo-2")]
        loop = Process(command, tmp_path / "loop.log", tmp_path)
        try:
            assert loop.wait(120) == 0, loop.output
        finally:
            loop.kill()
        fed.finish()
        model = load_file(fed.state_dir / "runs" / "1-own" / "model.safetensors")
    result = simulated(config, data)
    expected = result.layout.state_dict(result.vectors)
    assert model.keys() == expected.keys()
    assert all(torch.equal(model[name], expected[name]) for name in expected)
