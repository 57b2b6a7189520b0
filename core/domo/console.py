"""What people see: consoles, errors as one line, and log lines for people or machines."""

import io
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from domo.errors import ConfigError, DomoError, TaskError

console = Console(highlight=False)
"""Results, on standard output."""
err_console = Console(stderr=True, highlight=False)
"""Errors, on standard error."""

CONTEXT = ("run", "round", "silo")
"""Names of `extra` fields that a log line shows."""
_log = logging.getLogger(__name__)


def say(text: str, style: str | None = None) -> None:
    """Print a line as it is: no markup, no wrapping, and nothing that a terminal would obey."""
    console.print(printable(text), style=style, markup=False, soft_wrap=True)


def complain(text: str, style: str | None = None) -> None:
    """The same, on standard error."""
    err_console.print(printable(text), style=style, markup=False, soft_wrap=True)


def printable(text: str) -> str:
    """A text whose control characters are shown as `?`: it may be a peer's."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def write_anything() -> None:
    """What the terminal's encoding cannot write becomes `?`, and is no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


Codes = Sequence[tuple[type[DomoError], int]]
CODES: Codes = ((ConfigError, 2), (TaskError, 2), (DomoError, 1))


@contextmanager
def friendly_errors(codes: Codes = ()) -> Iterator[None]:
    """Turn errors that are not bugs into one red line and an exit code.

    A decorator for commands, or a context manager: 2 for a bad configuration or task, 130 for
    Ctrl-C, 1 for everything else that domo or the operating system refuses. Bugs keep their
    traceback; `DOMO_LOG_LEVEL=DEBUG` shows all of them.

    Args:
        codes: Exit codes of other errors; the first that fits.
    """
    write_anything()
    try:
        yield
    except KeyboardInterrupt:
        err_console.print("stopped", style="red")
        raise SystemExit(130) from None
    except DomoError as error:
        _fail(str(error))
        raise SystemExit(next(c for k, c in (*codes, *CODES) if isinstance(error, k))) from None
    except OSError as error:
        if error.filename is None:
            raise
        _fail(f"{error.strerror}: {error.filename}")
        raise SystemExit(1) from None


def _fail(text: str) -> None:
    _log.debug("traceback", exc_info=True)
    complain(f"error: {text}", style="red")


class TextFormatter(logging.Formatter):
    """`12:30:01 INFO  [run/round/silo] message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-5s %(where)s%(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback where there is one."""
        where = "/".join(str(v) for v in _context(record).values())
        record.where = f"[{where}] " if where else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (seconds since 1970), level, logger, message, run, round, silo, traceback."""
        body = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_context(record),
        }
        if record.exc_info:
            body["traceback"] = self.formatException(record.exc_info)
        return json.dumps(body, default=str)


def _context(record: logging.LogRecord) -> dict[str, object]:
    found = ((name, getattr(record, name, None)) for name in CONTEXT)
    return {name: value for name, value in found if value is not None}


class StderrHandler(logging.Handler):
    """Writes to whatever standard error is now, so a live display or a test can catch it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        sys.stderr.write(self.format(record) + "\n")
        sys.stderr.flush()


def setup_logging(level: str | None = None) -> None:
    """Log to standard error: lines for people, or JSON where DOMO_LOG is `json`.

    Args:
        level: DEBUG, INFO, ...; DOMO_LOG_LEVEL, or INFO, by default.

    Raises:
        ConfigError: No such level or form.
    """
    level = (level or os.environ.get("DOMO_LOG_LEVEL") or "INFO").upper()
    form = os.environ.get("DOMO_LOG") or "text"
    if level not in logging.getLevelNamesMapping():
        raise ConfigError(f"DOMO_LOG_LEVEL = {level!r}: must be DEBUG, INFO, WARNING or ERROR")
    if form not in ("text", "json"):
        raise ConfigError(f"DOMO_LOG = {form!r}: must be text or json")
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(old)
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
