"""`domo-server token`, `login` and `session`: who may do what, beside a coordinator that runs."""

import contextlib
import getpass
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domo.errors import ConfigError
from domo.ops.console import say

if TYPE_CHECKING:
    from domo_server.people.person import Role
    from domo_server.store.people import PeopleRows

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
DAYS = 90
MAX_DAYS = 3650
Config = Annotated[Path | None, typer.Option("--config", "-c", help="federation.toml: [server].")]
StateDir = Annotated[Path | None, typer.Option(help="The coordinator's state folder.")]
RoleOption = Annotated[str, typer.Option("--role", help="viewer, auditor or admin.")]

token_app = typer.Typer(no_args_is_help=True, help="Make, list and take back tokens of people.")
session_app = typer.Typer(no_args_is_help=True, help="See and end what browsers are logged in.")


@token_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose it is: as it is said who did something.")],
    role: RoleOption,
    days: Annotated[
        float, typer.Option(min=0.001, max=MAX_DAYS, help="How long it is good.")
    ] = DAYS,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Make a token, and print it: it cannot be shown again."""
    import time

    from domo_server.people.credentials import digest, new_token
    from domo_server.store.people import TokenRow
    from domo_server.store.store import now_text, time_text

    chosen, now = _role(role), now_text()
    with _opened(config, state_dir) as (rows, _):
        known = rows.token_named(_name(name))
        if known is not None and known.revoked_at is None and (known.ends_at or now) > now:
            raise ConfigError(
                f"there is a token {name!r} already, with the role {known.role}: revoke it, or "
                "give this one another name"
            )
        token, ends_at = new_token(), time_text(time.time() + days * 86400)
        rows.put_token(TokenRow(name, chosen, digest(token), now, ends_at))
    say(f"token of {name}, {chosen}, until {ends_at[:10]}; it cannot be shown again:")
    say(token)
    say("next: hand it over as you would a password, and there put it into a file and")
    say("  domo status --server URL --token-file FILE   # or DOMO_TOKEN, or the page's log-in")


@token_app.command("list")
def show_tokens(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """List tokens: role, when each was made, ends and was used last; not the tokens themselves."""
    from domo_server.store.store import now_text

    def state(ends_at: str | None, revoked_at: str | None) -> str:
        if revoked_at is not None:
            return f"revoked {_minute(revoked_at)}"
        return "ended" if ends_at is not None and ends_at <= now_text() else "good"

    with _opened(config, state_dir) as (rows, _):
        found = rows.tokens()
    titles = ("name", "role", "made", "ends", "last used", "state")
    _show(
        as_json,
        titles,
        [
            (
                row.name,
                row.role,
                _minute(row.made_at),
                _minute(row.ends_at),
                _minute(row.used_at),
                state(row.ends_at, row.revoked_at),
            )
            for row in found
        ],
    )


@token_app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(help="As `domo-server token list` shows it.")],
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Take a token back, with the next request; sessions that it began end too."""
    from domo_server.people.person import THE_ADMIN
    from domo_server.store.store import now_text

    with _opened(config, state_dir) as (rows, _):
        row = rows.token_named(name)
        if row is None or name == THE_ADMIN:
            names = ", ".join(r.name for r in rows.tokens() if r.name != THE_ADMIN) or "none"
            raise ConfigError(
                f"there is no token {name!r} (tokens: {names}). The one in the file admin-token is "
                "another one once the file is deleted and the coordinator started again"
            )
        if row.revoked_at is not None:
            raise ConfigError(f"the token {name} was revoked at {row.revoked_at} already")
        ended = rows.revoke_token(name, now_text())
    say(f"the token {name} opens nothing any more; sessions ended: {ended}")


def login(
    role: RoleOption = "admin",
    name: Annotated[
        str | None, typer.Option(help="Who logs in, as others read it; your user name by default.")
    ] = None,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """Print a link that logs a browser in, once, within five minutes."""
    from domo_server.people.people import CODE_S, People

    chosen = _role(role)
    who = _name(name) if name is not None else _user()
    with _opened(config, state_dir) as (rows, url):
        people = People(rows)
        code = people.make_code(who, chosen)
        people.close()
    say(f"a link for {who}, {chosen}, good once and for {CODE_S / 60:.0f} minutes:")
    say(f"{url}/login?code={code}")


@session_app.command("list")
def show_sessions(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """List browsers that are logged in."""
    from domo_server.store.store import now_text

    with _opened(config, state_dir) as (rows, _):
        found = [row for row in rows.sessions() if row.ends_at > now_text()]
    titles = ("name", "role", "logged in", "by", "last seen", "ends")
    _show(
        as_json,
        titles,
        [
            (
                row.name,
                row.role,
                _minute(row.made_at),
                row.origin,
                _minute(row.seen_at),
                _minute(row.ends_at),
            )
            for row in found
        ],
    )


@session_app.command("end")
def end_sessions(
    name: Annotated[str, typer.Argument(help="As `domo-server session list` shows it.")],
    config: Config = None,
    state_dir: StateDir = None,
) -> None:
    """End all sessions of a person, with the next request."""
    with _opened(config, state_dir) as (rows, _):
        ended = rows.end_sessions_of(name)
    if not ended:
        raise ConfigError(f"{name!r} has no session; domo-server session list shows them")
    say(f"sessions of {name} ended: {ended}")


@contextlib.contextmanager
def _opened(config: Path | None, state_dir: Path | None) -> "Iterator[tuple[PeopleRows, str]]":
    """What is known of people, and the page's address; a coordinator may be running."""
    from domo_server.config import load_config
    from domo_server.people.local import known_url
    from domo_server.store.database import open_beside
    from domo_server.store.people import PeopleRows
    from domo_server.store.store import Store

    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})  # no listening
    if settings.database is None and not (settings.state_dir / "coordinator.db").exists():
        raise ConfigError(
            f"there is no coordinator's database in {settings.state_dir}: start the coordinator "
            "first, or give its --state-dir or --config"
        )
    store = Store(open_beside(settings.database_url))
    try:
        yield PeopleRows(store), settings.dashboard_url or known_url(settings.state_dir)
    finally:
        store.close()


def _role(text: str) -> "Role":
    from domo_server.people.person import ROLES

    for role in ROLES:
        if text == role:
            return role
    raise ConfigError(f"--role {text}: must be one of {', '.join(ROLES)}")


def _name(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise ConfigError(
            f"a name is 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit; "
            f"{text[:64]!r} is not"
        )
    return text


def _user() -> str:
    """Who types this, as far as the system knows."""
    from domo_server.people.person import THE_ADMIN

    with contextlib.suppress(OSError, KeyError, ImportError):
        found = os.environ.get("SUDO_USER") or getpass.getuser()
        if NAME.fullmatch(found):
            return found
    return THE_ADMIN


def _minute(at: str | None) -> str:
    return "" if at is None else at[:16].replace("T", " ")


def _show(as_json: bool, titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if as_json:
        import json

        keys = [title.replace(" ", "_") for title in titles]
        say(json.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    lines = [titles, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
