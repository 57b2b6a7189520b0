"""What is said elsewhere of a fault here."""

from domo.ops.console import without_place
from domo.training.task_errors import outside

SHORT = (OSError, MemoryError, RuntimeError)
"""What the system, Python and torch raise where disk or memory is short: worth another try."""


def sendable(text: str) -> str:
    """A text that the wire takes: what is no Unicode, as in some file names, is escaped."""
    return text.encode(errors="backslashreplace").decode()


def describe(error: BaseException) -> str:
    """An exception for people elsewhere; of one in the data, its kind only."""
    if isinstance(error, OSError):
        error = without_place(error)
    return sendable(outside(error))
