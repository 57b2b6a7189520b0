"""`domo-client audit`: what this silo has put down of itself."""

from pathlib import Path
from typing import Annotated

import typer

from domo.audit.chain import FOLDER
from domo.audit.looking import lines, report
from domo.ops.command_app import make_app
from domo.ops.console import say
from domo_client.policy.command import Name, StateDir, state_folder

app = make_app("audit", "What this silo has put down of itself, each line bound to all before.")


@app.command()
def show(
    name: Name = None,
    state_dir: StateDir = None,
    run: Annotated[str | None, typer.Option(help="Lines of this run only.")] = None,
    what: Annotated[str | None, typer.Option(help="Lines of this kind only.")] = None,
) -> None:
    """Print the lines, oldest first."""
    for line in lines(state_folder(name, state_dir) / FOLDER, run, what):
        say(line)


@app.command()
def verify(
    name: Name = None,
    state_dir: StateDir = None,
    other: Annotated[
        Path | None, typer.Option(help="The coordinator's audit folder, or a copy of it.")
    ] = None,
) -> None:
    """Say whether the record is whole; exit code 8 if it is not."""
    for line in report(state_folder(name, state_dir) / FOLDER, other):
        say(line)
