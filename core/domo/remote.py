"""What `domo status`, `domo submit` and `domo stop` do: calls on a coordinator's REST."""

import os
from pathlib import Path
from typing import Any

import httpx
from platformdirs import user_state_path
from rich.table import Table

from domo.config_file import load_toml, validate
from domo.console import console, say
from domo.errors import AccessError, ConfigError, CoordinatorUnavailableError
from domo.run_config import RunConfig

TIMEOUT_S = 20.0


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


def call(server: str, method: str, path: str, token: str = "", body: Any = None) -> Any:
    """One REST call.

    Raises:
        CoordinatorUnavailableError: Nobody answers.
        AccessError: The token is not the admin's.
        ConfigError: The coordinator refuses; its own words.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{server.rstrip('/')}/api/v1{path}"
    try:
        answer = httpx.request(method, url, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CoordinatorUnavailableError(f"no coordinator's REST at {server}: {error}") from None
    if answer.is_success:
        return answer.json()
    try:
        text = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        text = f"{url} answered {answer.status_code}; is that a domo coordinator?"
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
    table = _table("silo", "phase", "step", "last seen", "error")
    for silo in status["silos"]:
        seen = silo["last_seen_s"]
        steps = f"{silo['step']} of {silo['num_steps']}" if silo["num_steps"] else ""
        ago = "" if seen is None else f"{seen:.0f} s ago"
        table.add_row(silo["silo_id"], silo["phase"], steps, ago, silo["error"] or "")
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


def stop_run(server: str, run_id: str, token: str) -> None:
    """Stop a run for good."""
    run = call(server, "POST", f"/runs/{run_id}/stop", token)
    say(f"{run['run_id']}: {run['detail'] or 'stopping'}")
