"""A task whose data and errors are full of a marker, which must not leave the silo."""

import csv
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import ArrayDataset, Shard, classification_sums, cross_entropy_loss

MARKER = "ZqxMarker"
"""In every name, cell, comment and error."""


class MarkedCells:
    """Rows of a CSV file; its loss fails once, with a cell in the text of the error."""

    evaluate = staticmethod(classification_sums)

    def build_model(self) -> nn.Module:
        return nn.Linear(3, 2)

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        self.root = root
        with (root / f"{MARKER}-rows.csv").open(newline="") as file:
            self.rows = list(csv.DictReader(file))
        inputs = torch.tensor([[float(row[f"{MARKER}{k}"]) for k in range(3)] for row in self.rows])
        labels = torch.tensor([int(row["label"].endswith("ill")) for row in self.rows])
        return ArrayDataset(inputs, labels)

    def eval_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        return self.train_data(root, shard)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        once = self.root / "failed-once"
        if (self.root / "in-a-round").exists() and not once.exists():
            once.touch()
            raise ValueError(f"{MARKER}: the patient {self.rows[0]['name']} in {self.root}")
        if torch.is_grad_enabled() and model.training:
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps == 2:  # after the look before the run
                (self.root / "in-a-round").touch()
        return cross_entropy_loss(model, batch)
