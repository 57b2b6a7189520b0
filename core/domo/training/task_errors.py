"""One boundary around all that is the user's: what a task raises, as what is wrong with it."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from domo.errors import DomoError, RoundError, TaskError

log = logging.getLogger(__name__)

MAX_REASON = 300
"""Longest text of a foreign exception that is passed on: a traceback could show data."""

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
    except (Exception, SystemExit) as error:
        log.debug("%s", what, exc_info=True)
        raise TaskError(f"{what}: {text_of(error)}") from error


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


def text_of(error: BaseException) -> str:
    """An exception in one line: its text, and its class where that says more."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by its operator"
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: {error}"
    if isinstance(error, RoundError):
        return str(error)
    first = str(error).strip().splitlines()[:1]
    text = first[0][:MAX_REASON] if first else ""
    if isinstance(error, IndexError) and NO_OUTPUT.fullmatch(text):
        text += " Labels are numbered from 0, and the model has no output for this one"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
