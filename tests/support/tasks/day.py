"""A task that fails as long as a file in its folder says so: `hang`, `memory-in-a-step`, ..."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from domo.tasks.base import ArrayDataset, Shard
from tests.support.tasks.chaos import ChaosTask

HANG, STEP_MEMORY, MODEL_MEMORY, LOADER = "hang", "memory-in-a-step", "memory-in-build", "loader"
"""Files in the data folder of a silo."""


def meets(flag: Path) -> bool:
    """Whether a file is there; a test sees by another one that this was asked."""
    there = flag.exists()
    if there:
        flag.with_suffix(".met").touch()
    return there


class Watched(ArrayDataset):
    """Images that cannot be read while a file is there: in the loader processes, if there are."""

    def __init__(self, of: ArrayDataset, flag: Path):
        super().__init__(of.inputs, of.labels)
        self.flag = flag

    def stacked(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        if meets(self.flag):
            raise OSError(5, "Input/output error")
        return super().stacked(indices)


class DayTask(ChaosTask):
    """0.6 MB. The pace is read anew in each step, so that it may change."""

    width = 1024
    root: Path | None = None

    def train_data(self, root: Path, shard: Shard | None) -> ArrayDataset:
        self.root = root
        return Watched(super().train_data(root, shard), root / LOADER)

    def build_model(self) -> nn.Module:
        if self.root is not None and meets(self.root / MODEL_MEMORY):
            raise MemoryError
        return super().build_model()

    def augment(self, batch: Any, generator: torch.Generator) -> Any:
        root = self.root
        if root is None:
            return super().augment(batch, generator)
        while meets(root / HANG):
            time.sleep(0.2)
        if meets(root / STEP_MEMORY):
            raise MemoryError
        pace = root / "step_s.txt"
        self.step_s = float(pace.read_text() or 0) if pace.exists() else 0.0
        return super().augment(batch, generator)
