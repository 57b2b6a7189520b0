"""One boundary around all that is the user's: what a task raises, as what is wrong with it."""

import logging
import math
import re
import signal
import zlib
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from tarfile import TarError
from typing import Any
from zipfile import BadZipFile

import torch

from domo.errors import DataError, DomoError, RoundError, TaskError, code_of
from domo.metrics.table import Table
from domo.outside.faults import (
    ASKS,
    FROM_0,
    LONE,
    MORE_THAN_ONE,
    NO_KEYBOARD,
    NO_OUTPUT,
    NO_SHARED_MEMORY,
    OF_TORCH,
    kind_of_fault,
    meant_by,
    root_of,
    users_place,
    words_of,
)
from domo.outside.text import saying, task_error
from domo.stages.stopping import Ended

log = logging.getLogger(__name__)

MAX_REASON = 300
"""Longest text of a foreign exception that is passed on: a traceback could show data."""

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
        is_root: What it came of is said in its text already.
        passes: Whether the same may succeed later: memory, a disk, a process.
    """

    code = "sample"
    is_root = True

    def __init__(self, text: str, kind: str, code: str = "", passes: bool = False):
        super().__init__(text)
        self.kind, self.passes = kind, passes
        self.elsewhere = f"samples cannot be loaded: {kind}"
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
        wrapped = saying(TaskError(f"{what}: {error}"), f"{what}: {error.kind}")
        wrapped.code = error.code
        raise wrapped from error
    except DomoError:
        raise
    except (KeyboardInterrupt, GeneratorExit, Ended):
        raise
    except BaseException as error:
        log.debug("%s", what, exc_info=True)
        kind = f"{what}: {kind_of_fault(error)}"
        raise saying(TaskError(f"{what}: {text_of(error)}"), kind) from error


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
    """What a method of a task gives, for people: its type, of a number its value."""
    if isinstance(value, str):
        return "a text"
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
        raise task_error(f"{what} {kind_of(measured)}")
    return measured


def check_first(measured: Any, method: str, cure: str) -> None:
    """See that `evaluate` gives metric -> (sum, count) on the first batch."""
    if not by_name(measured):
        raise task_error(
            f"{method} gives no metric, though there are test data: {cure}; or let eval_data "
            "give None"
        )
    for name, pair in measured.items():
        where = f"{method}[{name!r}]"
        if not isinstance(name, str):
            raise TaskError(f"{where}: the name of a metric is a text")
        if isinstance(pair, Table):
            continue
        if isinstance(pair, str | bytes | Mapping | Set) or not isinstance(pair, Iterable):
            raise task_error(f"{where} must be (sum, count), and is {kind_of(pair)}: {cure}")
        try:
            total, num = map(float, pair)
        except (TypeError, ValueError, RuntimeError):
            raise task_error(
                f"{where} must be (sum, count), and is {kind_of(pair)}: {cure}"
            ) from None
        if not (math.isfinite(total) and math.isfinite(num)) or num < 0:
            raise task_error(
                f"{where} is ({total:g}, {num:g}) on the first batch: a sum is finite, and a count "
                "is 0 or more"
            )


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
    if isinstance(error, RuntimeError) and (meant := meant_by(error)):
        return meant
    if LONE.search(text):
        text = f"{text}. {MORE_THAN_ONE}"
    if own := OF_TORCH.match(text):
        return f"{own[1]} in a loader process"
    if isinstance(error, IndexError) and NO_OUTPUT.fullmatch(text):
        text += f" {FROM_0}"
    if isinstance(error, EOFError) and text == NO_KEYBOARD:
        text += f" ({ASKS})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _first_line(error: BaseException) -> str:
    """Of an exception's text; short, with `?` for what controls a terminal."""
    lines = words_of(error).strip().splitlines()
    text = lines[0] if lines else ""
    text = text if len(text) <= MAX_REASON else text[: MAX_REASON - 3] + "..."
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else "?" for c in text)


def told(error: BaseException) -> str:
    """An exception for whoever has the code: its text, what it came of, and where it was raised."""
    root = root_of(error)
    text = text_of(error) if not isinstance(error, DomoError) else str(error)
    if root is not error and not isinstance(error, DomoError | BaseExceptionGroup):
        text += f" (from {text_of(root)})"
    place = None if isinstance(root, DomoError) else users_place(root) or users_place(error)
    return f"{text}, in {place.file}, line {place.line} ({place.name})" if place else text


def load_error(error: BaseException) -> LoadError:
    """What the task's data, or torch's loader, have raised; with all that is known of it."""
    if isinstance(error, LoadError):
        return error
    text, root = told(error), root_of(error)
    if meant := meant_by(root):
        return LoadError(meant, meant, passes=True)
    kind = kind_of_fault(error)
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
