"""What is found out of data: kinds that tell, and nothing where data may well be so."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from domo import load_task, meaning_of
from domo.errors import TaskError
from domo.inputs.form import InputForm
from domo.meaning.measure import of_task
from domo.meaning.value import Meaning
from domo.tasks.base import Shard
from domo.training.batches import BatchLoader


class Items(Dataset[Any]):
    """A list of items, with what a dataset may know besides."""

    def __init__(self, items: list[Any], **known: Any):
        self._items = items
        vars(self).update(known)
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return self._items[index]


def pictures(n: int = 8, scale: float = 1.0, shift: float = 0.0) -> torch.Tensor:
    source = torch.Generator().manual_seed(1)
    return scale * torch.rand((n, 3, 8, 8), generator=source) + shift


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (pictures(), "0..1"),
        (pictures() - 5e-4, "0..1"),
        (pictures(scale=255), "0..255"),
        ((pictures(scale=255)).to(torch.uint8), "0..255"),
        (pictures(scale=4095), "above 255"),
        (pictures(scale=4, shift=-2), "around 0"),
        (pictures(scale=3000, shift=-1000), "wide"),
        (pictures(scale=30), ""),
        (pictures(scale=1.2, shift=-0.1), ""),
        (pictures().round(), ""),
        (pictures() * float("nan"), ""),
        ((pictures(scale=255)).long(), ""),
        (pictures().flatten(1)[:, :63], ""),
        (pictures().flatten(1)[:, :64], "0..1"),
    ],
)
def test_kinds_of_numbers(inputs: torch.Tensor, kind: str) -> None:
    found = meaning_of(TensorDataset(inputs, torch.arange(8)))
    assert found.kind == kind
    assert found.labels == (0, 7)
    assert found.input.shape == tuple(inputs.shape[1:])


def test_what_varies_is_not_fixed() -> None:
    items = [(torch.zeros(3, 8, n), 0) for n in (5, 6, 7)]
    assert meaning_of(Items(items)).input.shape == (3, 8, None)
    assert meaning_of(Items(items[:1])).input.shape is None, "one example tells nothing"
    texts = [(torch.zeros(128, dtype=torch.int64), 0)] * 3
    assert meaning_of(Items(texts)).input.shape == (None,), "padded to the longest of this silo"
    items = [(torch.zeros(3, 8), 0), (torch.zeros(3), 0)]
    assert meaning_of(Items(items)).input.shape is None


@pytest.mark.parametrize(
    "item",
    [
        {"image": torch.rand(3, 8, 8), "label": 2},
        {"pixel_values": np.random.default_rng(0).random((3, 8, 8), np.float32), "labels": 2},
        (torch.rand(3, 8, 8), torch.tensor(2)),
        (torch.rand(3, 8, 8), np.int64(2), "of whom"),
        [np.random.default_rng(0).random((3, 8, 8)), 2],
    ],
)
def test_forms_of_items(item: Any) -> None:
    found = meaning_of(Items([item] * 3))
    assert (found.input.shape, found.kind, found.labels) == ((3, 8, 8), "0..1", (2, 2))


@pytest.mark.parametrize(
    "item",
    [
        "a sentence",
        ("a sentence", "a class"),
        {"text": "a sentence"},
        torch.rand(3),
        (torch.rand(3), torch.rand(3)),
        (torch.rand(3), 0.5),
        (torch.rand(3), True),
        (object(), None),
    ],
)
def test_items_without_labels(item: Any) -> None:
    assert meaning_of(Items([item] * 3)).labels is None


def test_labels_are_taken_whole_where_they_lie_in_one_list() -> None:
    labels = torch.zeros(10_000, dtype=torch.int64)
    labels[4321], labels[17] = 9, -100
    data = TensorDataset(torch.zeros(10_000, 2), labels)
    assert meaning_of(data).labels == (0, 9), "-100 is what losses leave out"
    assert meaning_of(Subset(data, [4321, 5])).labels == (0, 9)
    assert meaning_of(Subset(data, [6, 5])).labels == (0, 0)
    few = Items([(torch.zeros(2), 0)] * 3, targets=[3, 4, 5])
    assert meaning_of(few).labels == (3, 5)
    assert meaning_of(Items([(torch.zeros(2), 1)] * 3, targets=[[3], [4, 5], [6]])).labels == (1, 1)


def test_what_datasets_know() -> None:
    """torchvision's folders and transforms, and the features of Hugging Face's datasets."""

    class Normalize:
        mean, std = [0.5, 0.5], (0.25, 0.25)

    steps = SimpleNamespace(transforms=[object(), Normalize()])
    data = Items([(torch.zeros(2), 0)] * 2, classes=["cat", "dog"], transform=steps)
    for found in (meaning_of(data), meaning_of(Subset(data, [1, 0]))):
        assert found.classes == ("cat", "dog")
        assert (found.input.mean, found.input.std) == ((0.5, 0.5), (0.25, 0.25))
    features = {"image": object(), "label": SimpleNamespace(names=["ape", "bee"])}
    assert meaning_of(Items([{"label": 0}] * 2, features=features)).classes == ("ape", "bee")
    odd = Items([(torch.zeros(2), 0)] * 2, classes=["a", "a"], transform=lambda x: x)
    assert meaning_of(odd).classes == (), "what a library has is nobody's fault"
    assert meaning_of(data, classes=["x", "y"]).classes == ("x", "y"), "what is said goes first"


def test_a_few_examples_are_read_and_no_random_number_is_moved() -> None:
    class Noisy(Items):
        def __getitem__(self, index: int) -> Any:
            torch.rand(3)
            return super().__getitem__(index)

    data = Noisy([(torch.zeros(2), 0)] * 1000)
    before = torch.random.get_rng_state()
    meaning_of(data)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len(data.read) == 32
    assert {0, 999} <= set(data.read)
    assert meaning_of(Items([])) == Meaning()


def test_an_example_that_cannot_be_read_is_left_to_the_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Items):
        def __getitem__(self, index: int) -> Any:
            raise OSError("the disk is gone")

    found = meaning_of(Broken([0] * 3), version="1")
    assert found == Meaning(version="1")
    assert "not all of the data can be read: OSError: the disk is gone" in caplog.text


def test_items_come_from_the_workers_where_there_are_some() -> None:
    data = TensorDataset(pictures(), torch.arange(8))
    loader = BatchLoader(data)
    inputs, label = next(iter(loader.items([3])))
    assert torch.equal(inputs, data.tensors[0][3])
    assert label == 3


class Says:
    """A task with what a test gives it."""

    def __init__(self, **said: Any):
        vars(self).update(said)


def test_what_a_task_says() -> None:
    data = TensorDataset(pictures(), torch.arange(8))
    told = of_task(
        Says(classes=[1, "two"], version=3, input_form=InputForm(channels="BGR")),
        Path(),
        None,
        data,
    )
    assert (told.classes, told.version, told.input.channels) == (("1", "two"), "3", "BGR")
    assert told.input.shape == (3, 8, 8), "and the rest is found out"
    assert of_task(Says(classes=8), Path(), None, data).num_classes == 8
    whole = Says(meaning=lambda root, shard: Meaning(version=f"of {root} {shard}"))
    assert of_task(whole, Path("x"), None, data).version == "of x None"
    assert of_task(Says(), Path(), None, data).version == ""


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"classes": "cat"}, "classes has to be a list of names, not the text 'cat'"),
        ({"classes": ["cat", "cat"]}, "what the task says of its data: classes names the class ca"),
        ({"classes": ["cat\n", "dog"]}, "one line of printable characters"),
        ({"classes": -1}, "num_classes"),
        ({"version": "x" * 300}, "version"),
        ({"input_form": "RGB"}, r"input_form has to be a domo\.InputForm, not str"),
        ({"meaning": lambda root, shard: {"version": "1"}}, "has to give a Meaning, not dict"),
    ],
)
def test_what_a_task_may_not_say(said: dict[str, Any], text: str) -> None:
    with pytest.raises(TaskError, match=text):
        of_task(Says(**said), Path(), None, TensorDataset(torch.zeros(2, 2), torch.zeros(2)))


def test_named_tasks_say_it(tmp_path: Path) -> None:
    task, shard = load_task("digits"), Shard(0, 4)
    found = of_task(task, tmp_path, shard, task.train_data(tmp_path, shard))
    assert found.classes == tuple("0123456789")
    assert found.input == InputForm((1, 8, 8), dtype="float32")
    assert (found.version, found.kind, found.labels) == ("1", "around 0", (0, 9))
