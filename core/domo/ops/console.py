"""What people see: consoles, and errors as one line."""

import errno
import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from rich.console import Console

from domo.errors import ConfigError, DomoError, TaskError
from domo.names import printable

console = Console(highlight=False, emoji=False)
"""Results, on standard output."""
err_console = Console(stderr=True, highlight=False, emoji=False)
"""Errors, on standard error."""

_log = logging.getLogger(__name__)


def say(text: str, style: str | None = None) -> None:
    """Print own text: no markup, no wrapping, and nothing that a terminal would obey."""
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


def write_anything() -> None:
    """What the terminal's encoding cannot write becomes `?`, and is no error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


CURES = {
    errno.ENOSPC: "make room there (df -h, and df -i for the number of files)",
    errno.EDQUOT: "the quota of its user is used up: delete something, or have it raised",
    errno.EFBIG: "no file may grow so large there: raise the limit (ulimit -f, LimitFSIZE)",
    errno.EROFS: "it is mounted read-only: have it mounted for writing",
    errno.EIO: "the disk or the network drive fails: see the system's log (dmesg)",
    errno.ESTALE: "the network drive was exported anew: mount it again",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n, LimitNOFILE)",
    errno.ENFILE: "the system has too many files open: see which program holds them",
    errno.EACCES: "its owner or its permissions do not allow it to this user",
    errno.EPERM: "its owner or its permissions do not allow it to this user",
}


def in_words(error: OSError) -> str:
    """What the system says, of which file, and what to do."""
    text = error.strerror or str(error)
    if error.filename:
        text += f" ({error.filename})"
    cure = CURES.get(error.errno or 0)
    return f"{text}: {cure}" if cure else text


def without_place(error: OSError) -> OSError:
    """The same, for people elsewhere: names of files stay here."""
    return OSError(error.errno, error.strerror) if error.errno in CURES else error


class _Lossy:
    """A stream that loses what its disk or its reader does not take, and stops nobody."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def go_on_without_log() -> None:
    """From now on a log on a full disk, or a pipe that nobody reads any more, only loses lines."""
    sys.stdout = _Lossy(sys.stdout)
    sys.stderr = _Lossy(sys.stderr)


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
        _fail(in_words(error))
        raise SystemExit(1) from None


def _fail(text: str) -> None:
    _log.debug("traceback", exc_info=True)
    head, *more = text.split("\n")
    indented = (line if line.startswith("  ") else f"  {line}" for line in more)
    complain("\n".join([f"error: {head}", *indented]), style="red")
