"""The operator's Ctrl-C and SIGTERM, beside code of the user's that may use signals too."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from domo.outside.text import Public, task_error

OWN = (signal.SIGINT, signal.SIGTERM)
KEPT = (*OWN, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


class Stopped(KeyboardInterrupt):
    """Its operator stops this silo."""


def listen() -> None:
    """From now on both signals raise `Stopped` in the main thread."""
    for s in OWN:
        signal.signal(s, _stop)


def hang_up() -> NoReturn:
    """Its terminal was closed, which stops this silo too."""
    raise Stopped(Public("its terminal was closed"))


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped


@contextmanager
def users_code() -> Iterator[None]:
    """Around code of the user's, which may raise KeyboardInterrupt and set handlers of its own.

    Afterwards the signals stop the agent as they did before.

    Raises:
        TaskError: The task has raised KeyboardInterrupt, or another that is no error.
    """
    before, told = {s: signal.getsignal(s) for s in KEPT}, _told_too()
    try:
        yield
    except Stopped:
        raise
    except GeneratorExit as error:
        raise task_error("the task has raised GeneratorExit") from error
    except KeyboardInterrupt as error:
        if before[signal.SIGINT] is not _stop:
            raise  # it may well be Ctrl-C
        raise task_error("the task has raised KeyboardInterrupt") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            for s, handler in before.items():
                if handler is not None and signal.getsignal(s) is not handler:
                    signal.signal(s, handler)
            if told != _told_too():  # asyncio's handlers take it away
                signal.set_wakeup_fd(told, warn_on_full_buffer=False)


def _told_too() -> int:
    """Where `domo.stages.stopping` hears of signals; -1: nowhere."""
    if threading.current_thread() is not threading.main_thread():
        return -1
    told = signal.set_wakeup_fd(-1)
    if told != -1:
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    return told
