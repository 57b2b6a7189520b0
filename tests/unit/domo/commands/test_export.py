"""`domo export` of local files."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import TensorDataset
from typer.testing import CliRunner

from domo.commands.main import app
from domo.model.card import (
    CardSilo,
    ModelCard,
    metadata_of,
    of_config,
)
from domo.model.flat import FlatModel
from domo.model.model_file import save_model
from domo.run_config import RunConfig

HERE = f"{__name__}:Own"


class Net(nn.Module):
    """Tied weights, a frozen parameter, BatchNorm, an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
        self.shift = nn.Parameter(torch.tensor([0.5]), requires_grad=False)
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.norm(self.a(x))[:, self.order]) + self.shift


class Own:
    def build_model(self) -> nn.Module:
        return Net()

    def train_data(self, root: Path, shard: Any) -> TensorDataset:
        return TensorDataset(torch.load(root / "x.pt"), torch.zeros(1))

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        raise NotImplementedError

    def evaluate(self, model: nn.Module, batch: Any) -> dict[str, Any]:
        raise NotImplementedError


class Other(Own):
    def build_model(self) -> nn.Module:
        return nn.Linear(2, 3)


def domo(*words: str) -> Any:
    return CliRunner().invoke(app, ["export", *words])


def refused(*words: str) -> str:
    result = domo(*words)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    return " ".join(result.stderr.split())


@pytest.fixture
def net() -> Net:
    torch.manual_seed(3)
    net = Net()
    net.train()(torch.randn(8, 4))  # statistics of BatchNorm
    return net


@pytest.fixture
def model(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    flat = FlatModel(net)
    config = RunConfig(task=HERE, num_rounds=2, num_silos=1, licence="mit")
    card = ModelCard(
        **of_config(config),
        round_index=2,
        silos=[CardSilo(silo_id="site-a", num_samples=8, rounds=2)],
        points=[],
        layout_digest=flat.layout.digest,
        software_version="0",
    )
    path = tmp_path / "run" / "model.safetensors"
    save_model(path, flat.layout, flat.read_all(), metadata_of(card, config))
    return path


def test_torch_a_plain_state_dict_that_loads_strictly(model: Path, net: Net) -> None:
    result = domo(str(model), "--format", "torch", "--out", "hub")
    assert result.exit_code == 0, result.output
    state = torch.load("hub/model.pt", weights_only=True)
    other = Net()
    other.load_state_dict(state, strict=True)
    x = torch.randn(5, 4)
    assert torch.equal(other.eval()(x), net.eval()(x))
    assert state["a.weight"].data_ptr() == state["b.weight"].data_ptr()
    assert state["order"].dtype == torch.int64
    card = Path("hub/README.md").read_text()
    assert 'license: "mit"' in card
    assert "| site-a | 8 | 2 |" in card
    assert sorted(p.name for p in Path().iterdir()) == ["hub", "run"]


def test_safetensors_the_same_file_and_nothing_is_written_over(model: Path) -> None:
    result = domo("run", "--out", "x.safetensors", "--task", HERE)
    assert result.exit_code == 0, result.output
    assert "it loads into the task's module" in result.output
    assert Path("x.safetensors").read_bytes() == model.read_bytes()
    assert Path("x.md").read_text().startswith("---\nlibrary_name: domo\n")
    assert "x.safetensors is there already" in refused("run", "--out", "x.safetensors")
    Path("x.safetensors").unlink()
    Path("x.md").write_text("mine")
    assert "x.md is there already" in refused("run", "--out", "x.safetensors")
    assert Path("x.md").read_text() == "mine"
    assert not Path("x.safetensors").exists()
    assert domo("run", "--out", "x.safetensors", "--force").exit_code == 0
    assert Path("x.md").read_text() != "mine"


def test_what_is_wrong_is_said_and_changes_nothing(model: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert "must be torch, safetensors" in refused("run", "--format", "tf")
    assert "is named as torch" in refused("run", "--format", "safetensors", "--out", "m.pt")
    assert "there is no file x.safetensors" in refused("x.safetensors")
    assert "there is no model.safetensors in" in refused(str(tmp_path))
    assert "the model is not one of the task's: weight is float32[4, 4], the model's" in refused(
        "run", "--task", f"{__name__}:Other"
    )
    assert "there is no module 'nowhere'" in refused("run", "--task", "nowhere:Own")
    assert sorted(tmp_path.rglob("*")) == before
    away = domo("1-run", "--server", "http://127.0.0.1:1")
    assert "no coordinator answers at http://127.0.0.1:1" in away.stderr
    assert away.exit_code == 5
    damaged = tmp_path / "damaged.safetensors"
    shutil.copy(model, damaged)
    with damaged.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    result = domo(str(damaged))
    assert result.exit_code == 1
    assert "is damaged: its tensors have the digest" in result.stderr
    other = tmp_path / "other.safetensors"
    torch.save({}, other)
    assert "cannot read the model file" in domo(str(other)).stderr
    from safetensors.torch import save_file

    save_file(load_file(model) | {"b.weight": torch.zeros(1)}, other)
    assert "no model that domo wrote: its layout is missing" in refused(str(other))
    assert not Path("export").exists()
