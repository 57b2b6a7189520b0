"""How the commands of domo look: one style of help, `--version`, and completion.

Typer's frames are off: help is plain text that reads the same in a log, in a pipe and in a narrow
terminal. A default is told as `[default: ...]`, by typer where it knows it, by the help text where
it is made later.
"""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Annotated, Any

import typer

import domo
from domo.ops.console import say

DISTRIBUTION = "domo-federated"


def make_app(name: str, help_text: str | None = None, **more: Any) -> typer.Typer:
    """A command, or a group of them, in the style of all.

    Args:
        name: What people type.
        help_text: One line; None: the docstring of the callback.
        more: Of `typer.Typer`.
    """
    if help_text is not None:
        more["help"] = help_text
    return typer.Typer(
        name=name,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **more,
    )


def version() -> str:
    """Of the installed package; of these files, where they are run without being installed."""
    try:
        return installed(DISTRIBUTION)
    except PackageNotFoundError:
        return domo.__version__


def _show(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        say(f"{context.find_root().info_name} {version()}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show, is_eager=True, help="Show the version of domo and exit."
    ),
]

CheckLimit = Annotated[
    float | None,
    typer.Option(
        min=1,
        help="Seconds that a check may take [default: 120, 30 if nothing is computed or read].",
    ),
]
