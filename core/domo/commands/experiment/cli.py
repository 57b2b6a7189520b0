"""The flags of `domo experiment`; what needs torch is imported when a command runs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from domo.errors import ConfigError
from domo.ops.command_app import make_app
from domo.ops.console import friendly_errors
from domo.ops.exit_codes import OF_ERRORS
from domo.storage.home import user_cache

if TYPE_CHECKING:
    from domo.commands.experiment.run import Wanted

experiment_app = make_app(
    "experiment", "The paper's tables and figures, one command each.", no_args_is_help=True
)

RECIPES = ("figure-2", "heatmap", "figure-4", "alpha-beta", "svhn", "cifar100", "all")
"""Names of `domo.experiments.recipe.ORDER`, for completion."""
Names = Annotated[
    list[str],
    typer.Argument(
        help="Recipes (see `domo experiment list`), `all`, or a file of your own.",
        autocompletion=lambda incomplete: [n for n in RECIPES if n.startswith(incomplete)],
    ),
]
ScaleFlag = Annotated[
    Literal["paper", "small", "tiny"],
    typer.Option(
        "--scale", help="paper: its settings; small: minutes on two cores; tiny: to try it out."
    ),
]
Out = Annotated[
    Path, typer.Option("--out", help="Folder of all results.", show_default="runs/experiments")
]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Such as 0,1,2,3,4 [default: the recipe's three].")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE: a setting of all runs; may be repeated."),
]
ModeFlag = Annotated[
    Literal["exact", "batched", "auto"],
    typer.Option(
        "--mode",
        help="exact: the bytes of a deployed run; batched: all silos in one call, same within "
        "float tolerance; auto: the quicker one.",
    ),
]
PLACE = Path("runs/experiments")


@experiment_app.command("list")
@friendly_errors(OF_ERRORS)
def list_(
    scale: ScaleFlag = "small",
    out: Out = PLACE,
    seeds: Seeds = None,
    set_: Set = None,
    mode: ModeFlag = "exact",
) -> None:
    """List the recipes: what they are of the paper, what is done, and the time left."""
    from domo.commands.experiment.run import show_list

    show_list(_wanted(["all"], scale, out, seeds, set_, mode))


@experiment_app.command()
@friendly_errors(OF_ERRORS)
def run(
    names: Names,
    scale: ScaleFlag = "small",
    jobs: Annotated[int, typer.Option(min=1, help="Processes; the numbers are the same.")] = 1,
    on: Annotated[str | None, typer.Option(help="Where else: dask://HOST:PORT or slurm.")] = None,
    out: Out = PLACE,
    seeds: Seeds = None,
    set_: Set = None,
    mode: ModeFlag = "exact",
    cells: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many runs [default: all].")
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Go on with settings that have changed.")
    ] = False,
    device: Annotated[str, typer.Option(help="Where silos compute, such as cuda.")] = "cpu",
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", envvar="DOMO_DATA", help="Folder of public data [default: the user's cache]."
        ),
    ] = None,
) -> None:
    """Run what is not done yet of some recipes; tables, plots and claims at the end.

    Killed at any time and run again, it repeats nothing that is done.
    """
    from domo.commands.experiment.run import run as run_recipes
    from domo.commands.run_flags import check_device, num_processes

    check_device(device)
    num_processes(None, jobs, on, compares=True)  # that only one of the two is given
    wanted = _wanted(names, scale, out, seeds, set_, mode)
    run_recipes(wanted, data or user_cache(), device, jobs, on, cells, afresh)


@experiment_app.command()
@friendly_errors(OF_ERRORS)
def report(
    names: Names,
    scale: ScaleFlag = "small",
    out: Out = PLACE,
    seeds: Seeds = None,
    set_: Set = None,
    mode: ModeFlag = "exact",
    into: Annotated[
        Path | None, typer.Option(help="Also put it into this markdown file, such as a page.")
    ] = None,
) -> None:
    """Tables, plots and claims from what is done, all of it or not."""
    from domo.commands.experiment.report import report as report_on

    wanted = _wanted(names, scale, out, seeds, set_, mode)
    for recipe in wanted.recipes():
        folder = wanted.folder(recipe)
        folder.mkdir(parents=True, exist_ok=True)
        report_on(wanted.results(recipe), folder, into)


def _wanted(
    names: list[str],
    scale: Any,
    out: Path,
    seeds: str | None,
    settings: list[str] | None,
    mode: Any,
) -> "Wanted":
    from domo.commands.experiment.run import Wanted
    from domo.commands.run_flags import parse_seeds

    several = parse_seeds(seeds) if seeds else ()
    typed = dict(_setting(text) for text in settings or ())
    return Wanted(names, scale, out, several, typed, mode)


def _setting(text: str) -> tuple[str, Any]:
    """`KEY=VALUE`; a value that is no JSON is a text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text}: write KEY=VALUE, such as --set local_lr=0.05")
    if key == "seed":
        raise ConfigError("--set seed: give --seeds 0,1,2")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
