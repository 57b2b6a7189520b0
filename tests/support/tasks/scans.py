"""A task whose silos may mean different things: `about.json` in the data folder says what."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from domo.inputs.form import InputForm
from domo.meaning.value import Meaning
from domo.tasks.base import ArrayDataset, Shard, classification_sums, cross_entropy_loss

NAMES = ("cyst", "healthy", "tumour")


def about(folder: Path, **said: Any) -> Path:
    """A data folder of a silo."""
    folder.mkdir()
    (folder / "about.json").write_text(json.dumps(said), "utf-8")
    return folder


class Mean(nn.Module):
    """Takes pictures of any size and number of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(1, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        told: torch.Tensor = self.last(inputs.mean((1, 2, 3))[:, None])
        return told


class Plain:
    """Says nothing: what its data mean is found out."""

    loss = staticmethod(cross_entropy_loss)
    evaluate = staticmethod(classification_sums)

    def build_model(self) -> nn.Module:
        return Mean()

    def said(self, root: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((root / "about.json").read_text("utf-8"))
        return found

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        said = self.said(root)
        source = torch.Generator().manual_seed(0)
        shape = (24, said.get("num_channels", 3), said.get("size", 16), said.get("size", 16))
        inputs = said.get("scale", 1.0) * torch.rand(shape, generator=source)
        labels = torch.arange(24) % 3 + said.get("shift", 0)
        return ArrayDataset(inputs - said.get("centre", 0.0), labels)

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        data = self.train_data(root, shard)
        return ArrayDataset(data.inputs.flip(0)[:6] + 1e-6, data.labels[:6])


class Scans(Plain):
    """Says what its data mean."""

    def meaning(self, root: Path, shard: Shard | None) -> Meaning:
        said = self.said(root)
        form = InputForm(
            channels=said.get("channels", "RGB"),
            mean=tuple(said.get("mean", (0.5, 0.5, 0.5))),
            std=(0.25, 0.25, 0.25),
        )
        names = tuple(said.get("classes", NAMES))
        return Meaning(classes=names, input=form, version=said.get("version", "1"))
