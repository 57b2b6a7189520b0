"""Batches as a loader process makes them, and as they travel from it."""

import multiprocessing
from collections.abc import Iterable
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch.utils.data import DataLoader, Dataset, default_collate

from domo.stages.orphans import EndsWithParent
from domo.stages.stopping import Ended
from domo.tasks.base import Collated
from domo.training.task_errors import LoadError, load_error


def collate(items: Any) -> Any:
    """Collate as torch does, unless the dataset has stacked the batch itself."""
    return tuple(items) if isinstance(items, Collated) else default_collate(items)


class Source(Dataset[Any]):
    """A dataset that gives whole batches, and to a loader process in the form in which they travel.

    What fails there, packing included, travels as a `LoadError`: torch would make another exception
    of it, or lose the batch and wait for it for ever.
    """

    def __init__(self, dataset: Any):
        self._dataset, self._stacks = dataset, stacks_itself(dataset)

    def batch(self, indices: list[int]) -> Any:
        """A batch in the process that asks.

        Raises:
            LoadError: It cannot be had.
        """
        try:
            return self._batch(indices)
        except Ended:
            raise
        except (Exception, SystemExit) as error:
            raise load_error(error) from error

    def __getitems__(self, indices: list[int]) -> Any:
        try:
            return bytes(ForkingPickler.dumps(self._batch(indices)))
        except (Exception, SystemExit) as error:
            return bytes(ForkingPickler.dumps(load_error(error)))

    def _batch(self, indices: list[int]) -> Any:
        if self._stacks:
            return collate(Collated(self._dataset.stacked(indices)))
        several = getattr(self._dataset, "__getitems__", None)
        items = several(indices) if several else [self._dataset[i] for i in indices]
        return collate(items)


def unpacked(batch: Any) -> Any:
    """A batch as it came out of a loader process.

    Raises:
        LoadError: It cannot be had.
    """
    batch = ForkingPickler.loads(batch)
    if isinstance(batch, LoadError):
        raise batch
    return batch


def as_it_is(batch: Any) -> Any:
    """A `collate_fn`: batches are whole already."""
    return batch


def stacks_itself(dataset: Dataset[Any]) -> bool:
    """Whether it has a `stacked` that goes with its items.

    A subclass that changes items, and not `stacked`, means the items.
    """
    kind = type(dataset)
    where = {
        name: next(
            (i for i, base in enumerate(kind.__mro__) if name in vars(base)), len(kind.__mro__)
        )
        for name in ("stacked", "__getitem__", "__getitems__")
    }
    return hasattr(dataset, "stacked") and where["stacked"] <= min(
        where["__getitem__"], where["__getitems__"]
    )


def processes() -> BaseContext:
    """Loader processes are forks of a helper that has loaded torch, whose memory they share."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["torch", "domo.training.batches"]
    )  # where a helper runs already: no matter
    return context


def end_helper() -> None:
    """End the helper that loader processes are forks of, which holds 290 MB until then."""
    helper = getattr(forkserver, "_forkserver", None)  # Python has no public way
    if (stop := getattr(helper, "_stop", None)) is not None:
        stop()


def ends_with_us(batches: Iterable[Any]) -> Iterable[Any]:
    """See that the processes of a user's own `DataLoader`, if it is one, end with this one."""
    if isinstance(batches, DataLoader) and batches.num_workers:
        then = batches.worker_init_fn
        if not isinstance(then, EndsWithParent):
            batches.worker_init_fn = EndsWithParent(then)
    return batches
