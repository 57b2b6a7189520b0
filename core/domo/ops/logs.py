"""Log lines, for people or for machines: how they look, what they name, and where they go."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

from domo.errors import ConfigError
from domo.names import printable
from domo.ops.console import console, err_console

Form = Literal["text", "json"]
CONTEXT = {"run": "run_id", "round": "round", "silo": "silo_id"}
"""What a line names, from its `extra` or from `log_context`; and its key in JSON."""
_context: ContextVar[Mapping[str, object]] = ContextVar("log_context", default={})  # noqa: B039
_said = logging.getLogger("said")
_log = logging.getLogger(__name__)


def log_context(**fields: object) -> None:
    """What the lines of this thread or task name from now on, until it is given anew.

    Args:
        **fields: `run`, `round` (from 1) and `silo`; None takes one away.
    """
    _context.set({k: v for k, v in {**_context.get(), **fields}.items() if v is not None})


def _named(record: logging.LogRecord) -> dict[str, object]:
    context = _context.get()
    found = ((name, (getattr(record, name, None), context.get(name))) for name in CONTEXT)
    known = ((name, own if own is not None else given) for name, (own, given) in found)
    return {name: value for name, value in known if value is not None}


class TextFormatter(logging.Formatter):
    """`12:30:01 INFO  [run/round/silo] message`, and a traceback below it, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-5s %(where)s%(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it; those of a traceback look like no record."""
        where = "/".join(str(v) for v in _named(record).values())
        record.where = f"[{where}] " if where else ""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        lines = [printable(self.formatMessage(record).replace("\n", " "))]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        if record.stack_info:
            lines += self.formatStack(record.stack_info).splitlines()
        return "\n    ".join(map(printable, lines))


class JsonFormatter(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (ISO 8601, UTC), level, logger, message, what it names, exception."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        body = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{CONTEXT[name]: value for name, value in _named(record).items()},
        }
        if record.exc_info:
            body["exception"] = self.formatException(record.exc_info)
        return json.dumps(body, default=str)


class StderrHandler(logging.Handler):
    """Writes to whatever standard error is now, so a live display or a test can catch it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        sys.stderr.write(self.format(record) + "\n")
        sys.stderr.flush()


class _Said(io.TextIOBase):
    """A file whose lines become log lines of the logger `said`."""

    def __init__(self, level: int):
        self._level, self._begun = level, ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            failed = self._level > logging.INFO and line.startswith("error")
            _said.log(logging.ERROR if failed else self._level, "%s", line)
        return len(text)


def setup_logging(level: str | None = None, form: str | None = None, *, said: bool = False) -> Form:
    """Log to standard error, warnings of libraries too.

    Args:
        level: DEBUG, INFO, ...; DOMO_LOG_LEVEL, or INFO, by default.
        form: `text` for people, or `json`; DOMO_LOG, or `text`, by default.
        said: In JSON, what is printed for people, and what a bug raises, become log lines as well,
            so that standard error holds JSON only, and standard output nothing.

    Returns:
        The form.

    Raises:
        ConfigError: No such level or form.
    """
    level = (level or os.environ.get("DOMO_LOG_LEVEL") or "INFO").upper()
    form = form or os.environ.get("DOMO_LOG") or "text"
    if level not in logging.getLevelNamesMapping():
        raise ConfigError(f"DOMO_LOG_LEVEL = {level!r}: must be DEBUG, INFO, WARNING or ERROR")
    if form not in ("text", "json"):
        raise ConfigError(f"--log-format, or DOMO_LOG, must be text or json, got {form!r}")
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, StderrHandler)]:
        root.removeHandler(old)
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    if form == "json" and said:
        _say_in_json()
    return "json" if form == "json" else "text"


def _say_in_json() -> None:
    console.file = _Said(logging.INFO)  # type: ignore[assignment]
    err_console.file = _Said(logging.WARNING)  # type: ignore[assignment]
    sys.excepthook = _log_bug
    threading.excepthook = lambda args: _log_bug(args.exc_type, args.exc_value, args.exc_traceback)


def _log_bug(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    if error is not None:
        _log.critical("internal error: %r", error, exc_info=(kind, error, trace))
