"""Batches and randomness: every random choice is a pure function of where it is made.

Seeds come from (run seed, silo, round, step, purpose), so the number of loader processes, the order
of silos and a restart change nothing.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import deterministic
from torch.utils.data import DataLoader, Dataset, IterableDataset

from domo.outside.text import task_error
from domo.seeds import generator_for
from domo.stages import workers
from domo.stages.now import in_stage
from domo.stages.orphans import EndsWithParent
from domo.training.devices import page_locked
from domo.training.loading.travel import Source, as_it_is, processes, unpacked
from domo.training.task_errors import LoadError, load_error, of_deaths

CPU = torch.device("cpu")
EVAL_BATCH = 256
WARN = 1
"""torch's deterministic algorithms where there are any, else a warning."""
FOR_INDUCTOR = "TORCHINDUCTOR_DETERMINISTIC"
"""The variable by which torch's compiler is told, too, if it is loaded later."""
FILLING: Any = deterministic
"""torch's module of one switch, a property that type checkers do not see."""
_END = object()


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the global generators of the CPU and of one kind of device.

    `torch.manual_seed` seeds every backend; for each that is not yet in use it formats a stack
    trace, which costs more than a step of a small model.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
    elif device.type != "cpu":
        torch.manual_seed(seed)


def configure_torch(num_threads: int, device: torch.device | None = None) -> None:
    """Thread count and deterministic algorithms, so that equal inputs give equal bytes.

    With them torch writes NaN over all memory that it takes, in case somebody reads it before
    writing to it. That costs a convolutional network 10 to 14 % of a step and changes no byte of
    code that reads what it wrote; it is left out.
    """
    torch.set_num_threads(num_threads)
    if device is not None and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    _deterministic(WARN)
    FILLING.fill_uninitialized_memory = False


def _deterministic(mode: int) -> None:
    """As `torch.use_deterministic_algorithms`, which loads torch's compiler to tell it so.

    The compiler costs each process seconds and over 100 MB; one that is loaded is told here, and
    one that a task's `torch.compile` loads later reads the variable.
    """
    torch.set_deterministic_debug_mode(mode)
    os.environ[FOR_INDUCTOR] = str(int(mode > 0))
    if (inductor := sys.modules.get("torch._inductor.config")) is not None:
        inductor.deterministic = mode > 0  # type: ignore[attr-defined]


@contextmanager
def torch_as_it_was(device: torch.device = CPU) -> Iterator[None]:
    """Give back threads, algorithms, random numbers: the process is somebody's notebook or test."""
    threads, benchmark = torch.get_num_threads(), torch.backends.cudnn.benchmark
    filled = FILLING.fill_uninitialized_memory
    mode, told = torch.get_deterministic_debug_mode(), os.environ.get(FOR_INDUCTOR)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            _deterministic(mode)
            FILLING.fill_uninitialized_memory = filled
            if told is None:
                del os.environ[FOR_INDUCTOR]
            else:
                os.environ[FOR_INDUCTOR] = told
            torch.backends.cudnn.benchmark = benchmark


