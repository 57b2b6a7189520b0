"""What the commands of `domo.remote.cli` do that change something, and the token that they need."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_state_path

from domo.api.client import Coordinator
from domo.errors import ConfigError
from domo.ops.config_file import load_runs, validate
from domo.ops.console import say
from domo.run_config import RunConfig


def default_token_file() -> Path:
    """Where a coordinator on this machine keeps the admin's token by default."""
    return user_state_path("domo") / "coordinator" / "admin-token"


def find_token(token_file: Path | None) -> str:
    """The admin's token: of the file, of DOMO_ADMIN_TOKEN, or of this machine's coordinator.

    Args:
        token_file: As the flag gives it.

    Raises:
        ConfigError: There is none, or it cannot be one; says where to look.
    """
    told = os.environ.get("DOMO_ADMIN_TOKEN")
    if token_file is None and told:
        return _token(told, "DOMO_ADMIN_TOKEN")
    path = token_file or default_token_file()
    try:
        return _token(path.read_text(encoding="utf-8", errors="replace"), str(path))
    except OSError as error:
        raise ConfigError(
            f"this needs the admin's token, and {path} cannot be read ({error.strerror}). It lies "
            "in the coordinator's state folder as admin-token: give --token-file, or set "
            "DOMO_ADMIN_TOKEN"
        ) from None


def _token(text: str, where: str) -> str:
    if re.fullmatch(r"[!-~]+", token := text.strip()) is None:
        raise ConfigError(
            f"{where} holds no admin token, which is one word of plain letters, digits and signs. "
            "It lies in the coordinator's state folder as admin-token"
        )
    return token


def submit_runs(server: str, path: Path, name: str | None, token: str) -> Sequence[str]:
    """Queue the [[runs]] of a file, or the one with this name; returns their ids.

    Raises:
        ConfigError: A fault in the file, or no such run in it.
    """
    entries = load_runs(path)
    runs = [validate(RunConfig, e, path, at=f"runs[{i}]") for i, e in enumerate(entries)]
    chosen = [(e, r) for e, r in zip(entries, runs, strict=True) if name in (None, r.title)]
    if not chosen:
        known = ", ".join(r.title for r in runs) or "none"
        raise ConfigError(f"{path}: there is no run {name!r} in it (runs: {known})")
    queued = []
    with Coordinator(server, token) as coordinator:
        for entry, _ in chosen:
            run = coordinator.submit(entry)
            queued.append(run.run_id)
            say(f"queued {run.run_id}: {run.method} on {run.task}, {run.num_rounds} rounds")
    return queued


def pause_run(server: str, run_id: str, token: str) -> None:
    """Hold a run until it is resumed."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.pause(run_id)
    say(f"{run.run_id}: " + ("paused" if run.state == "PAUSED" else "pausing"))
    say(f"next: domo resume {run.run_id}")


def resume_run(server: str, run_id: str, token: str) -> None:
    """Go on with a paused run."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.resume(run_id)
    say(f"{run.run_id}: goes on, {run.rounds_done} of {run.num_rounds} rounds are done")


def stop_run(server: str, run_id: str, token: str) -> None:
    """Stop a run for good."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.stop(run_id)
    ended = run.state == "STOPPED" and run.detail
    say(f"{run.run_id}: {ended or 'stopping'}")


def drop_silo(server: str, silo_id: str, reason: str, token: str) -> None:
    """Leave a silo out until it is re-admitted."""
    with Coordinator(server, token) as coordinator:
        silo = coordinator.drop(silo_id, reason)
    say(f"{silo.silo_id} is left out" + (f": {silo.dropped}" if silo.dropped else ""))
    say(f"next: domo readmit {silo.silo_id} takes it back")


def readmit_silo(server: str, silo_id: str, token: str) -> None:
    """Take a dropped silo back, or let one join with a new state folder."""
    with Coordinator(server, token) as coordinator:
        silos = coordinator.silos()
        was_out = any(s.silo_id == silo_id and s.dropped is not None for s in silos)
        name = coordinator.readmit(silo_id).silo_id
    if was_out:
        say(f"{name} takes part again from the next round on")
    else:
        say(f"{name} may join again, with any state folder; start its domo-client")
