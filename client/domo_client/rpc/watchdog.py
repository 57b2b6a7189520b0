"""A watch on the progress of a transfer."""

import threading
import time
from types import TracebackType
from typing import Any, Self

LOOK_S, MIN_LOOK_S = 1.0, 0.01
"""Between two looks."""


class Watchdog(threading.Thread):
    """Cancels a call that makes no progress; a context manager.

    Args:
        first_s: Longest wait for the first sign of progress.
    """

    def __init__(self, first_s: float):
        super().__init__(name="watchdog", daemon=True)
        self._call: Any = None
        self._stopped = threading.Event()
        self.barked = False
        self.feed(first_s)

    def guard(self, call: Any) -> Any:
        """Watch this call; returns it."""
        self._call = call
        self.start()
        return call

    def feed(self, next_s: float) -> None:
        """Progress: wait anew, at most this long."""
        self._deadline = time.monotonic() + next_s

    def run(self) -> None:
        """Look every `LOOK_S`, or at the deadline if that is sooner."""
        while not self._stopped.wait(
            min(LOOK_S, max(self._deadline - time.monotonic(), MIN_LOOK_S))
        ):
            if time.monotonic() > self._deadline:
                self.barked = True
                self._call.cancel()
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self._call is not None:
            self._call.cancel()
