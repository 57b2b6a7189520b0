"""Tasks for silos that are threads: one fails as a file in its folder says, one is wide."""

from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import cross_entropy_loss
from tests.support.tasks.gated import GatedTask


class WideTask(GatedTask):
    """A model of some size, without anything random."""

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 3000), nn.ReLU(), nn.Linear(3000, 3))


class FailingTask(GatedTask):
    """`exception`, `memory`, `loss` or `label`; none without the file.

    Without dropout, so that silos may be threads: torch's generator is one for all of them.
    """

    def build_model(self) -> nn.Module:
        layers = (nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        return nn.Sequential(*layers, nn.Linear(4 * 36, 3))

    def loss(self, model: nn.Module, batch: Any) -> Tensor:  # type: ignore[override]
        path = self.root / "fail"
        begun = (self.root / "training-0").exists()  # not in the look before the run
        kind = path.read_text() if begun and path.exists() else ""
        images, labels = batch
        if kind == "exception":
            raise RuntimeError("the scanner's licence has expired\nwith a second line")
        if kind == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 40.00 GiB")
        if kind == "label":
            labels = labels.clone()
            labels[0] = 7
        value = cross_entropy_loss(model, (images, labels))
        return value * float("nan") if kind == "loss" else value
