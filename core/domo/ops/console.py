"""What people see: consoles, and errors as one line."""

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from domo.errors import ConfigError, DomoError, TaskError

console = Console(highlight=False, emoji=False)
"""Results, on standard output."""
err_console = Console(stderr=True, highlight=False, emoji=False)
"""Errors, on standard error."""

_log = logging.getLogger(__name__)


def say(text: str, style: str | None = None) -> None:
    """Print a line as it is: no markup, no wrapping, and nothing that a terminal would obey."""
    console.print(printable(text), style=style, markup=False, soft_wrap=True)


def complain(text: str, style: str | None = None) -> None:
    """The same, on standard error."""
    err_console.print(printable(text), style=style, markup=False, soft_wrap=True)


def confirm(question: str) -> None:
    """Ask whether something is meant; everything but a yes is a no.

    Raises:
        ConfigError: It is not meant, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise ConfigError("this is asked back, and there is no terminal to ask at: give --yes")
    complain(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("nothing was changed")


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
    Ctrl-C, 1 for everything else that domo or the operating system refuses, such as a full disk.
    Bugs keep their traceback; `DOMO_LOG_LEVEL=DEBUG` shows all of them.

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
        if error.errno is None or isinstance(error, BrokenPipeError):  # typer ends quietly
            raise
        _fail(f"{error.strerror}" + (f": {error.filename}" if error.filename else ""))
        raise SystemExit(1) from None


def _fail(text: str) -> None:
    _log.debug("traceback", exc_info=True)
    complain(f"error: {text}", style="red")
