"""The runs of a sweep on any executor: they come as they are done; one that is lost is done again.

What a run raises travels as a value. So what an executor raises is the executor's own: a worker
that was killed, a node that is gone. There is no scheduler here: executors have one.
"""

import logging
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from domo.batched.how import EXACT, How
from domo.errors import ConfigError, DivergenceError, DomoError, TransportError
from domo.inputs.images import ImageSettings
from domo.run_config import RunConfig
from domo.simulating.state import ModelRecord
from domo.simulating.visit import SimulatedSilo
from domo.simulation import simulate
from domo.tasks import load_task
from domo.tasks.base import Task
from domo.trial import PREFIX, shard_silos, silo_names

log = logging.getLogger(__name__)

MOST_LOST = 3
"""Times that a run may be lost with its worker, before the sweep is given up."""
_one_run = threading.Lock()
"""Runs share torch's random numbers: threads of one process compute one after another."""


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Work(Protocol[R_co]):
    """A run of a sweep, in a form that travels to other processes."""

    @property
    def title(self) -> str:
        """What it is called where people read it."""
        ...

    def run(self) -> R_co:
        """Compute it, in the process that calls."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What all runs of a comparison share.

    Attributes:
        config: The run; its method and seed are replaced.
        root: The task's data; where an executor is on other machines, a folder that they have.
        prefix: Silo i is called `{prefix}{i}`, where the run has no roster.
        device: Where silos compute.
        processes: Of the silos of one run; None: as many as pay.
        how: Exact, or with the layers of all silos in one call.
    """

    config: RunConfig
    root: Path
    prefix: str = PREFIX
    device: str = "cpu"
    processes: int | None = 1
    how: How = EXACT

    def load(self) -> tuple[Task, list[SimulatedSilo]]:
        """The task and its silos, as the run's seed splits the data."""
        c = self.config
        names = silo_names(c, self.prefix)
        return _load(c.task, c.images, c.classes, self.root, names, c.similarity, c.seed)

    @property
    def title(self) -> str:
        """Method and seed, for people."""
        return f"{self.config.method}, seed {self.config.seed}"

    def run(self) -> list[ModelRecord]:
        """The run, in this process; see `run_one`."""
        return run_one(self)


class Failed(NamedTuple):
    """A run that has ended with an error; it would again."""

    error: Exception


def run_one(setting: Setting) -> list[ModelRecord]:
    """One run, in this process.

    Raises:
        DivergenceError: Names the method and the seed.
    """
    c = setting.config
    task, silos = setting.load()
    try:
        result = simulate(
            c,
            task,
            silos,
            device=setting.device,
            processes=setting.processes,
            how=setting.how,
        )
    except DivergenceError as error:
        raise DivergenceError(f"{setting.title}: {error}", error.count) from error
    return result.history


def cell(work: Work[R]) -> R | Failed:
    """One run, for an executor: what it raises is given back."""
    try:
        with _one_run:
            return work.run()
    except DomoError as error:
        return Failed(error)
    except Exception as error:  # others may not survive the way
        text = "".join(traceback.format_exception(error))
        return Failed(RuntimeError(f"{work.title}: {text}"))


def run_cells(
    todo: Sequence[Work[R]],
    begin: Callable[[], AbstractContextManager[Executor]],
    at_once: int | None = None,
) -> Iterator[tuple[int, R]]:
    """Runs on an executor: the place of each in `todo` and what it gives, as they come.

    Args:
        todo: The runs.
        begin: Gives an executor, and another one where the first is broken.
        at_once: How many are handed to it at a time; None: all, and it has a queue.

    Raises:
        DomoError: What a run has ended with; the others are cancelled.
        TransportError: The workers of a run are lost again and again.
    """
    left, lost = deque(range(len(todo))), Counter[int]()
    while left:
        with begin() as executor:
            yield from _on(executor, todo, left, lost, at_once or len(todo))


def _on(
    executor: Executor,
    todo: Sequence[Work[R]],
    left: deque[int],
    lost: Counter[int],
    at_once: int,
) -> Iterator[tuple[int, R]]:
    """The same, until all are done or the executor is broken; what is not done stays in `left`."""
    waiting: dict[Future[R | Failed], int] = {}
    broken = used = False
    try:
        while waiting or (left and not broken):
            while left and not broken and len(waiting) < at_once:
                try:
                    future = executor.submit(cell, todo[left[0]])
                except BrokenExecutor as error:
                    if not used:
                        raise ConfigError(f"the executor takes no work: {error}") from error
                    broken = True
                else:
                    waiting[future], used = left.popleft(), True
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                i = waiting.pop(future)
                try:
                    outcome = future.result()
                except Exception as error:
                    _count(todo[i], i, lost, error)
                    broken |= isinstance(error, BrokenExecutor)
                    left.append(i)
                    continue
                if isinstance(outcome, Failed):
                    raise outcome.error
                yield i, outcome
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _count(work: Work[object], i: int, lost: Counter[int], error: Exception) -> None:
    lost[i] += 1
    why = f"{type(error).__name__}: {error}".partition("\n")[0]
    if lost[i] == MOST_LOST:
        raise TransportError(
            f"{work.title}: its worker was lost {MOST_LOST} times, the last time as {why}. Look "
            "for the memory that a run takes, and go on as `next:` says"
        ) from error
    log.warning("%s: its worker was lost (%s); the run is done again", work.title, why)


@lru_cache(maxsize=1)
def _load(
    name: str,
    images: ImageSettings | None,
    classes: tuple[str, ...] | None,
    root: Path,
    names: tuple[str, ...],
    similarity: float,
    seed: int,
) -> tuple[Task, list[SimulatedSilo]]:
    task = load_task(name, images, classes)
    return task, shard_silos(task, root, names, similarity, seed)
