"""A script of 75 lines in a federation, in four ways: each runs to its end and learns.

The script has a scheduler, gradient clipping, bfloat16, AUC, patience and the best checkpoint.
"""

import difflib
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import domo
from domo.commands.split import write_silo_folders
from domo.tasks import load_task
from domo_server import testing
from examples.script import plain
from examples.script.task import Script
from tests.support.live.federation import ROOT

FOLDER = ROOT / "examples" / "script"
PAIRS = {
    "loop": ("plain", "loop"),
    "task": ("plain", "task"),
    "lightning": ("plain_lightning", "silo_lightning"),
    "trainer": ("plain_trainer", "silo_trainer"),
}
QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_silo_folders(load_task("digits"), folder, 3, 1.0, 0, folder / "data")
    return folder / "data" / "silo-0"


@pytest.fixture
def one_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The CPU, and state folders of the test's own."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("domo_client.loop.connect.user_state", lambda *a: tmp_path / "state")
    monkeypatch.chdir(tmp_path)


def settings(**changes: Any) -> dict[str, Any]:
    """The run of the page, for one silo and three rounds."""
    (run,) = tomllib.loads((FOLDER / "run.toml").read_text())["runs"]
    return run | {"num_silos": 1, "num_rounds": 3} | changes


def federated(train: Callable[..., Any], model: Any, folder: Path) -> tuple[Any, Any]:
    """Train in a run of a coordinator; its state and the model's tensors."""
    domo.save_initial(model, "x0.safetensors")
    run = settings(
        task="examples.script.loop:loop", initial_model=str(Path("x0.safetensors").resolve())
    )
    with testing.coordinator(run) as coordinator:
        outcome = train(folder, coordinator.address, "site-a")
        with coordinator.rest() as rest:
            detail = rest.run(coordinator.run_ids[0])
            rest.download_model(coordinator.run_ids[0], Path("x.safetensors"))
    assert outcome.state == "FINISHED"
    return detail, in_order(domo.load_weights("x.safetensors"))


def in_order(tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    return [tensors[name] for name in sorted(tensors)]


def made(build: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    torch.manual_seed(0)
    return build()


@pytest.mark.usefixtures("one_device")
def test_the_plain_script(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "EPOCHS", 3)
    assert plain.train(digits, "best.pt") > 0.9
    assert Path("best.pt").exists()


@pytest.mark.usefixtures("one_device")
def test_the_loop_and_the_task_come_to_the_same_bytes(digits: Path) -> None:
    from examples.script import loop

    detail, mine = federated(loop.train, made(loop.make_model), digits)
    task = Script()
    silo = {"site-a": (task.train_data(digits, None), task.eval_data(digits, None))}
    run = settings(initial_model=str(Path("x0.safetensors").resolve()))
    del run["num_silos"], run["task"]
    simulated = domo.simulate(task, silo, **run)
    assert all(map(torch.equal, mine, in_order(simulated.state_dict)))
    tested = [r.metrics["auc"] for r in simulated.history]
    assert tested[-1] > 0.8 > tested[0]
    assert [point.metrics["auc"] for point in detail.metrics] == tested
    assert detail.config["primary_metric"] == "auc"


@pytest.mark.usefixtures("one_device")
@pytest.mark.filterwarnings("ignore")
def test_lightning(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.script import loop, plain_lightning, silo_lightning

    monkeypatch.setattr(plain_lightning, "EPOCHS", 2)
    assert plain_lightning.train(digits, **QUIET, logger=False) > 0.8
    _, mine = federated(
        lambda *a: silo_lightning.train(*a, accelerator="cpu"), made(silo_lightning.Script), digits
    )
    _, theirs = federated(loop.train, made(loop.make_model), digits)
    assert all(map(torch.equal, mine, theirs))


@pytest.mark.usefixtures("one_device")
@pytest.mark.filterwarnings("ignore")
def test_trainer(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.script import loop, plain_trainer, silo_trainer

    monkeypatch.setattr(plain_trainer, "EPOCHS", 2)
    quiet = {"use_cpu": True, "report_to": [], "disable_tqdm": True}
    assert plain_trainer.train(digits, "out", **quiet) > 0.8
    _, mine = federated(silo_trainer.train, made(silo_trainer.Model), digits)
    _, theirs = federated(loop.train, made(loop.make_model), digits)
    assert all(map(torch.equal, mine, theirs))


def changed(name: str) -> tuple[int, int]:
    """Lines of code that are new, and that are gone."""
    before, after = (
        [x for x in (FOLDER / f"{n}.py").read_text().splitlines() if x.strip()] for n in PAIRS[name]
    )
    marks = [line[0] for line in difflib.ndiff(before, after)]
    return marks.count("+"), marks.count("-")


@pytest.mark.parametrize("name", PAIRS)
def test_the_page_says_how_many_lines_change(name: str) -> None:
    new, gone = changed(name)
    page = (ROOT / "docs" / "frameworks.md").read_text()
    assert f"| {new} new, {gone} gone |" in page
    assert len((FOLDER / "plain.py").read_text().splitlines()) == 75
