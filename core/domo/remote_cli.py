"""The commands of `domo` that speak to a coordinator: status, events, and what an admin does.

`domo.cli` takes them in flat, as `domo status` and so on.
"""

from pathlib import Path
from typing import Annotated

import typer

from domo.console import friendly_errors

remote_app = typer.Typer()

Server = Annotated[
    str, typer.Option(envvar="DOMO_SERVER", help="The coordinator's dashboard address.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="The admin's token; DOMO_ADMIN_TOKEN, or this machine's by default."),
]
Run = Annotated[str, typer.Argument(help="As `domo status` shows it.")]
Silo = Annotated[str, typer.Argument(help="As `domo status` shows it.")]
DASHBOARD = "http://127.0.0.1:8080"


@remote_app.command()
@friendly_errors()
def status(
    server: Server = DASHBOARD,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Show a coordinator's runs and silos."""
    from domo.remote import show_status

    show_status(server, as_json)


@remote_app.command()
@friendly_errors()
def events(
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    silo: Annotated[str | None, typer.Option(help="Only of this silo.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only of this kind, such as refused or silo-failed; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The last so many.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    server: Server = DASHBOARD,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on each line.")] = False,
) -> None:
    """Show what happened: rounds, silos that come and go, refusals and failures."""
    from domo.remote import show_events

    show_events(server, {"run_id": run, "silo_id": silo, "kind": kind}, limit, follow, as_json)


@remote_app.command()
@friendly_errors()
def submit(
    file: Annotated[Path, typer.Argument(help="TOML file with [[runs]].")],
    run: Annotated[str | None, typer.Option(help="Only the run of this name.")] = None,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
) -> None:
    """Hand runs to a coordinator."""
    from domo.remote import find_token, submit_runs

    submit_runs(server, file, run, find_token(token_file))


@remote_app.command()
@friendly_errors()
def pause(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Hold a run: no round closes and none begins until `domo resume`."""
    from domo.remote import find_token, pause_run

    pause_run(server, run, find_token(token_file))


@remote_app.command()
@friendly_errors()
def resume(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Go on with a paused run."""
    from domo.remote import find_token, resume_run

    resume_run(server, run, find_token(token_file))


@remote_app.command()
@friendly_errors()
def stop(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Stop a run for good; what is committed stays."""
    from domo.remote import find_token, stop_run

    stop_run(server, run, find_token(token_file))


@remote_app.command()
@friendly_errors()
def drop(
    silo: Silo,
    reason: Annotated[str, typer.Option(help="Why; everybody can read it.")] = "",
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
) -> None:
    """Leave a silo out, from the round that is open on, until `domo readmit`."""
    from domo.remote import drop_silo, find_token

    drop_silo(server, silo, reason, find_token(token_file))


@remote_app.command()
@friendly_errors()
def readmit(silo: Silo, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Take a dropped silo back, or let one join again that lost its state folder."""
    from domo.remote import find_token, readmit_silo

    readmit_silo(server, silo, find_token(token_file))
