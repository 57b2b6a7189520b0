"""Runs that wait for somebody at this silo to say yes: files in the state folder.

approvals/RUN.asked.json   what the run is, written by the agent
approvals/RUN.said.json    the answer, written by `domo-client approve RUN` or `refuse RUN`

An answer is of one configuration: a run of the same id that says something else asks again.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from domo.errors import ConfigError
from domo.run_config import RunConfig
from domo_client.state.files import replace

FOLDER = "approvals"
PLAIN = re.compile(r"[^A-Za-z0-9._-]")
M = TypeVar("M", bound=BaseModel)
ASKED, SAID = ".asked.json", ".said.json"


class Asked(BaseModel):
    """A run that waits for an answer.

    Attributes:
        run_id: The run.
        digest: Of its configuration.
        config: The configuration, all that is not at its default.
        at: When it was first asked for, seconds since 1970.
    """

    model_config = ConfigDict(extra="forbid")

    run_id: str
    digest: str
    config: dict[str, Any]
    at: float


class Said(BaseModel):
    """An answer.

    Attributes:
        digest: Of the configuration that it is about.
        answer: yes or no.
        by: The user who said it.
        why: In their words; stays here.
    """

    model_config = ConfigDict(extra="forbid")

    digest: str
    answer: Literal["yes", "no"]
    by: str
    why: str = ""


class Approvals:
    """Those of one silo.

    Args:
        folder: Its state folder.
    """

    def __init__(self, folder: Path):
        self._folder = folder / FOLDER

    def ask(self, run_id: str, config: RunConfig, now: float) -> Asked:
        """Put a run down as one that waits, if it does not yet.

        Args:
            run_id: The run.
            config: What it is.
            now: Seconds since 1970.
        """
        path = self._path(run_id, ASKED)
        known = _read(Asked, path)
        if known is not None and (known.run_id, known.digest) == (run_id, config.digest):
            return known
        self._folder.mkdir(mode=0o700, exist_ok=True)
        plain = config.model_dump(mode="json", exclude_defaults=True)
        asked = Asked(run_id=run_id, digest=config.digest, config=plain, at=now)
        replace(path, json.dumps(asked.model_dump(), indent=2).encode())
        return asked

    def said(self, run_id: str, digest: str) -> Said | None:
        """The answer about a run, if there is one about this configuration."""
        said = _read(Said, self._path(run_id, SAID))
        return said if said is not None and said.digest == digest else None

    def waiting(self) -> Iterator[Asked]:
        """Runs without an answer, the oldest first."""
        found = (_read(Asked, path) for path in self._folder.glob(f"*{ASKED}"))
        asked = sorted((a for a in found if a is not None), key=lambda a: a.at)
        yield from (a for a in asked if self.said(a.run_id, a.digest) is None)

    def asked(self, run_id: str) -> Asked:
        """A run that has asked.

        Raises:
            ConfigError: It has not.
        """
        known = _read(Asked, self._path(run_id, ASKED))
        if known is None:
            ids = ", ".join(a.run_id for a in self.waiting())
            more = f"waiting: {ids}" if ids else "none waits"
            raise ConfigError(f"no run {run_id!r} has asked this silo ({more})")
        return known

    def say(self, run_id: str, answer: Literal["yes", "no"], by: str, why: str = "") -> Asked:
        """Answer a run that has asked.

        Args:
            run_id: The run.
            answer: yes or no.
            by: Who says so.
            why: In their words.

        Raises:
            ConfigError: It has not asked.
        """
        asked = self.asked(run_id)
        said = Said(digest=asked.digest, answer=answer, by=by, why=why)
        replace(self._path(run_id, SAID), json.dumps(said.model_dump()).encode(), durable=True)
        return asked

    def _path(self, run_id: str, kind: str) -> Path:
        return self._folder / f"{PLAIN.sub('_', run_id)[:200]}{kind}"


def _read(model: type[M], path: Path) -> M | None:
    """What a file says; None: there is none, or it is damaged: then it is asked again."""
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
