"""No process of domo outlives the one that started it, however that one ends.

torch's loader processes look whether their parent's number has changed: between two batches, and
under `forkserver` it is that of a helper, which lives as long as they do. What is certain is the
pipe that `multiprocessing` holds open in the parent: the system closes it as the parent ends.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import wait

ORPHANED = 70
"""Exit code of a process whose parent is gone; nobody is there to read it."""


def end_with_parent() -> None:
    """From now on this process, made by `multiprocessing`, ends as soon as its parent does.

    A thread waits for that. On Linux the kernel is asked as well, for code that keeps Python from
    running other threads.
    """
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _ask_the_kernel(parent.sentinel)
    threading.Thread(target=_wait_for, args=(parent.sentinel,), name="parent", daemon=True).start()


def _wait_for(sentinel: int) -> None:
    wait([sentinel])
    os._exit(ORPHANED)


def _ask_the_kernel(sentinel: int) -> None:
    """Have this process killed when the other end of the pipe is closed."""
    import fcntl

    fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
    fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | fcntl.FASYNC)


def end_quietly() -> None:
    """The same; and Ctrl-C, which reaches parent and child, is said by the parent alone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


class EndsWithParent:
    """A `worker_init_fn` of torch's `DataLoader`: the process ends with its parent.

    Args:
        then: Called afterwards with the number of the process.
    """

    def __init__(self, then: Callable[[int], object] | None = None):
        self._then = then

    def __call__(self, number: int) -> None:
        """In the loader process, before its first batch."""
        end_with_parent()
        if self._then is not None:
            self._then(number)
