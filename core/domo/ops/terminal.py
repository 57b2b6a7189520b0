"""A program whose terminal is closed, or whose output nobody takes any more.

`nohup` has SIGHUP ignored, and so it stays. A service has no terminal: there SIGHUP would ask it to
read its files again, which no program of domo does.
"""

import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from domo.ops.console import write_anything
from domo.ops.exit_codes import HUNG_UP, TERMINATED
from domo.stages.stopping import Ended

log = logging.getLogger(__name__)

STREAMS = (0, 1, 2)


def end_in_order() -> None:
    """A command ends at SIGTERM, and when its terminal is closed, by an exception.

    What it prints to a terminal that is being closed is lost, and no error.
    """
    fill_closed()
    write_anything()
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)).isatty():
            setattr(sys, name, _Lossy(stream))
    signal.signal(signal.SIGTERM, lambda *_: _end(TERMINATED))
    at_hangup(lambda: _end(HUNG_UP))


def _end(code: int) -> NoReturn:
    raise Ended(code)


def fill_closed() -> None:
    """Open standard streams that the program was started without.

    Else its next file has one of their numbers, and what a library prints lands in it.
    """
    for number in STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115


def at_hangup(end: Callable[[], object], *, serves: bool = False) -> Callable[[], None]:
    """Have a program end in order when its terminal is closed.

    Args:
        end: Called in the main thread, with nothing left to print to.
        serves: The program is a service where it has no terminal, and then goes on.

    Returns:
        What is to be called at SIGHUP, for a program with a loop of its own; it does nothing where
        SIGHUP is ignored.
    """
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return lambda: None
    shown = [number for number in STREAMS if os.isatty(number)]
    stays = serves and not has_terminal()

    def hung_up() -> None:
        if stays:
            log.warning("SIGHUP: there is nothing to be read again; this program goes on")
            return
        for number in shown:
            _forget(number)
        end()

    def handler(_signal: int, _frame: FrameType | None) -> None:
        hung_up()

    signal.signal(signal.SIGHUP, handler)
    return hung_up


def has_terminal() -> bool:
    """Whether it has one that could be closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _forget(number: int) -> None:
    """What is written to a stream goes nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number)
    os.close(nowhere)


@contextmanager
def output_may_be_lost() -> Iterator[None]:
    """What cannot be printed meanwhile is lost, and no error: a full disk, a reader that left."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Lossy(s) if s is not None else s for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in filter(None, before):
            try:
                stream.flush()
            except (OSError, ValueError):  # Python would try again as it ends, and complain
                with suppress(OSError, ValueError):
                    _forget(stream.fileno())


class _Lossy(io.TextIOBase):
    """Stands in for a stream: whatever cannot be written is left out."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
