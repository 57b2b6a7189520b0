"""What is said elsewhere of a fault here."""

from domo.outside.faults import outside
from domo.outside.text import Public

SHORT = (OSError, MemoryError, RuntimeError)
"""What the system, Python and torch raise where disk or memory is short: worth another try."""


def sendable(text: Public) -> Public:
    """A text that the wire takes: what is no Unicode, as in some file names, is escaped."""
    return Public(text.encode(errors="backslashreplace").decode())


def describe(error: BaseException) -> Public:
    """An exception for people elsewhere: what kind of fault it is; see `domo.outside`."""
    return sendable(outside(error))
