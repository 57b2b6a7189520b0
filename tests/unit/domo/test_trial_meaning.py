"""A simulation compares its silos as a coordinator does."""

from typing import Any

import pytest
import torch
from torch import nn

import domo


class Pairs:
    """Two numbers, two classes."""

    classes: Any = None

    def build_model(self) -> nn.Module:
        return nn.Linear(2, 2)

    def train_data(self, root: Any, shard: Any) -> Any:
        raise AssertionError("data are given")

    loss = staticmethod(domo.cross_entropy_loss)
    evaluate = staticmethod(domo.classification_sums)


def data(names: list[str], shift: int = 0) -> domo.ArrayDataset:
    source = torch.Generator().manual_seed(3)
    held = domo.ArrayDataset(torch.rand(8, 2, generator=source), torch.arange(8) % 2 + shift)
    held.classes = names
    return held


def simulate(**silos: domo.ArrayDataset) -> Any:
    return domo.simulate(Pairs(), silos, num_rounds=1, local_steps=1)


def test_silos_of_one_meaning() -> None:
    assert simulate(a=data(["cat", "dog"]), b=data(["cat", "dog"])).history


def test_a_silo_with_another_list() -> None:
    with pytest.raises(domo.MeaningMismatchError, match=r"the data of b .* the order of the cl"):
        simulate(a=data(["cat", "dog"]), b=data(["dog", "cat"]))


def test_labels_that_are_shifted() -> None:
    with pytest.raises(domo.MeaningMismatchError, match=r"data of b .*labels are 1\.\.2, and 2 c"):
        simulate(a=data(["cat", "dog"]), b=data(["cat", "dog"], shift=1))


def test_the_classes_of_the_run() -> None:
    held = {"a": data(["cat", "dog"])}
    assert domo.simulate(Pairs(), held, num_rounds=1, local_steps=1, classes=["cat", "dog"]).history
    with pytest.raises(domo.MeaningMismatchError, match=r"cow is wanted"):
        domo.simulate(Pairs(), held, num_rounds=1, local_steps=1, classes=["cat", "cow"])
    with pytest.raises(domo.ConfigError, match=r"classes = .*names the class cat twice"):
        domo.simulate(Pairs(), held, num_rounds=1, classes=["cat", "cat"])
    with pytest.raises(domo.ConfigError, match=r"classes names 2 classes: .* imagefolder:2, not"):
        domo.simulate("imagefolder:3", num_rounds=1, classes=["cat", "dog"])
