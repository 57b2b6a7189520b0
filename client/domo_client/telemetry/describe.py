"""What is said elsewhere of a fault here."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from domo.errors import DomoError, RoundError, TaskError

log = logging.getLogger(__name__)

MAX_REASON = 300
"""Longest text of a foreign exception that leaves the site: a traceback could show data."""
SHORT = (OSError, MemoryError, RuntimeError)
"""What the system, Python and torch raise where disk or memory is short: worth another try."""


def sendable(text: str) -> str:
    """A text that the wire takes: what is no Unicode, as in some file names, is escaped."""
    return text.encode(errors="backslashreplace").decode()


def describe(error: BaseException) -> str:
    """An exception for people elsewhere: its text, and its class where that says more."""
    return sendable(_text_of(error))


@contextmanager
def task_errors(what: str) -> Iterator[None]:
    """Around code of the user's: what it raises is a reason to decline a run, and no crash.

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
        raise TaskError(f"{what}: {_text_of(error)}") from error


def _text_of(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by its operator"
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of memory: {error}"
    if isinstance(error, RoundError):
        return str(error)
    first = str(error).strip().splitlines()[:1]
    text = first[0][:MAX_REASON] if first else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
