"""What nobody would see otherwise: a run without test numbers, and one that begins with NaN."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import domo
from domo.commands.compare import Setting
from domo.commands.simulate import run_single
from domo.model.model_file import save_model
from domo.run_config import RunConfig
from domo.training.initial import build_initial
from domo_client.testing import try_task
from domo_server import testing

NONE = "no model has test numbers: no silo has test data, evaluate_every is 0, or all are NaN"


class Untested:
    """A task without test data."""

    def build_model(self) -> nn.Module:
        return nn.Linear(4, 3)

    def train_data(self, root: Any, shard: Any) -> Any:
        return domo.ArrayDataset(torch.linspace(-1, 1, 160).view(40, 4), torch.arange(40) % 3)

    loss = staticmethod(domo.cross_entropy_loss)
    evaluate = staticmethod(domo.classification_sums)


class Tested(Untested):
    def eval_data(self, root: Any, shard: Any) -> Any:
        return self.train_data(root, shard)


class Counted(Tested):
    """One whose tests give a table, and no sum."""

    @staticmethod
    def evaluate(model: nn.Module, batch: Any) -> Any:
        return {"confusion": domo.metrics.confusion(batch[1], logits=model(batch[0]))}


@pytest.mark.parametrize("task", [Untested(), Tested(), Counted()])
def test_a_run_says_that_nobody_tests_its_models(task: Any, tmp_path: Path) -> None:
    with testing.coordinator(task=task) as coordinator:
        try_task(task, tmp_path, coordinator.address)
        with coordinator.rest() as rest:
            detail = rest.run(coordinator.run_ids[0]).detail
            said = [e.text for e in rest.events() if e.kind == "untested"]
    done = "all 2 rounds are committed"
    if isinstance(task, Tested):
        assert (detail, said) == (done, [])
    else:
        assert detail == f"{done}; no model has test numbers"
        (text,) = said
        assert text.endswith(": no silo has test data; its models get no test numbers")


def test_so_does_a_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert domo.simulate(Untested(), num_rounds=1, num_silos=2).untested == NONE
    assert NONE in caplog.text
    config = RunConfig(task=f"{__name__}:Untested", num_rounds=1, num_silos=2)
    run_single(Setting(config, tmp_path), tmp_path / "out", "domo simulate --compare all")
    assert f"warning: {NONE}" in capsys.readouterr().out
    caplog.clear()
    assert domo.simulate(Tested(), num_rounds=1, num_silos=2).untested == ""
    assert not caplog.text


def test_no_run_begins_with_parameters_that_are_not_finite(tmp_path: Path) -> None:
    layout, vectors = build_initial(Tested(), 0)
    for vector in vectors.values():
        vector[:2] = float("nan") if vector.is_floating_point() else 0
    save_model(tmp_path / "x0.safetensors", layout, vectors)
    run = {
        "task": f"{__name__}:Tested",
        "num_rounds": 1,
        "num_silos": 1,
        "initial_model": str(tmp_path / "x0.safetensors"),
    }
    with testing.coordinator(run) as coordinator, coordinator.rest() as rest:
        ended = rest.wait(coordinator.run_ids[0], timeout_s=60)
    assert ended.state == "FAILED"
    assert "2 parameters in" in ended.detail
    assert "are not finite: no run starts there" in ended.detail