def to_device(batch: Any, device: torch.device) -> Any:
    """Move every tensor in nested tuples, lists and dicts.

    A GPU computes meanwhile: the next batch is loaded and sent while it works on this one.
    """
    if isinstance(batch, Tensor):
        return page_locked(batch, device).to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {k: to_device(v, device) for k, v in batch.items()}
    if isinstance(batch, (tuple, list)):
        moved = [to_device(v, device) for v in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch


def _first_of(batch: Any) -> Any:
    """The item of a batch of one."""
    if isinstance(batch, Mapping):
        return {k: _first_of(v) for k, v in batch.items()}
    if isinstance(batch, tuple | list) and not isinstance(batch[0], str):
        return tuple(_first_of(v) for v in batch)
    return batch[0]


def _lists(plan: Iterable[Sequence[int]]) -> Iterator[list[int]]:
    """The index lists of a plan.

    Raises:
        LoadError: What the plan raises.
    """
    try:
        yield from (list(indices) for indices in plan)
    except Exception as error:
        raise load_error(error) from error


class _Plan:
    """The index lists that a loader draws from now.

    An object of its own: were it the `BatchLoader`, loader and plan would form a cycle, and workers
    that the garbage collector ends are waited for, 5 s each.
    """

    def __init__(self) -> None:
        self.batches: Iterable[Sequence[int]] = ()

    def __iter__(self) -> Iterator[list[int]]:
        return _lists(self.batches)


class BatchLoader:
    """Loads given index lists from a dataset; worker processes, if any, outlive a round.

    After an error, such as the death of a worker, the next `load` starts fresh ones.

    Args:
        dataset: Map-style dataset with deterministic items.
        num_workers: Loader processes; any number gives the same batches.

    Raises:
        TaskError: It is no map-style dataset.
    """

    def __init__(self, dataset: Dataset[Any], num_workers: int = 0):
        kind = type(dataset)
        indexed = hasattr(kind, "__len__") and hasattr(kind, "__getitem__")
        if isinstance(dataset, IterableDataset) or not indexed:
            given = "None" if dataset is None else kind.__name__
            raise task_error(
                f"{given} is no map-style dataset: it has to have a length, and items by index"
            )
        self.dataset, self._num_workers = dataset, num_workers
        self._source = Source(dataset)
        self._plan = _Plan()
        self._loader = self._fresh() if num_workers else None

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it is one that has loaded nothing yet."""
        return type(self), (self.dataset, self._num_workers)

    def _fresh(self) -> DataLoader[Any]:
        """Processes that load."""
        return DataLoader(
            self._source,
            batch_sampler=self._plan,
            num_workers=self._num_workers,
            collate_fn=as_it_is,
            persistent_workers=True,
            multiprocessing_context=processes(),
            worker_init_fn=EndsWithParent(workers.at_start()),
            generator=torch.Generator(),
        )

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def load(self, plan: Iterable[Sequence[int]]) -> Iterator[Any]:
        """The batches of a plan, in order."""
        if self._loader is None:
            return self._here(plan)
        self._plan.batches = plan
        with self._dropped_on_error(), in_stage("workers"):
            return self._by_workers(iter(self._loader))

    def _here(self, plan: Iterable[Sequence[int]]) -> Iterator[Any]:
        """Batches that this process reads; torch's loader would cost more than a small model."""
        lists = _lists(plan)
        while True:
            with in_stage("batch"):
                indices = next(lists, None)
                if indices is None:
                    return
                batch = self._source.batch(indices)
            yield batch

    def _by_workers(self, stream: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._dropped_on_error(), in_stage("workers"):
                batch = next(stream, _END)
                if batch is _END:
                    return
                batch = unpacked(batch)
            yield batch

    def items(self, indices: Sequence[int]) -> Iterator[Any]:
        """Some items, where items are read: by the workers, if there are any."""
        if not self._num_workers:
            return self._read(indices)
        return (_first_of(batch) for batch in self.load([[i] for i in indices]))

    def _read(self, indices: Sequence[int]) -> Iterator[Any]:
        for i in indices:
            try:
                item = self.dataset[i]
            except Exception as error:
                raise load_error(error) from error
            yield item

    @contextmanager
    def _dropped_on_error(self) -> Iterator[None]:
        try:
            yield
        except LoadError:
            self._loader = self._fresh()
            raise
        except Exception as error:
            raise self._fault(error) from error  # in no variable, or it would keep this frame

    def _fault(self, error: Exception) -> LoadError:
        """What torch's loader has raised; it is replaced by a fresh one."""
        processes = getattr(getattr(self._loader, "_iterator", None), "_workers", ())
        died = of_deaths(process.exitcode for process in processes)
        self._loader = self._fresh()
        return died or load_error(error)

    def sequential(self, batch_size: int = EVAL_BATCH) -> Iterator[Any]:
        """The whole dataset once, in order."""
        n = len(self)
        return self.load([range(i, min(i + batch_size, n)) for i in range(0, n, batch_size)])


def random_plan(
    num_samples: int,
    batch_size: int,
    run_seed: int,
    silo_id: str,
    round_index: int,
    drop_last: bool = False,
) -> Iterator[list[int]]:
    """Endless batches: a fresh permutation for each pass.

    A short last batch is kept, or with `drop_last` left out: other samples in each pass. Where
    there are fewer samples than make one batch, they are one.
    """
    used = num_samples
    if drop_last and num_samples >= batch_size:
        used -= num_samples % batch_size
    epoch = 0
    while True:
        source = generator_for(run_seed, silo_id, round_index, epoch, "order")
        order = torch.randperm(num_samples, generator=source).tolist()
        yield from (order[i : i + batch_size] for i in range(0, used, batch_size))
        epoch += 1
