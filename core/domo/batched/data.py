"""The batches of K silos as one, sample i of silo k at row i*K + k: the same as in the exact loop.

Datasets in memory are joined and lie on the device; others are read silo by silo.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domo.errors import IncompleteRoundError
from domo.run_config import RunConfig
from domo.seeds import generator_for
from domo.tasks.augment import Crops, crop, crop_and_flip, draw_crops
from domo.tasks.base import ArrayDataset, Task
from domo.tasks.datasets import PixelDataset
from domo.training.batches import BatchLoader, random_plan, to_device


class Part(NamedTuple):
    """A batch of silos whose batches have the same size in this step.

    Attributes:
        places: Which they are, by their places in the round; None: all of them.
        num: How many they are.
        batch: Their samples, folded.
    """

    places: list[int] | None
    num: int
    batch: Any


class Joined:
    """Datasets in memory as one, on a device.

    Args:
        datasets: By the name of their silo; all of one kind.
        device: Where batches are made.

    Attributes:
        sizes: How many samples each has, in their order.
    """

    def __init__(self, datasets: Mapping[str, ArrayDataset], device: torch.device):
        first = next(iter(datasets.values()))
        self._data = copy.copy(first)
        self._data.inputs = torch.cat([d.inputs for d in datasets.values()]).to(device)
        self._data.labels = torch.cat([d.labels for d in datasets.values()]).to(device)
        if isinstance(self._data, PixelDataset):
            self._data.mean, self._data.std = first.mean.to(device), first.std.to(device)  # type: ignore[attr-defined]
        self.sizes = {name: len(d) for name, d in datasets.items()}
        starts = accumulate(self.sizes.values(), initial=0)
        self._first = dict(zip(datasets, starts, strict=False))
        self._device = device

    @property
    def sample_bytes(self) -> int:
        """Of one input, as the model takes it: float32."""
        return 4 * self._data.inputs[0].numel()

    @property
    def labels_each(self) -> float:
        """How many labels a sample has."""
        return self._data.labels[0].numel()

    def in_order(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All samples once, standardised, in batches of so many."""
        for lo in range(0, len(self._data), size):
            yield self._data[lo : lo + size]  # type: ignore[index]  # views, where nothing is to do

    def split(self, numbers: Tensor) -> tuple[Tensor, ...]:
        """Numbers of all samples in order, silo by silo."""
        return torch.split(numbers, list(self.sizes.values()))

    def at(self, silo_id: str, indices: Sequence[int]) -> Tensor:
        """Where samples of a silo lie."""
        return torch.tensor(indices, dtype=torch.int64).add_(self._first[silo_id]).to(self._device)

    def batch(self, where: Tensor) -> tuple[Tensor, Tensor]:
        """The folded batch of samples at places of shape (b, K), standardised."""
        at, data = where.flatten(), self._data
        inputs = data.inputs.index_select(0, at)
        if isinstance(data, PixelDataset):
            inputs = (inputs - data.mean) / data.std
        return inputs, data.labels.index_select(0, at)


def join(loaders: Mapping[str, BatchLoader], device: torch.device) -> Joined | None:
    """The training data of all silos as one dataset; None: they are not arrays of one kind."""
    data = {name: loader.dataset for name, loader in loaders.items() if len(loader)}
    first = next(iter(data.values()), None)
    if type(first) not in (ArrayDataset, PixelDataset) or not all(
        type(d) is type(first)
        and d.inputs.shape[1:] == first.inputs.shape[1:]  # type: ignore[attr-defined]
        and d.inputs.dtype == first.inputs.dtype  # type: ignore[attr-defined]
        and d.labels.dtype == first.labels.dtype  # type: ignore[attr-defined]
        for d in data.values()
    ):
        return None
    if isinstance(first, PixelDataset) and not all(
        torch.equal(d.mean, first.mean) and torch.equal(d.std, first.std)  # type: ignore[attr-defined]
        for d in data.values()
    ):
        return None
    return Joined(data, device)  # type: ignore[arg-type]


def fold(batches: Sequence[Any]) -> Any:
    """The batches of several silos as one; nested tuples, lists and dicts of tensors."""
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.stack(tuple(batches), 1).flatten(0, 1)
    if isinstance(first, Mapping):
        return {key: fold([b[key] for b in batches]) for key in first}
    if isinstance(first, tuple | list):
        folded = [fold(column) for column in zip(*batches, strict=True)]
        return type(first)(*folded) if hasattr(first, "_fields") else type(first)(folded)
    raise TypeError(f"a batch holds {type(first).__name__}, which is no tensor")


