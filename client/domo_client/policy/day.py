"""What left this silo today: counted in a file, so that a restart begins no new day."""

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from domo_client.state.files import replace

FILE = "policy-day.json"
log = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class _Counted(BaseModel):
    """The file.

    Attributes:
        day: The day, UTC, as 2026-01-31.
        updates: Names of the updates that were counted last, and how many in all.
        tests: Models tested.
        newest: The newest update: one that is made again after a crash is the same one.
    """

    model_config = ConfigDict(extra="forbid")

    day: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")
    updates: int = Field(default=0, ge=0)
    tests: int = Field(default=0, ge=0)
    newest: str = ""


class Day:
    """The counts of a day.

    Args:
        folder: The silo's state folder.
        now: What time it is, with a time zone.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] = _now):
        self._path, self._now = folder / FILE, now
        self._counted = self._read()

    @property
    def updates(self) -> int:
        """Updates that have left today."""
        return self._today().updates

    @property
    def tests(self) -> int:
        """Models that were tested today."""
        return self._today().tests

    def has(self, update: str) -> bool:
        """Whether an update, by its name, is the newest one that was counted."""
        return self._today().newest == update

    def note_update(self, update: str) -> None:
        """Count an update, before it leaves; the newest one counts once.

        Args:
            update: What it is made of: run, round and model.
        """
        told = self._today()
        if told.newest != update:
            self._write(told.model_copy(update={"updates": told.updates + 1, "newest": update}))

    def note_test(self, follows: bool = False) -> None:
        """Count a model, before its numbers leave; `follows`: an update does, and is written."""
        told = self._today()
        told = told.model_copy(update={"tests": told.tests + 1})
        if follows:
            self._counted = told
        else:
            self._write(told)

    def _today(self) -> _Counted:
        day = self._now().date().isoformat()
        if self._counted.day != day:
            self._counted = _Counted(day=day, newest=self._counted.newest)
        return self._counted

    def _read(self) -> _Counted:
        """A damaged file counts as a day that is over: what it said is gone, and is said."""
        try:
            return _Counted.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValidationError) as error:
            why = error.strerror if isinstance(error, OSError) else "damaged"
            log.warning("%s: %s; today's updates are counted anew", self._path, why)
        return _Counted(day=self._now().date().isoformat())

    def _write(self, counted: _Counted) -> None:
        self._counted = counted
        try:
            replace(self._path, json.dumps(counted.model_dump()).encode())
        except OSError as error:  # a full disk; what is in memory counts
            log.warning("%s: %s; a restart would count less", self._path, error.strerror)
