"""What the commands of `domo.remote_cli` do: calls on a coordinator's REST."""

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from platformdirs import user_state_path
from rich.table import Table

from domo.config_file import load_toml, validate
from domo.console import console, err_console, say
from domo.errors import AccessError, ConfigError, CoordinatorUnavailableError
from domo.run_config import RunConfig

TIMEOUT_S = 20.0
FOLLOW_S = 1.0
"""How often `domo events --follow` asks."""
_PAGE = 1000
_COLOURS = {
    "red": ("fail", "refus", "error", "diverg", "disk"),
    "yellow": ("unusual", "declin", "drop", "paus"),
}
"""Of events, by parts of their kinds: trouble, and what somebody should know of."""


def default_token_file() -> Path:
    """Where a coordinator on this machine keeps the admin's token by default."""
    return user_state_path("domo") / "coordinator" / "admin-token"


def find_token(token_file: Path | None) -> str:
    """The admin's token: DOMO_ADMIN_TOKEN, or the file that the coordinator made.

    Raises:
        ConfigError: There is none; says where to look.
    """
    if token := os.environ.get("DOMO_ADMIN_TOKEN"):
        return token
    path = token_file or default_token_file()
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(
            f"this needs the admin's token, and {path} cannot be read ({error.strerror}). It lies "
            "in the coordinator's state folder as admin-token: give --token-file, or set "
            "DOMO_ADMIN_TOKEN"
        ) from None


