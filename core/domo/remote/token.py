"""Which token a command shows, and to whom."""

import os
import re
from pathlib import Path
from typing import Any

from domo.api.client import Coordinator
from domo.errors import ConfigError
from domo.ops.addresses import is_local, page_url
from domo.storage.home import user_state

VARIABLES = ("DOMO_TOKEN", "DOMO_ADMIN_TOKEN")
"""Where a token may be; the second one is the older name."""
WHERE = (
    "give --token-file, or set DOMO_TOKEN. On the coordinator's machine `domo-server token create` "
    "makes tokens"
)


def default_token_file() -> Path | None:
    """Where a coordinator on this machine keeps its operator's token; None: nowhere."""
    try:
        return user_state("the token") / "coordinator" / "admin-token"
    except ConfigError:
        return None


def given_token(token_file: Path | None) -> str | None:
    """The token that somebody has given: in a file, or in a variable.

    Raises:
        ConfigError: It cannot be one, or cannot be read.
    """
    if token_file is not None:
        return _read(token_file)
    for name in VARIABLES:
        if told := os.environ.get(name):
            return _token(told, name)
    return None


def find_token(token_file: Path | None) -> str:
    """The token for what changes something: that given, or of this machine's coordinator.

    Args:
        token_file: As the flag gives it.

    Raises:
        ConfigError: There is none, or it cannot be one; says where to look.
    """
    if (told := given_token(token_file)) is not None:
        return told
    path = default_token_file()
    if path is None:
        raise ConfigError(f"this needs a token, and there is no home folder here: {WHERE}")
    return _read(path)


def reader(server: str, token_file: Path | None = None, **options: Any) -> Coordinator:
    """A coordinator's REST for reading.

    A token that was given is shown. That of this machine's coordinator is so only to a server on
    this machine, and only once it asks for one: nobody else gets to see it.

    Args:
        server: The dashboard's address.
        token_file: As the flag gives it.
        options: Of `Coordinator`.

    Raises:
        ConfigError: The address or the token cannot be one.
    """
    told = given_token(token_file)
    return Coordinator(server, told, spare=None if told else _own_token(server), **options)


def _own_token(server: str) -> str | None:
    """The token of this machine's coordinator, for a server here; None: there is none to read."""
    path = default_token_file()
    if path is None or not is_local(_host(server)):
        return None
    try:
        return _token(path.read_text(encoding="utf-8", errors="replace"), str(path))
    except (OSError, ConfigError):
        return None


def _host(server: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(page_url(server)).hostname or ""


def _read(path: Path) -> str:
    try:
        return _token(path.read_text(encoding="utf-8", errors="replace"), str(path))
    except OSError as error:
        raise ConfigError(
            f"this needs a token, and {path} cannot be read ({error.strerror}): {WHERE}"
        ) from None


def _token(text: str, where: str) -> str:
    if re.fullmatch(r"[!-~]+", token := text.strip()) is None:
        raise ConfigError(
            f"{where} holds no token, which is one word of plain letters, digits and signs: {WHERE}"
        )
    return token
