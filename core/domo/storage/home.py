"""Where things go by default: the folders of the user who runs domo.

In a container the user may be a number without a name, a home or an environment. What was given
by a flag needs no home; only what is left to its default asks here.
"""

import os
import tempfile
from pathlib import Path

from platformdirs import user_cache_path, user_state_path

from domo.errors import ConfigError


def user_state(what: str, flag: str = "--state-dir") -> Path:
    """Folder of what domo remembers.

    Args:
        what: What is to lie there, for the error text.
        flag: What names another place.

    Raises:
        ConfigError: The user has no home.
    """
    try:
        return user_state_path("domo")
    except RuntimeError:
        given = "no absolute path" if os.environ.get("HOME") else "not set"
        raise ConfigError(
            f"there is no home folder here (HOME is {given}, and user id {os.getuid()} has none), "
            f"so {what} has no place: give {flag}"
        ) from None


def user_cache() -> Path:
    """Folder of public datasets; without a home one that a text can name, and nobody can fill.

    Most tasks and all own data never look there, so that a missing home is no error.
    """
    try:
        return user_cache_path("domo")
    except RuntimeError:
        return Path("/.cache/domo")  # as docker has it, whose home of such a user is /


def temporary_in(folder: Path) -> None:
    """Have temporary files in a folder, where nothing else can be written: torch needs some place.

    Args:
        folder: One that is this process's own.

    Raises:
        OSError: It cannot be written either.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        place = folder / "tmp"
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.environ["TMPDIR"] = str(place)


def make_results_folder(folder: Path) -> None:
    """Make the folder of what a command leaves, and see that it can be written, before the work.

    Raises:
        ConfigError: It cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        temporary_in(folder)
    except OSError as error:
        raise ConfigError(
            f"the results have no place: {folder} cannot be written ({error.strerror}); give "
            "another folder as --out"
        ) from None
