"""Ditto: a personal model beside the federation, at a real coordinator and in the simulation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulating.state import Held
from domo.simulation import SimulatedSilo, simulate
from domo.training.batches import BatchLoader, random_plan
from domo.training.initial import build_initial, build_model
from domo_client.loop.own_model import OWN_FILE
from tests.support.live.coordinator import coordinator
from tests.support.live.silos import agents, options
from tests.support.tasks.tested import TestedTask

NAMES = ["site-a", "site-b", "site-c"]
TASK = "tests.support.tasks.tested:TestedTask"


def run_of(folder: Path, **settings: Any) -> dict[str, Any]:
    save_model(folder / "x0.safetensors", *build_initial(TestedTask(), 5))
    return {
        "initial_model": str(folder / "x0.safetensors"),
        "task": TASK,
        "method": "DOMO",
        "num_rounds": 4,
        "roster": NAMES,
        "participation": 2,
        "batch_size": 8,
        "local_steps": 4,
        "seed": 5,
        "personal": "ditto",
        **settings,
    }


def silos_of(folders: list[Path]) -> list[SimulatedSilo]:
    task = TestedTask()
    found = []
    for name, folder in zip(NAMES, folders, strict=True):
        train = BatchLoader(task.train_data(folder, None))
        tests = task.eval_data(folder, None)
        found.append(SimulatedSilo(name, train, BatchLoader(tests)))
    return found


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in NAMES]
    for i, folder in enumerate(made):
        folder.mkdir()
        (folder / "samples.txt").write_text(str(20 + 7 * i))
    return made


def test_the_federation_is_what_it_is_without_and_both_are_tested(
    folders: list[Path], tmp_path: Path
) -> None:
    with (
        coordinator(tmp_path, run_of(tmp_path)) as server,
        agents(server.address, NAMES, tmp_path, lambda i: options(folders[i], TASK)),
    ):
        assert server.ended()["state"] == "FINISHED"
        folder = server.state_dir / "runs" / server.run_ids[0]
        told = [point["metrics"] for point in server.run()["metrics"]]
        final = load_file(max((folder / "checkpoints").glob("x*.safetensors")))
    config = validate(RunConfig, run_of(tmp_path), "the test")
    silos, held = silos_of(folders), list[Held]()
    for processes in (1, 2):
        made = simulate(
            *(config, TestedTask(), silos),
            processes=processes,
            on_round=lambda state, _: held.append(state),
        )
        assert torch.equal(made.x, final["x"])
        assert [dict(r.metrics) for r in made.history] == [pytest.approx(m) for m in told]
    for name in NAMES:
        own = load_file(tmp_path / f"state-{name}" / OWN_FILE)
        mine = torch.cat([own[entry.name].reshape(-1) for entry in made.layout.entries])
        assert torch.equal(mine, held[-1].kept[name]["personal"])
    without = simulate(config.model_copy(update={"personal": "none"}), TestedTask(), silos)
    assert torch.equal(without.x, final["x"])
    assert {"loss", "personal_loss"} <= set(told[0])
    assert told[0]["personal_loss"] == told[0]["loss"], "v_k is x_0 at first"
    assert told[-1]["personal_loss"] != told[-1]["loss"]


def test_it_is_the_papers_loop(folders: list[Path], tmp_path: Path) -> None:
    """Algorithm 1 of the paper, with SGD and one silo's batches; v_k in float64."""
    strength, task, held = 0.3, TestedTask(), list[Held]()
    config = validate(
        RunConfig,
        run_of(tmp_path, method="FedAvg", participation=None, personal_prox=strength, num_rounds=3),
        "the test",
    )
    silos = silos_of(folders)
    simulate(config, task, silos, on_round=lambda state, _: held.append(state))
    kept = [{name: own["personal"] for name, own in state.kept.items()} for state in held]
    xs = [held[0].state.x_prev, *(state.state.x for state in held)]
    for r in range(3):
        for silo in silos:
            before = xs[0] if r == 0 else kept[r - 1][silo.silo_id]
            expected = by_hand(config, silo, r, before, xs[r], strength)
            torch.testing.assert_close(
                kept[r][silo.silo_id].double(), expected, rtol=1e-4, atol=1e-6
            )


def by_hand(
    config: RunConfig, silo: SimulatedSilo, r: int, v: Tensor, x: Tensor, strength: float
) -> Tensor:
    module = build_model(TestedTask(), config.seed).double()
    params = list(module.parameters())
    torch.nn.utils.vector_to_parameters(v.double(), params)
    module.train()
    plan = random_plan(len(silo.train), config.batch_size, config.seed, silo.silo_id, r)
    for _, indices in zip(range(4), plan, strict=False):
        batch = next(silo.train.load([indices]))
        batch = batch[0].double(), batch[1]
        grads = torch.autograd.grad(TestedTask().loss(module, batch), params)
        flat = torch.nn.utils.parameters_to_vector(params).detach()
        step = torch.cat([g.reshape(-1) for g in grads]) + strength * (flat - x.double())
        torch.nn.utils.vector_to_parameters(flat - config.lr_at(r) * step, params)
    return torch.nn.utils.parameters_to_vector(params).detach()
