"""What the commands of `domo.remote.cli` do that change something."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import indent

from domo.api.client import Coordinator
from domo.errors import ConfigError
from domo.ops.config_file import load_runs, validate, validate_all
from domo.ops.console import confirm, say
from domo.ops.words import counted
from domo.remote.token import find_token
from domo.remote.which import find_run, here
from domo.run_config import RunConfig

REBIND = (
    "The name {silo} is bound to the state folder that it joined with. After this the next "
    "domo-client that joins as {silo}, on whatever machine, has the name and keeps it.\n"
    "Has its operator told you that the folder is lost?"
)
"""What is asked before a name is let go."""
REBOUND = "the name {silo} is free for one other state folder; start its domo-client"


def submit_runs(server: str, path: Path, name: str | None, token: str) -> Sequence[str]:
    """Queue the [[runs]] of a file, or the one with this name; returns their ids.

    Raises:
        ConfigError: A fault in the file, or no such run in it.
    """
    entries = load_runs(path)
    parts = [partial(validate, RunConfig, e, path, at=f"runs[{i}]") for i, e in enumerate(entries)]
    runs = validate_all(path, *parts)
    chosen = [(e, r) for e, r in zip(entries, runs, strict=True) if name in (None, r.title)]
    if not chosen:
        known = ", ".join(r.title for r in runs) or "none"
        raise ConfigError(f"{path}: there is no run {name!r} in it (runs: {known})")
    queued = []
    with Coordinator(server, token) as coordinator:
        for entry, _ in chosen:
            run = coordinator.submit(entry)
            queued.append(run.run_id)
            say(
                f"queued {run.run_id}: {run.method} on {run.task}, "
                f"{counted(run.num_rounds, 'round')}"
            )
    return queued


def pause_run(server: str, which: str, token: str, token_file: Path | None = None) -> None:
    """Hold a run until it is resumed."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.pause(find_run(coordinator, which))
    say(f"{run.run_id}: " + ("paused" if run.state == "PAUSED" else "pausing"))
    say(f"next: {here('domo', 'resume', run.run_id, at=server, token_file=token_file)}")


def resume_run(server: str, which: str, token: str) -> None:
    """Go on with a paused run."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.resume(find_run(coordinator, which))
    say(f"{run.run_id}: goes on, {run.rounds_done} of {run.num_rounds} rounds are done")


def stop_run(server: str, which: str, token: str) -> None:
    """Stop a run for good."""
    with Coordinator(server, token) as coordinator:
        run = coordinator.stop(find_run(coordinator, which))
    ended = run.state == "STOPPED" and run.detail
    say(f"{run.run_id}: {ended or 'stopping'}")


def edit_run(
    server: str,
    which: str,
    tags: Sequence[str],
    untags: Sequence[str],
    notes: str | None,
    archived: bool | None,
    token: str,
) -> None:
    """Change a run's tags, notes and place in lists.

    Raises:
        ConfigError: Nothing is to be changed, or a tag is to go that it does not have.
    """
    if not (tags or untags) and notes is None and archived is None:
        raise ConfigError("what is to change? Give --tag, --untag, --notes, --archive, --unarchive")
    with Coordinator(server, token) as coordinator:
        run = coordinator.run(find_run(coordinator, which))
        for tag in untags:
            if tag not in run.tags:
                has = ", ".join(run.tags) or "none"
                raise ConfigError(f"{run.run_id} has no tag {tag!r} (its tags: {has})")
        wanted = [tag for tag in (*run.tags, *tags) if tag not in untags]
        changed = wanted if tags or untags else None
        edited = coordinator.edit(run.run_id, changed, notes, archived)
    parts = [f"tags {', '.join(edited.tags) or 'none'}", "archived" if edited.archived else ""]
    say(f"{edited.run_id}: {'; '.join(filter(None, parts))}")
    if edited.notes:
        say(indent(edited.notes, "  "))


def drop_silo(
    server: str, silo_id: str, reason: str, token: str, token_file: Path | None = None
) -> None:
    """Leave a silo out until it is taken back."""
    with Coordinator(server, token) as coordinator:
        silo = coordinator.drop(silo_id, reason)
    say(f"{silo.silo_id} is left out" + (f": {silo.dropped}" if silo.dropped else ""))
    back = here("domo", "undrop", silo.silo_id, at=server, token_file=token_file)
    say(f"next: {back}   # takes it back")


def undrop_silo(server: str, silo_id: str, token: str) -> None:
    """Take a dropped silo back."""
    with Coordinator(server, token) as coordinator:
        name = coordinator.undrop(silo_id).silo_id
    say(f"{name} takes part again from the next round on")


def revoke_silo(server: str, silo_id: str, token_file: Path | None = None) -> None:
    """Let a silo in no more.

    Raises:
        ConfigError: There is no token.
    """
    with Coordinator(server, find_token(token_file)) as coordinator:
        silo = coordinator.revoke(silo_id)
    name = silo.silo_id
    say(f"{name} is revoked: its calls have ended, and none is answered, whatever key it has")
    if silo.dropped is not None:
        back = here("domo", "undrop", name, at=server, token_file=token_file)
        say(f"it is left out of runs; once it is let in again: {back}")


def rebind_silo(
    server: str, silo_id: str, token: str, sure: bool, token_file: Path | None = None
) -> None:
    """Free a silo's name for one other state folder, once the admin has said that it is meant.

    Raises:
        ConfigError: It is not meant, or there is nobody to ask.
    """
    with Coordinator(server, token) as coordinator:
        silo = coordinator.silo(silo_id)
        if not sure:
            confirm(REBIND.format(silo=silo.silo_id))
        silo_id = coordinator.rebind(silo_id).silo_id
    say(REBOUND.format(silo=silo_id))
    if silo.dropped is not None:
        back = here("domo", "undrop", silo_id, at=server, token_file=token_file)
        say(f"it is left out still ({silo.dropped}); to take it back: {back}")
