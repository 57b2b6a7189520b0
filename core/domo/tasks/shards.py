"""How a public dataset is dealt out to silos: the paper's split by similarity.

`domo.commands.split` writes the same parts to folders, one for each silo.
"""

import copy

import torch
from torch import Tensor

from domo.errors import ConfigError
from domo.tasks.base import ArrayDataset, Shard


def similarity_split(labels: Tensor, num_silos: int, similarity: float, seed: int) -> list[Tensor]:
    """Deal samples to silos: a share at random, the rest sorted by label.

    The fraction s is chosen at random and dealt evenly; the other samples are sorted by label (in
    random order within a label) and cut into consecutive pieces. Sizes differ by at most one.

    Args:
        labels: Shape (n,), int64.
        num_silos: K.
        similarity: s in [0, 1]; 1 is an i.i.d. split.
        seed: Seed of the choice.

    Returns:
        K vectors of indices, each ascending; every index is in exactly one.

    Raises:
        ConfigError: K is not in 1..n, or s not in [0, 1].

    Source: Xu and Huang, AAAI-22, experiments, "Data Similarity s".
    """
    n = len(labels)
    if not 1 <= num_silos <= n:
        raise ConfigError(f"cannot deal {n} samples to {num_silos} silos: give 1 to {n} silos")
    if not 0 <= similarity <= 1:
        raise ConfigError(f"similarity = {similarity} is not in [0, 1], such as 0.05")
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    num_random = round(similarity * n)
    mixed, rest = order[:num_random], order[num_random:]
    rest = rest[torch.argsort(labels[rest], stable=True)]
    dealt = _even(num_random, num_silos)
    pieces = [size - m for size, m in zip(_even(n, num_silos), dealt, strict=True)]
    parts = zip(torch.split(mixed, dealt), torch.split(rest, pieces), strict=True)
    return [torch.cat(part).sort().values for part in parts]


def _even(n: int, num_parts: int) -> list[int]:
    return [n // num_parts + (i < n % num_parts) for i in range(num_parts)]


def eval_split(num_samples: int, num_silos: int) -> list[Tensor]:
    """Disjoint parts of a test set, index i::K, that together are the whole of it."""
    return [torch.arange(num_samples)[i::num_silos] for i in range(num_silos)]


def select(data: ArrayDataset, where: Tensor) -> ArrayDataset:
    """Some samples of a dataset, of the same kind.

    Args:
        data: The dataset.
        where: Indices, shape (m,), int64.
    """
    part = copy.copy(data)
    part.inputs, part.labels = data.inputs[where], data.labels[where]
    return part


def train_shard(data: ArrayDataset, shard: Shard) -> ArrayDataset:
    """One silo's part of the training set.

    Raises:
        ConfigError: No such shard, or the split is not possible.
    """
    _check(shard)
    parts = similarity_split(data.labels, shard.num_shards, shard.similarity, shard.seed)
    return select(data, parts[shard.index])


def eval_shard(data: ArrayDataset, shard: Shard) -> ArrayDataset:
    """One silo's part of the test set.

    Raises:
        ConfigError: No such shard.
    """
    _check(shard)
    return select(data, eval_split(len(data), shard.num_shards)[shard.index])


def _check(shard: Shard) -> None:
    if not 0 <= shard.index < shard.num_shards:
        raise ConfigError(
            f"there is no shard {shard.index} of {shard.num_shards}: "
            f"with {shard.num_shards} shards the index is 0 to {shard.num_shards - 1}"
        )
