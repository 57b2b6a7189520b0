"""Which run is meant: people give its number, its name, or both as `domo runs` shows them."""

from pathlib import Path

from domo.api.client import DASHBOARD, Coordinator
from domo.errors import ConfigError, NotFoundError
from domo.ops.words import counted, typed

SHOWN = 5


def find_run(coordinator: Coordinator, text: str) -> str:
    """The id of the run that is meant.

    Args:
        coordinator: Whose run.
        text: Its id such as `3-chest`, its number `3`, or its name `chest`.

    Raises:
        NotFoundError: There is no such run; says which there are.
        ConfigError: Several runs have this name, or it is one run's name and another's number.
    """
    runs = coordinator.runs()
    if any(run.run_id == text for run in runs):
        return text
    found = [r.run_id for r in runs if text in (r.name, r.run_id.partition("-")[0])]
    if not found:
        newest = ", ".join(run.run_id for run in runs[:SHOWN])
        there = f"The newest are {newest}; " if runs else ""
        lists = here("domo", "runs", at=coordinator)
        raise NotFoundError(f"no run {text!r}. {there}all of them: {lists}")
    if len(found) > 1:
        raise ConfigError(
            f"{text} may be {counted(len(found), 'run')}: {', '.join(found[:SHOWN])}"
            + (", ..." if len(found) > SHOWN else "")
            + ". Give the number and the name"
        )
    return found[0]


def here(*words: str, at: Coordinator | str, token_file: Path | None = None) -> str:
    """A command for the same coordinator, with the same token, as somebody types it."""
    url = at if isinstance(at, str) else at.url
    return typed(*words, server=None if url == DASHBOARD else url, token_file=token_file)