def call(
    server: str,
    method: str,
    path: str,
    token: str = "",
    body: Any = None,
    query: Mapping[str, Any] | None = None,
) -> Any:
    """One REST call.

    Raises:
        CoordinatorUnavailableError: Nobody answers, or the coordinator cannot for the moment.
        AccessError: The token is not the admin's.
        ConfigError: The coordinator refuses; its own words.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{server.rstrip('/')}/api/v1{path}"
    try:
        answer = httpx.request(
            method, url, json=body, params=query, headers=headers, timeout=TIMEOUT_S
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CoordinatorUnavailableError(f"no coordinator's REST at {server}: {error}") from None
    if answer.is_success:
        return answer.json()
    try:
        text = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        text = f"{url} answered {answer.status_code}; is that a domo coordinator?"
    if answer.status_code >= 500:
        raise CoordinatorUnavailableError(text)
    raise (AccessError if answer.status_code in (401, 403) else ConfigError)(text)


def show_status(server: str, as_json: bool) -> None:
    """Print the runs and silos of a coordinator."""
    status = call(server, "GET", "/status")
    runs = call(server, "GET", "/runs")
    if as_json:
        console.print_json(data={"status": status, "runs": runs})
        return
    table = _table("run", "state", "round", "accuracy", "what")
    for run in runs:
        accuracy = "" if run["accuracy"] is None else f"{100 * run['accuracy']:.1f} %"
        done = f"{run['rounds_done']} of {run['num_rounds']}"
        table.add_row(run["run_id"], run["state"].lower(), done, accuracy, run["detail"])
    console.print(table if runs else "no runs yet: domo submit federation.toml")
    table = _table("silo", "phase", "step", "last seen", "what")
    for silo in status["silos"]:
        seen = silo["last_seen_s"]
        steps = f"{silo['step']} of {silo['num_steps']}" if silo["num_steps"] else ""
        ago = "" if seen is None else f"{seen:.0f} s ago"
        dropped = silo["dropped"]
        phase = silo["phase"] if dropped is None else f"dropped, {silo['phase']}"
        what = " / ".join(text for text in (dropped, silo["error"]) if text)
        table.add_row(silo["silo_id"], phase, steps, ago, what)
    console.print(table if status["silos"] else "no silo has joined yet")


def _table(*columns: str) -> Table:
    """A table that never cuts a name off."""
    table = Table(box=None)
    table.add_column(columns[0], no_wrap=True, min_width=24)
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    return table


def submit_runs(server: str, path: Path, name: str | None, token: str) -> None:
    """Queue the [[runs]] of a file, or the one with this name.

    Raises:
        ConfigError: A fault in the file, or no such run in it.
    """
    data = load_toml(path)
    entries = data.get("runs", [])
    runs = [validate(RunConfig, e, path, at=f"runs[{i}]") for i, e in enumerate(entries)]
    chosen = [(e, r) for e, r in zip(entries, runs, strict=True) if name in (None, r.title)]
    if not chosen:
        known = ", ".join(r.title for r in runs) or "none"
        raise ConfigError(f"{path}: there is no run {name!r} in it (runs: {known})")
    for entry, _ in chosen:
        run = call(server, "POST", "/runs", token, entry)
        say(f"queued {run['run_id']}: {run['method']} on {run['task']}, {run['num_rounds']} rounds")
    say(f"next: watch {server}, or domo status --server {server}")


def pause_run(server: str, run_id: str, token: str) -> None:
    """Hold a run until it is resumed."""
    run = _change(server, "runs", run_id, "pause", token)
    say(f"{run['run_id']}: " + ("paused" if run["state"] == "PAUSED" else "pausing"))
    say(f"next: domo resume {run['run_id']}")


def resume_run(server: str, run_id: str, token: str) -> None:
    """Go on with a paused run."""
    run = _change(server, "runs", run_id, "resume", token)
    say(f"{run['run_id']}: goes on, {run['rounds_done']} of {run['num_rounds']} rounds are done")


def stop_run(server: str, run_id: str, token: str) -> None:
    """Stop a run for good."""
    run = _change(server, "runs", run_id, "stop", token)
    say(f"{run['run_id']}: {run['detail'] or 'stopping'}")


def drop_silo(server: str, silo_id: str, reason: str, token: str) -> None:
    """Leave a silo out until it is re-admitted."""
    silo = _change(server, "silos", silo_id, "drop", token, {"reason": reason})
    say(f"{silo['silo_id']} is left out" + (f": {silo['dropped']}" if silo["dropped"] else ""))
    say(f"next: domo readmit {silo['silo_id']} takes it back")


def readmit_silo(server: str, silo_id: str, token: str) -> None:
    """Take a dropped silo back, or let one join with a new state folder."""
    silos = call(server, "GET", "/silos")
    was_out = any(s["silo_id"] == silo_id and s["dropped"] is not None for s in silos)
    silo = _change(server, "silos", silo_id, "readmit", token)
    name = silo["silo_id"]
    if was_out:
        say(f"{name} takes part again from the next round on")
    else:
        say(f"{name} may join again, with any state folder; start its domo-client")


def _change(
    server: str, kind: str, name: str, what: str, token: str, body: Any = None
) -> Mapping[str, Any]:
    answer = call(server, "POST", f"/{kind}/{quote(name, safe='')}/{what}", token, body)
    assert isinstance(answer, dict)
    return answer


def show_events(
    server: str, wanted: Mapping[str, Any], limit: int, follow: bool, as_json: bool
) -> None:
    """Print events, oldest first.

    Args:
        server: The dashboard's address.
        wanted: Filters of the route /events.
        limit: How many of those that have happened.
        follow: Go on with new ones; a coordinator that is away is waited for.
        as_json: One object on each line.
    """
    query = {name: value for name, value in wanted.items() if value}
    seen, away = 0, False
    page = call(server, "GET", "/events", query=query | {"limit": limit})
    while True:
        for event in page:
            seen = event["event_id"]
            _show_event(event, as_json)
        console.file.flush()
        if not follow:
            break
        time.sleep(FOLLOW_S)
        try:
            page = call(server, "GET", "/events", query=query | {"limit": _PAGE, "after": seen})
            away = False
        except CoordinatorUnavailableError as error:
            if not away:
                err_console.print(f"{error}; waiting for it", markup=False, soft_wrap=True)
            page, away = [], True


def _show_event(event: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        say(json.dumps(event))
        return
    at = datetime.fromisoformat(event["at"]).astimezone()
    about = "/".join(event[key] for key in ("run_id", "silo_id") if event[key])
    where = f"[{about}] " if about else ""
    kind = event["kind"]
    style = next((c for c, parts in _COLOURS.items() if any(part in kind for part in parts)), None)
    say(f"{at:%Y-%m-%d %H:%M:%S} {kind:<16} {where}{event['text']}", style=style)
