"""The token of whoever operates the coordinator's machine: a file that only its owner can read."""

import contextlib
from pathlib import Path

from domo.errors import StateError
from domo.storage.state_folder import keep_private, private
from domo_server.people.credentials import new_token

FILE = "admin-token"
URL_FILE, USUAL_URL = "dashboard-url", "http://127.0.0.1:8080"
MIN_CHARACTERS = 20
"""Shortest token that is taken from the file; the coordinator makes longer ones."""


def admin_token(state_dir: Path) -> str:
    """The token in the state folder; made if there is none, readable by the owner only.

    Raises:
        StateError: It cannot be read or made, or somebody could guess it.
    """
    path = state_dir / FILE
    try:
        keep_private(path)
        token = path.read_text(encoding="ascii").strip()
        if not token:
            token = new_token()
            path.write_text(token, encoding="ascii")
    except OSError as error:
        raise StateError(f"the admin's token {path} cannot be used: {error.strerror}") from None
    if len(token) < MIN_CHARACTERS:
        raise StateError(
            f"the admin's token {path} has {len(token)} characters, and could be guessed: delete "
            "the file, and the next start makes another one"
        )
    return token


def keep_url(state_dir: Path, url: str) -> None:
    """Leave the address of the page beside the database, for commands on this machine."""
    place = state_dir / URL_FILE
    with (
        contextlib.suppress(OSError),  # such as a full disk: links are printed without it
        open(place, "w", encoding="utf-8", opener=private) as f,
    ):
        f.write(url)


def known_url(state_dir: Path) -> str:
    """The address of the page, as the coordinator has left it; the usual one if there is none."""
    try:
        return (state_dir / URL_FILE).read_text(encoding="utf-8").strip() or USUAL_URL
    except (OSError, UnicodeDecodeError):
        return USUAL_URL