def unfold(batch: Any, num: int, place: int) -> Any:
    """One silo's part of a folded batch, or of what a model makes of it."""
    if isinstance(batch, Tensor):
        return batch.view(-1, num, *batch.shape[1:])[:, place]
    if isinstance(batch, Mapping):
        return {key: unfold(value, num, place) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [unfold(value, num, place) for value in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    raise TypeError(f"a model gives {type(batch).__name__}, which is no tensor")


def parts_of_round(
    config: RunConfig,
    task: Task,
    loaders: Mapping[str, BatchLoader],
    joined: Joined | None,
    r: int,
    num_steps: int,
    device: torch.device,
) -> Iterator[list[Part]]:
    """The batches of all silos of a round, step by step: one, or one for each size.

    Args:
        config: The run.
        task: Its `augment` and `batch_plan` are used.
        loaders: Training data of the silos that make these steps, by name.
        joined: The same data as one dataset, if there is one.
        r: The round.
        num_steps: P.
        device: Where batches are wanted.

    Raises:
        IncompleteRoundError: The task's own plan ends before.
    """
    plans = {n: _plan(config, task, n, len(data), r, num_steps) for n, data in loaders.items()}
    read = _reader(loaders, plans, joined)
    augment = getattr(task, "augment", None)
    for step in range(num_steps):
        sizes: dict[int, list[str]] = {}
        for name, plan in plans.items():
            sizes.setdefault(len(plan[step]), []).append(name)
        parts = []
        for names in sizes.values():
            batch = read(step, names)
            if augment is not None:
                drawn = [generator_for(config.seed, n, r, step, "augment") for n in names]
                batch = _augmented(augment, batch, drawn)
            everyone = len(names) == len(plans)
            places = None if everyone else [list(plans).index(n) for n in names]
            parts.append(Part(places, len(names), to_device(batch, device)))
        yield parts


def _plan(
    config: RunConfig, task: Task, silo_id: str, num_samples: int, r: int, num_steps: int
) -> list[Sequence[int]]:
    """The index lists of a silo's batches in a round, as in the exact loop."""
    own = getattr(task, "batch_plan", None)
    planned = own(r, num_steps) if own else None
    if planned is None:
        at = (config.seed, silo_id, r)
        planned = random_plan(num_samples, config.batch_size, *at, config.drop_last)
    plan = list(islice(planned, num_steps))
    if len(plan) < num_steps:
        raise IncompleteRoundError(
            f"round {r + 1}, {silo_id}: batch_plan gave {len(plan)} batches for {num_steps} steps",
            len(plan),
            num_steps,
        )
    return plan


def _reader(
    loaders: Mapping[str, BatchLoader],
    plans: Mapping[str, Sequence[Sequence[int]]],
    joined: Joined | None,
) -> Callable[[int, Sequence[str]], Any]:
    """What reads the folded batch of some silos in a step; each batch is read once, in order."""
    if joined is None:
        streams = {name: data.load(plans[name]) for name, data in loaders.items()}
        return lambda step, names: fold([next(streams[n]) for n in names])
    sizes = {name: [len(b) for b in plan] for name, plan in plans.items()}
    order = {name: joined.at(name, [i for b in plan for i in b]) for name, plan in plans.items()}
    first = next(iter(sizes.values()))
    if all(own == first for own in sizes.values()):
        whole = torch.split(torch.stack(tuple(order.values()), 1), first)
        return lambda step, names: joined.batch(whole[step])
    parts = {name: torch.split(own, sizes[name]) for name, own in order.items()}
    return lambda step, names: joined.batch(torch.stack([parts[n][step] for n in names], 1))


def _augmented(augment: Any, batch: Any, drawn: Sequence[torch.Generator]) -> Any:
    """A folded batch, each silo's part as its generator has it."""
    num = len(drawn)
    if isinstance(augment, partial) and augment.func is crop_and_flip and not augment.args:
        images, labels = batch
        each = [draw_crops(len(images) // num, generator) for generator in drawn]
        crops = Crops(*(fold(column).to(images.device) for column in zip(*each, strict=True)))
        black = augment.keywords["black"].to(images.device)
        return crop(images, crops, black), labels
    parts = [augment(unfold(batch, num, place), own) for place, own in enumerate(drawn)]
    return fold(parts)
