"""Datasets that keep a loader process busy, and a process that has such loaders."""

import os
import sys
import threading
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from domo.training.batches import BatchLoader
from tests.support.played.one_round import local_round

NUM_QUICK = 2


class Slow(Dataset[Tensor]):
    """Its first samples come at once, the others as `how` says; a file says that one is begun."""

    def __init__(self, how: str, folder: Path):
        self.how, self.folder = how, folder

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> Tensor:
        if i >= NUM_QUICK:
            (self.folder / f"busy-{self.how}").touch()
            if self.how == "computes":
                while not (
                    self.folder / "first-are-taken"
                ).exists():  # from a thread of this process
                    time.sleep(0.02)
                pow(7, 10**8)  # no other thread of Python's runs meanwhile
            elif self.how == "sleeps":
                time.sleep(600)
        return torch.zeros(1)


def main(folder: Path, ending: str) -> None:
    """Have loaders at work, of domo's and of a user's own; then wait, or end as a task may."""

    def load(how: str) -> None:
        own = DataLoader(Slow(how, folder), num_workers=1)
        local_round().evaluate(lambda model, batch: {}, own)

    def wait_for(num: int) -> None:
        while len(list(folder.glob("busy-*"))) < num:
            time.sleep(0.02)

    threading.Thread(target=load, args=("sleeps",), daemon=True).start()
    wait_for(1)  # it forks: no other thread may hold a lock meanwhile
    loaders = [BatchLoader(Slow(how, folder), 1) for how in ("computes", "rests")]
    streams = [loader.load([[i] for i in range(NUM_QUICK + 1)]) for loader in loaders]
    for stream in streams:
        next(stream)
    (folder / "first-are-taken").touch()
    wait_for(3)
    (folder / "ready").touch()
    if ending == "crash":
        os._exit(3)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
