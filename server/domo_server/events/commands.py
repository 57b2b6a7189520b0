"""`domo-server audit`: what this coordinator has put down for good."""

from pathlib import Path
from typing import Annotated

import typer

from domo.audit.chain import FOLDER
from domo.audit.looking import lines, report
from domo.ops.command_app import make_app
from domo.ops.console import say

Config = Annotated[Path | None, typer.Option("--config", "-c", help="federation.toml: [server].")]
StateDir = Annotated[Path | None, typer.Option(help="The coordinator's state folder.")]

app = make_app("audit", "What this coordinator has put down, each line bound to all before.")


def _folder(config: Path | None, state_dir: Path | None) -> Path:
    from domo_server.config import load_config

    settings, _ = load_config(config, {"state_dir": state_dir, "insecure": True})  # no listening
    return settings.state_dir / FOLDER


@app.command()
def show(
    config: Config = None,
    state_dir: StateDir = None,
    run: Annotated[str | None, typer.Option(help="Lines of this run only.")] = None,
    what: Annotated[str | None, typer.Option(help="Lines of this kind only.")] = None,
) -> None:
    """Print the lines, oldest first."""
    for line in lines(_folder(config, state_dir), run, what):
        say(line)


@app.command()
def verify(
    config: Config = None,
    state_dir: StateDir = None,
    other: Annotated[
        Path | None, typer.Option(help="A silo's audit folder, or a copy of it.")
    ] = None,
) -> None:
    """Say whether the record is whole; exit code 8 if it is not."""
    for line in report(_folder(config, state_dir), other):
        say(line)
