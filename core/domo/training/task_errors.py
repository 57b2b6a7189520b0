"""One boundary around all that is the user's: what a task raises, as what is wrong with it."""

import logging
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tarfile import TarError
from typing import Any
from zipfile import BadZipFile

import torch

from domo.errors import DataError, DomoError, RoundError, TaskError

log = logging.getLogger(__name__)

MAX_REASON = 300
"""Longest text of a foreign exception that is passed on: a traceback could show data."""

IN_WORKER = re.compile(r"Caught \w+ in DataLoader worker process \d+\.")
NO_ROOM = re.compile(r"shared memory|/torch_\d+.*No space left|Bus error")
SHM = (
    ". There is no room in /dev/shm for the batches of the loader processes: fewer --workers, or "
    "more of it (in a container: --shm-size 1g)"
)
"""What torch says of a batch that a loader process could not hand over, and what to do."""
NO_OUTPUT = re.compile(r"Target -?\d+ is out of bounds\.")
"""What torch's losses say of a label."""


@contextmanager
def task_errors(what: str) -> Iterator[None]:
    """Around code of the user's: what it raises is no crash, but a reason to refuse the task.

    Args:
        what: What has failed, in words.

    Raises:
        TaskError: That, and why.
    """
    try:
        yield
    except DomoError:
        raise
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        log.debug("%s", what, exc_info=True)
        raise TaskError(f"{what}: {text_of(error)}") from error


PASSING = (
    OSError,
    EOFError,
    MemoryError,
    torch.OutOfMemoryError,
    BadZipFile,
    TarError,
    zlib.error,
    DataError,
)
"""What is raised where memory is short, a disk or a mount is away, or files are still copied."""
SHORT = re.compile(
    "out of memory|can(?:not|'t) allocate memory|ALLOC_FAILED|DataLoader worker|"
    "unable to (?:open shared|mmap|write to file)|too many open files|no space left|"
    "PytorchStreamReader failed",
    re.IGNORECASE,
)
"""What torch says of the same in a RuntimeError."""


def may_pass(error: BaseException) -> bool:
    """Whether the same task may work later: memory was short, a disk away, files not there yet."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, PASSING) or (isinstance(chain, DomoError) and chain.retryable):
            return True
        if isinstance(chain, RuntimeError) and SHORT.search(words_of(chain)):
            return True
        chain = chain.__cause__
    return False


def kind_of(value: Any) -> str:
    """What a method of a task gives, for people: short, with its type where that says more."""
    if isinstance(value, str):
        return f"{value!r:.60}"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"an object of type {type(value).__name__}"


def by_name(measured: Any) -> Mapping[str, Any]:
    """What `evaluate` gives, by the names of metrics.

    Raises:
        TaskError: It gives something else.
    """
    if not isinstance(measured, Mapping):
        what = "evaluate(model, batch) must give metric -> (sum, count), and gives"
        raise TaskError(f"{what} {kind_of(measured)}")
    return measured


def words_of(error: BaseException) -> str:
    """Its own text; empty where it cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def text_of(error: BaseException) -> str:
    """An exception in one line: its text, and its class where that says more."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by its operator"
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: {' '.join(words_of(error).split())}"
    if isinstance(error, RoundError):
        return words_of(error)
    lines = words_of(error).strip().splitlines() or [""]
    if len(lines) > 1 and IN_WORKER.fullmatch(lines[0]):
        text = lines[-1][:MAX_REASON]  # torch's: the worker's traceback, then what it raised
        return text + SHM if NO_ROOM.search(text) else text
    text = lines[0][:MAX_REASON]
    if isinstance(error, IndexError) and NO_OUTPUT.fullmatch(text):
        text += " Labels are numbered from 0, and the model has no output for this one"
    if NO_ROOM.search(text):
        text = text.partition(" It is possible that")[0].rstrip(".") + SHM
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
