"""A task that hangs for ever where a file in its data folder says, as on a drive that is gone."""

import signal
from pathlib import Path
from typing import Any

from torch import Tensor

from tests.support.tasks.stuck import StuckData, StuckTask


def hang(root: Path, at: str) -> None:
    """Wait for who never comes, at this place; `stubborn`: and hear of no signal."""
    told = (root / "hang").read_text().split()
    if at in told:
        (root / "hangs").touch()
    while at in told:
        try:
            (root / "pipe").read_bytes()
        except BaseException:
            if "stubborn" not in told:
                raise


class HangingData(StuckData):
    """Eight samples, the last of which may hang."""

    def __init__(self, root: Path):
        self.root = root

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 7:
            hang(self.root, "item")
        return super().__getitem__(index)


class HangingTask(StuckTask):
    """Two classes, three inputs; it sets a signal handler, as only a main thread may."""

    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def train_data(self, root: Path, shard: Any) -> HangingData:
        hang(root, "train_data")
        return HangingData(root)

    def eval_data(self, root: Path, shard: Any) -> HangingData:
        return HangingData(root)
