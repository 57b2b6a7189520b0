"""The commands of `domo` that speak to a coordinator: what it does, what happened, admin's work.

`domo.commands.main` takes them in flat, as `domo status` and so on.
"""

from pathlib import Path
from typing import Annotated

import typer

from domo.errors import ConfigError
from domo.ops.console import friendly_errors
from domo.ops.exit_codes import OF_ERRORS
from domo.remote import complete

remote_app = typer.Typer()
DASHBOARD = "http://127.0.0.1:8080"
NUM_LISTED, MAX_LISTED = 50, 1000
RUN_IS = "Its number, its name, or both as `domo runs` shows it."

Server = Annotated[
    str, typer.Option(envvar="DOMO_SERVER", help="The coordinator's dashboard address.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with a token; DOMO_TOKEN, or this machine's by default."),
]
Run = Annotated[str, typer.Argument(help=RUN_IS, autocompletion=complete.runs)]
Silo = Annotated[str, typer.Argument(help="As in `domo status`.", autocompletion=complete.silos)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back.")]
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object on each line.")]
Timeout = Annotated[
    float | None, typer.Option(min=0.1, help="Seconds; if it has not ended by then, exit 124.")
]


@remote_app.command()
@friendly_errors(OF_ERRORS)
def status(
    server: Server = DASHBOARD, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show a coordinator's newest runs and its silos."""
    from domo.remote.show import show_status
    from domo.remote.token import reader

    with reader(server, token_file) as coordinator:
        show_status(coordinator, as_json)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def runs(
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state, such as finished; repeatable.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Only of this method.", autocompletion=complete.methods)
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only of this task.", autocompletion=complete.tasks)
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Also those that are archived.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = NUM_LISTED,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    from domo.remote.show import show_runs
    from domo.remote.token import reader

    wanted = {"state": state, "method": method, "task": task, "tags": tag}
    with reader(server, token_file) as coordinator:
        show_runs(coordinator, wanted, limit, as_json, archived)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def run(
    run: Run, server: Server = DASHBOARD, token_file: TokenFile = None, as_json: AsJson = False
) -> None:
    """Show one run: how far it is, its numbers, its settings."""
    from domo.remote.show import show_run
    from domo.remote.token import reader
    from domo.remote.which import find_run

    with reader(server, token_file) as coordinator:
        show_run(coordinator, find_run(coordinator, run), as_json)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def compare(
    runs: Annotated[
        list[str], typer.Argument(help=f"Two or more. {RUN_IS}", autocompletion=complete.runs)
    ],
    all_settings: Annotated[
        bool, typer.Option("--all", help="Also the settings that are the same.")
    ] = False,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show runs side by side: their numbers, and the settings that differ."""
    from domo.remote.show import compare_runs
    from domo.remote.token import reader
    from domo.remote.which import find_run

    with reader(server, token_file) as coordinator:
        found = [find_run(coordinator, run) for run in runs]
        compare_runs(coordinator, found, all_settings, as_json)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def watch(
    run: Annotated[
        str | None,
        typer.Argument(
            help=f"{RUN_IS} The current one, or the newest, by default.",
            autocompletion=complete.runs,
        ),
    ] = None,
    timeout: Timeout = None,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
    as_json: JsonLines = False,
) -> None:
    """Follow a run until it ends; the exit code tells how."""
    from domo.remote.token import reader
    from domo.remote.watch import watch as follow
    from domo.remote.which import find_run

    with reader(server, token_file) as coordinator:
        run_id = None if run is None else find_run(coordinator, run)
        code = follow(coordinator, run_id, timeout, as_json)
    raise typer.Exit(code)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def events(
    run: Annotated[
        str | None,
        typer.Option(help=f"Only of this run. {RUN_IS}", autocompletion=complete.runs),
    ] = None,
    silo: Annotated[
        str | None, typer.Option(help="Only of this silo.", autocompletion=complete.silos)
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only of this kind, such as refused or silo-failed; repeatable."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_LISTED, help="The last so many.")
    ] = NUM_LISTED,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
    as_json: JsonLines = False,
) -> None:
    """Show what happened: rounds, silos that come and go, refusals and failures."""
    from domo.remote.events import show_events
    from domo.remote.token import reader

    wanted = {"run_id": run, "silo_id": silo, "kinds": kind or ()}
    show_events(reader(server, token_file), wanted, limit, follow, as_json)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def submit(
    file: Annotated[Path, typer.Argument(help="TOML file with [[runs]].")],
    run: Annotated[str | None, typer.Option(help="Only the run of this name.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the runs to their end, as `domo watch` does.")
    ] = False,
    timeout: Timeout = None,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
) -> None:
    """Hand runs to a coordinator; `domo config` prints a file to start from."""
    from domo.remote.token import find_token
    from domo.remote.watch import submit_and_watch

    code = submit_and_watch(server, file, run, find_token(token_file), watch, timeout)
    raise typer.Exit(code)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def pause(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Hold a run: no round closes and none begins until `domo resume`."""
    from domo.remote.admin import pause_run
    from domo.remote.token import find_token

    pause_run(server, run, find_token(token_file), token_file)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def resume(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Go on with a paused run."""
    from domo.remote.admin import resume_run
    from domo.remote.token import find_token

    resume_run(server, run, find_token(token_file))


@remote_app.command()
@friendly_errors(OF_ERRORS)
def stop(run: Run, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Stop a run for good; what is committed stays."""
    from domo.remote.admin import stop_run
    from domo.remote.token import find_token

    stop_run(server, run, find_token(token_file))


@remote_app.command()
@friendly_errors(OF_ERRORS)
def edit(
    run: Run,
    tag: Annotated[list[str] | None, typer.Option(help="One tag more; repeatable.")] = None,
    untag: Annotated[list[str] | None, typer.Option(help="One tag less; repeatable.")] = None,
    notes: Annotated[str | None, typer.Option(help='In place of its notes; "" for none.')] = None,
    archive: Annotated[
        bool | None,
        typer.Option("--archive/--unarchive", help="Leave it out of lists; nothing is deleted."),
    ] = None,
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
) -> None:
    """Change what is said of a run: its tags, its notes, whether it is archived."""
    from domo.remote.admin import edit_run
    from domo.remote.token import find_token

    edit_run(server, run, tag or (), untag or (), notes, archive, find_token(token_file))


@remote_app.command()
@friendly_errors(OF_ERRORS)
def drop(
    silo: Silo,
    reason: Annotated[str, typer.Option(help="Why; everybody can read it.")] = "",
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
) -> None:
    """Leave a silo out, from the round that is open on, until `domo undrop`."""
    from domo.remote.admin import drop_silo
    from domo.remote.token import find_token

    drop_silo(server, silo, reason, find_token(token_file), token_file)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def undrop(silo: Silo, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Take a dropped silo back; its name stays bound to its state folder."""
    from domo.remote.admin import undrop_silo
    from domo.remote.token import find_token

    undrop_silo(server, silo, find_token(token_file))


@remote_app.command()
@friendly_errors(OF_ERRORS)
def rebind(
    silo: Silo, yes: Yes = False, server: Server = DASHBOARD, token_file: TokenFile = None
) -> None:
    """Let a silo's name be taken by another state folder, once: the old one was lost."""
    from domo.remote.admin import rebind_silo
    from domo.remote.token import find_token

    rebind_silo(server, silo, find_token(token_file), yes, token_file)


@remote_app.command()
@friendly_errors(OF_ERRORS)
def revoke(silo: Silo, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Let a silo in no more, whatever its certificate says; its calls end at once."""
    from domo.remote.admin import revoke_silo

    revoke_silo(server, silo, token_file)


@remote_app.command(hidden=True)
@friendly_errors(OF_ERRORS)
def readmit(silo: Silo, server: Server = DASHBOARD, token_file: TokenFile = None) -> None:
    """Say which of the two commands that this one became is meant."""
    raise ConfigError(
        f"readmit is two commands now. domo undrop {silo}: takes back a silo that was dropped. "
        f"domo rebind {silo}: lets its name be taken by another state folder, as its own was lost"
    )
