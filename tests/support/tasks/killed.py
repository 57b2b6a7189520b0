"""Tasks whose process is killed, as by the system for want of memory."""

import os
import signal
from pathlib import Path
from typing import Any

from domo.tasks.base import Shard
from domo.tasks.named import digits

MARKER = "DOMO_TEST_MARKER"
"""Variable with the file that says that a process was killed."""


class AlwaysKilled:
    """Digits, of which no process lives to see the data."""

    def __init__(self) -> None:
        self._task = digits()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def train_data(self, root: Path, shard: Shard | None) -> Any:
        """Kills this process."""
        self.die()
        return self._task.train_data(root, shard)

    def die(self) -> None:
        """As the system does it."""
        os.kill(os.getpid(), signal.SIGKILL)


class KilledOnce(AlwaysKilled):
    """The same; the processes after the first live."""

    def die(self) -> None:
        """Only where no other process has died."""
        try:
            Path(os.environ[MARKER]).touch(exist_ok=False)
        except FileExistsError:
            return
        super().die()
