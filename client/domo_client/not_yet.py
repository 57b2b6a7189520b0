"""A run for which this silo is not ready yet: what is said of it, and when it looks again."""

import os
from pathlib import Path
from typing import NamedTuple

from domo.errors import DataError, DomoError, code_of
from domo.outside.faults import outside
from domo.outside.text import Public, saying
from domo.training.task_errors import told

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
"""Between two looks: twice as long each time; never shorter than the look itself took."""


class NotYet(NamedTuple):
    """Why a run cannot be taken up for now.

    Attributes:
        here: For this silo's operator.
        elsewhere: For the coordinator: names no file and no folder of this silo.
        code: What kind of reason.
    """

    here: str
    elsewhere: Public
    code: str

    @classmethod
    def of(cls, error: DomoError) -> "NotYet":
        """What may pass by itself."""
        return cls(told(error), outside(error), code_of(error))


class Pauses:
    """How long to wait before a run is looked at again."""

    def __init__(self) -> None:
        self.run_id = ""
        self._next_s = FIRST_PAUSE_S

    def after(self, run_id: str, took_s: float) -> float:
        """Seconds to wait after a look that took so long."""
        if run_id != self.run_id:
            self.run_id, self._next_s = run_id, FIRST_PAUSE_S
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_PAUSE_S)
        return max(pause_s, took_s)


def see_folder(folder: Path) -> None:
    """See that a data folder is there.

    Raises:
        DataError: It is not, or cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as error:
        told = DataError(f"the data folder {folder}: {error.strerror or error}")
        raise saying(told, f"the data folder: {os.strerror(error.errno or 0)}") from error
