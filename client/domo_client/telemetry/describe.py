"""What is said elsewhere of a fault here."""

import torch

from domo.errors import RoundError

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
