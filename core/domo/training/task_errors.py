"""One boundary around all that is the user's: what a task raises, as what is wrong with it."""

import logging
import os
import re
import signal
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from tarfile import TarError
from typing import Any
from zipfile import BadZipFile

import torch

from domo.errors import DataError, DomoError, RoundError, TaskError, code_of
from domo.stages.place import Place

log = logging.getLogger(__name__)

MAX_REASON = 300
"""Longest text of a foreign exception that is passed on: a traceback could show data."""

NO_OUTPUT = re.compile(r"Target -?\d+ is out of bounds\.")
"""What torch's losses say of a label."""

NO_KEYBOARD = "EOF when reading a line"
"""What `input()` raises where nobody can answer."""

LONE = re.compile(r"Expected more than 1 value per channel when training")
MORE_THAN_ONE = (
    "BatchNorm needs 2 samples or more in a batch: drop_last = true in the run leaves a short last "
    "one out; batch_size must be 2 or more, and so must be a silo's samples; or take GroupNorm"
)
"""What torch's norms say of a batch of one sample, and what helps wherever it is met."""

OF_TORCH = re.compile(r"'?Caught (\w+) in DataLoader worker process \d+\.")
"""How the text begins of what torch's own loader has raised in a process."""

NO_SHARED_MEMORY = (
    "loader processes have no shared memory left: --workers 0, or more of it (docker's --shm-size "
    "2g, shm_size in compose, or --ipc=host)"
)
TOO_MANY_FILES = (
    "too many open files: fewer --workers, or a higher limit (ulimit -n, LimitNOFILE= of the "
    "service, docker's --ulimit nofile=65536)"
)
SHORT_OF = {
    r"shared memory|/torch_\d+.*No space left|Bus error": NO_SHARED_MEMORY,
    r"items of ancdata|Too many open files": TOO_MANY_FILES,
}
"""What a text of torch, or of the system, means."""
DEATHS = {
    -signal.SIGKILL: "a loader process was killed, most likely as memory ran out: fewer --workers, "
    "a smaller batch_size, or more memory (of its container, too)",
    -signal.SIGBUS: NO_SHARED_MEMORY,
    -signal.SIGSEGV: "a loader process has crashed in a library (SIGSEGV); --workers 0 shows where",
}


class LoadError(TaskError):
    """Samples cannot be loaded: what the task's data raise, or a loader process that is gone.

    Attributes:
        kind: The same without names and values of data, for what leaves the silo.
        passes: Whether the same may succeed later: memory, a disk, a process.
    """

    code = "sample"

    def __init__(self, text: str, kind: str, code: str = "", passes: bool = False):
        super().__init__(text)
        self.kind, self.passes = kind, passes
        self.code = code or type(self).code


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
    except LoadError as error:
        wrapped = TaskError(f"{what}: {error}")
        wrapped.code = error.code
        raise wrapped from error
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
        if isinstance(chain, LoadError):
            return chain.passes
        if isinstance(chain, EOFError) and words_of(chain) == NO_KEYBOARD:
            return False
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
        return str(error) or "stopped by its operator"
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: {' '.join(words_of(error).split())}"
    if isinstance(error, RoundError | LoadError):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        first, *others = error.exceptions
        return f"{error.message}: {text_of(first)}" + (f" and {len(others)} more" if others else "")
    text = _first_line(error)
    if isinstance(error, RuntimeError) and (meant := _meant(error)):
        return meant
    if LONE.search(text):
        text = f"{text}. {MORE_THAN_ONE}"
    if own := OF_TORCH.match(text):
        return f"{own[1]} in a loader process"
    if isinstance(error, IndexError) and NO_OUTPUT.fullmatch(text):
        text += " Labels are numbered from 0, and the model has no output for this one"
    if isinstance(error, EOFError) and text == NO_KEYBOARD:
        text += " (the task asks at the keyboard, and there is none)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _first_line(error: BaseException) -> str:
    """Of an exception's text; short, with `?` for what controls a terminal."""
    lines = words_of(error).strip().splitlines()
    text = lines[0] if lines else ""
    text = text if len(text) <= MAX_REASON else text[: MAX_REASON - 3] + "..."
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else "?" for c in text)


def _meant(error: BaseException) -> str:
    """What the machine lacks, if that is what an exception says."""
    found = (meant for sign, meant in SHORT_OF.items() if re.search(sign, words_of(error)))
    return next(found, "")


def told(error: BaseException) -> str:
    """An exception for whoever has the code: its text, what it came of, and where it was raised."""
    root = _root(error)
    text = text_of(error) if not isinstance(error, DomoError) else str(error)
    if root is not error and not isinstance(error, DomoError | BaseExceptionGroup):
        text += f" (from {text_of(root)})"
    place = "" if isinstance(root, DomoError) else _place(root) or _place(error)
    return f"{text}, in {place}" if place else text


def outside(error: BaseException) -> str:
    """An exception for people elsewhere; of one in the data, what kind it is, and no more."""
    if isinstance(error, LoadError):
        return f"samples cannot be loaded: {error.kind}"
    cause, text = error.__cause__, text_of(error)
    if isinstance(error, DomoError):
        text = error.elsewhere or str(error)
    return text.replace(str(cause), cause.kind) if isinstance(cause, LoadError) else text


def load_error(error: BaseException) -> LoadError:
    """What the task's data, or torch's loader, have raised; with all that is known of it."""
    if isinstance(error, LoadError):
        return error
    text, root = told(error), _root(error)
    if meant := _meant(root):
        return LoadError(meant, meant, passes=True)
    kind = type(root).__name__
    if isinstance(root, DomoError):
        kind = "the data are not what the task reads"
    elif isinstance(root, OSError) and root.errno:
        kind += f" ({os.strerror(root.errno)})"
    kind += "; the silo's own text says more"
    return LoadError(text, kind, code_of(root), may_pass(error))


def of_deaths(exit_codes: Iterable[int | None]) -> LoadError | None:
    """What loader processes have died of; None: they have not.

    Args:
        exit_codes: Of each process; None: it runs.
    """
    codes = [code for code in exit_codes if code]
    if not codes:
        return None
    what = DEATHS.get(codes[0], f"a loader process has ended with exit code {codes[0]}")
    return LoadError(what, what, passes=True)


def _root(error: BaseException) -> BaseException:
    """What an exception came of: its first cause, of a group that of the first."""
    seen = {id(error)}
    while True:
        cause = error.__cause__
        if isinstance(error, BaseExceptionGroup):
            cause = error.exceptions[0]
        if cause is None or id(cause) in seen or isinstance(error, LoadError):
            return error
        seen.add(id(cause))
        error = cause


def _place(error: BaseException) -> str:
    """File and line in the task's code where an exception was raised; empty: it was not there."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        place = Place(code.co_filename, line, code.co_name)
        if not (place.is_installed or place.is_standard or place.is_own):
            return f"{place.file}, line {line} ({place.name})"
    return ""
