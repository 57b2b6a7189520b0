"""ResNet-20 on inputs of CIFAR's size, for speed alone: the pixels are noise."""

from functools import cache
from pathlib import Path

import torch

from domo.tasks import models
from domo.tasks.array_task import ArrayTask
from domo.tasks.base import ArrayDataset
from domo.tasks.datasets import DIGITS, Public

SHAPE, TRAIN, TEST = (3, 32, 32), 5_120, 256


@cache
def noise(root: Path) -> Public:
    """A training and a test set; nothing is read."""
    del root
    made = torch.Generator().manual_seed(0)

    def some(num: int) -> ArrayDataset:
        labels = torch.randint(len(DIGITS), (num,), generator=made)
        return ArrayDataset(torch.randn(num, *SHAPE, generator=made), labels)

    return Public(some(TRAIN), some(TEST))


def task() -> ArrayTask:
    """As `load_task` wants it."""
    return ArrayTask(models.resnet20, noise, SHAPE, DIGITS)
