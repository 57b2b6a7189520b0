"""The silo's own log lines, for the coordinator, where the operator has agreed to that.

Only domo's loggers are heard, from INFO on, and no tracebacks: a task's log lines, its prints and
its exceptions' frames could show data. Of a line of domo's its words go, and of what is put into
them numbers and what is known to be public: never a path.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from domo.names import one_line
from domo.outside.text import Public
from domo_client.telemetry.describe import sendable

MAX_LINES = 200
"""Kept for a coordinator that cannot be reached now; older ones are lost."""
LINES_PER_REPORT = 50
SOURCES = ("domo", "domo_proto", "domo_client", "domo_client.journal")

journal = logging.getLogger("domo_client.journal")
"""What the operator reads on the screen anyway, so it goes to no other handler."""
journal.propagate = False
journal.setLevel(logging.INFO)
journal.addHandler(logging.NullHandler())


class Line(NamedTuple):
    """One line.

    Attributes:
        number: Counted from 1.
        at: When it was written, monotonic seconds.
        level: INFO, WARNING, ERROR or CRITICAL.
        text: As `one_line` makes it.
    """

    number: int
    at: float
    level: str
    text: Public


def public_message(record: logging.LogRecord) -> Public:
    """A line of domo's as it may leave: its words, numbers, and what is known to be public.

    The words of a call are domo's; what is put into them may be a path or a text of the data.
    """
    args: Any = record.args or ()
    if isinstance(args, Mapping):
        args = {key: _public(value) for key, value in args.items()}
    else:
        args = tuple(_public(value) for value in args)
    words = str(record.msg)
    return Public(words % args if args else words)


def _public(value: object) -> object:
    return value if isinstance(value, Public | int | float) else _Hidden()


class _Hidden:
    """What stays here, whatever form a line asks it in."""

    def __str__(self) -> str:
        return "..."

    __repr__ = __str__


class LogTail(logging.Handler):
    """The last lines of a silo, until they were heard.

    Args:
        silo_id: Lines that name another silo as their `silo` are left out.
    """

    def __init__(self, silo_id: str):
        super().__init__(logging.INFO)
        self._silo_id = silo_id
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self._count = 0
        self._guard = threading.Lock()
        for name in SOURCES:
            logging.getLogger(name).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line; the message only."""
        if getattr(record, "silo", self._silo_id) != self._silo_id:
            return
        try:
            text = Public(one_line(sendable(public_message(record))))
        except Exception:
            self.handleError(record)
            return
        with self._guard:
            self._count += 1
            self._lines.append(Line(self._count, time.monotonic(), record.levelname, text))

    def unheard(self) -> list[Line]:
        """The oldest lines that the coordinator has not heard."""
        with self._guard:
            return list(self._lines)[:LINES_PER_REPORT]

    def heard(self, number: int) -> None:
        """The coordinator has all lines up to this one."""
        with self._guard:
            while self._lines and self._lines[0].number <= number:
                self._lines.popleft()

    def close(self) -> None:
        """Listen no more."""
        for name in SOURCES:
            logging.getLogger(name).removeHandler(self)
        super().close()
