"""The command `domo`: simulate, compare, prepare models and data.

What speaks to a coordinator is in `domo.remote.cli`. Modules that need torch are imported when a
command runs, so that help and mistakes are quick.
"""

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from domo.commands.experiment.cli import experiment_app
from domo.errors import ConfigError
from domo.ops.command_app import Version, make_app
from domo.ops.console import console, friendly_errors, say
from domo.ops.exit_codes import OF_ERRORS
from domo.ops.logs import setup_logging
from domo.ops.terminal import end_in_order
from domo.remote import complete
from domo.remote.cli import DASHBOARD, Server, TokenFile, remote_app
from domo.storage.home import user_cache

app = make_app(
    "domo", "Cross-silo federated learning with coordinated momenta.", no_args_is_help=True
)
data_app = make_app("data", "Prepare data.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(experiment_app, name="experiment")

DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="DOMO_DATA",
        help="Folder with the task's data; by default domo's folder in the user's cache.",
    ),
]


def main() -> None:
    """Entry point of the console script; SIGTERM and SIGHUP too leave the terminal as it was."""
    end_in_order()
    app()


@app.callback()
@friendly_errors()
def _before(version: Version = False) -> None:
    setup_logging(os.environ.get("DOMO_LOG_LEVEL") or "WARNING")
    logging.getLogger("domo.tasks").setLevel(logging.INFO)  # what is downloaded, and how large


@app.command()
@friendly_errors(OF_ERRORS)
def simulate(
    method: Annotated[
        str | None,
        typer.Option(help="Method [default: DOMO].", autocompletion=complete.methods),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Named task (see `domo tasks`) or module:Class [default: digits].",
            autocompletion=complete.tasks,
        ),
    ] = None,
    silos: Annotated[int | None, typer.Option(help="K [default: 4].")] = None,
    similarity: Annotated[
        float | None, typer.Option(help="Share of data dealt at random [default: 0.05].")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="R [default: 15].")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything [default: 0].")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Several seeds, such as 0,1,2; compares over them.")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Local step size eta [default: 0.05].")] = None,
    lr_milestones: Annotated[
        str | None, typer.Option(help="Fractions of the rounds where eta decays: 0.6,0.8.")
    ] = None,
    local_epochs: Annotated[
        float | None, typer.Option(help="Passes over local data in a round [default: 1].")
    ] = None,
    local_steps: Annotated[int | None, typer.Option(help="Local steps instead.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="[default: 32].")] = None,
    drop_last: Annotated[bool | None, typer.Option("--drop-last", help="No short batch.")] = None,
    server_momentum: Annotated[float | None, typer.Option(help="mu_s [default: 0.9].")] = None,
    local_momentum: Annotated[float | None, typer.Option(help="mu_l [default: 0.6].")] = None,
    fusion_coef: Annotated[float | None, typer.Option(help="beta [default: 0.9].")] = None,
    server_lr: Annotated[float | None, typer.Option(help="alpha [default: 1].")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="[default: 0].")] = None,
    participation: Annotated[int | None, typer.Option(help="S of K [default: all].")] = None,
    weights: Annotated[str | None, typer.Option(help="Or samples [default: uniform].")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of torch [default: 1].")] = None,
    data: DataRoot = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with [[runs]]; flags win over it.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run in the file.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for what is made [default: runs/TITLE].")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help='`all`, or methods such as "DOMO,FedAvg".')
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes of a comparison.")] = 1,
    on: Annotated[str | None, typer.Option(help="Compare on dask://HOST:PORT or slurm.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="For the silos of a run.")] = None,
    mode: Annotated[str, typer.Option(help="exact, batched (but for rounding) or auto.")] = "exact",
    precision: Annotated[str, typer.Option(help="Or bf16, for batched.")] = "float32",
    silo_name_prefix: Annotated[str, typer.Option(help="Silo i is called PREFIXi.")] = "silo-",
    device: Annotated[str, typer.Option(help="Where silos compute, such as cuda.")] = "cpu",
    replay: Annotated[
        str | None,
        typer.Option(
            help="Run a recorded run again: a run at the coordinator of DOMO_SERVER, or its "
            "history.json, file or URL.",
            autocompletion=complete.runs,
        ),
    ] = None,
    silo_data: Annotated[
        list[str] | None,
        typer.Option(help="With --replay: NAME=DIR, own data of a silo; may be repeated."),
    ] = None,
    initial_model: Annotated[
        Path | None, typer.Option(help="With --replay: x_0, where it was given to the run.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what Ctrl-C interrupted in --out.")
    ] = False,
) -> None:
    """Run a federation on this machine; no network, the same bytes.

    Without flags: DOMO on real digits, 4 silos that hold mostly different digits, 15 rounds.
    """
    from domo.batched.how import How
    from domo.commands import run_flags
    from domo.commands import simulate as simulate_command
    from domo.commands.compare import that_fit
    from domo.commands.comparison import run_comparison
    from domo.sweeps.cells import Setting

    flags = {
        "method": method,
        "task": task,
        "num_silos": silos,
        "similarity": similarity,
        "num_rounds": rounds,
        "seed": seed,
        "local_lr": lr,
        "lr_milestones": run_flags.parse_numbers("--lr-milestones", lr_milestones),
        "local_epochs": local_epochs,
        "local_steps": local_steps,
        "batch_size": batch_size,
        "drop_last": drop_last,
        "server_momentum": server_momentum,
        "local_momentum": local_momentum,
        "fusion_coef": fusion_coef,
        "server_lr": server_lr,
        "weight_decay": weight_decay,
        "participation": participation,
        "weights": weights,
        "threads": threads,
    }
    how = {"mode": mode, "precision": precision}
    if replay is not None:
        from domo.commands.replay import replay_run

        beside = {"config": config, "run": run, "compare": compare, "seeds": seeds, **how}
        run_flags.refuse_beside_replay(flags, {**beside, "resume": resume or None})
        own, where = silo_data or (), (device, out, task, processes)
        replay_run(replay, data or user_cache(), silo_name_prefix, own, initial_model, *where)
        return
    if silo_data or initial_model:
        raise ConfigError("--silo-data and --initial-model belong to --replay")
    chosen = run_flags.make_config(flags, config, run)
    several = run_flags.parse_seeds(seeds) if seeds else (chosen.seed,)
    compares = compare is not None or len(several) > 1
    num = run_flags.num_processes(processes, jobs, on, compares)
    asked = How(**how)  # type: ignore[arg-type]  # it looks itself
    setting = Setting(chosen, data or user_cache(), silo_name_prefix, device, num, asked)
    run_flags.check_device(device)
    others: dict[str, Any] = {"config": config, "run": run, "data": data, "out": out}
    others |= {"seeds": seeds, "compare": compare, "jobs": jobs, "on": on, "device": device}
    others |= {"processes": processes, "silo_name_prefix": silo_name_prefix, **how}
    again = run_flags.typed_again(flags, **others, resume=True)
    if not compares:
        setting = replace(setting, config=chosen.model_copy(update={"seed": several[0]}))
        others |= {"compare": "all", "out": None, "processes": None}
        side_by_side = run_flags.typed_again({**flags, "method": None}, **others)
        place = out or Path("runs") / setting.config.title
        simulate_command.run_single(setting, place, side_by_side, again, resume)
        return
    methods = that_fit(chosen, compare) if compare else (chosen.method,)
    place = out or Path("runs") / f"compare-{chosen.task.replace(':', '.')}"
    run_comparison(setting, methods, several, jobs, place, again, resume, on)


@app.command()
@friendly_errors()
def tasks() -> None:
    """List the named tasks."""
    from rich.table import Table

    from domo.tasks import TASKS

    table = Table("task", "what is trained on what")
    for name, (description, _) in TASKS.items():
        table.add_row(name, description)
    console.print(table)
    say("your own: --task module:Class, importable from here")


@app.command()
@friendly_errors()
def config() -> None:
    """Print a file of runs to start from: every key, what it means, its default."""
    from domo.commands.example_config import run_example

    say(run_example().rstrip("\n"))


@app.command()
@friendly_errors()
def init(
    task: Annotated[
        str, typer.Argument(help="Named task or module:Class.", autocompletion=complete.tasks)
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initial weights.")] = 0,
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("x0.safetensors"),
    weights: Annotated[
        Path | None, typer.Option(help="Start from these: safetensors, or a torch state dict.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the run, where it has image settings.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run in the file.")] = None,
) -> None:
    """Make the initial model of a run."""
    from domo.commands.init import make_initial

    make_initial(task, seed, out, weights, config, run)


@app.command()
@friendly_errors(OF_ERRORS)
def export(
    model: Annotated[
        str,
        typer.Argument(
            help="A run at a coordinator (number, name or both), a model.safetensors, a run's "
            "folder, a checkpoint.",
            autocompletion=complete.runs,
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option("--format", help="torch or safetensors [default: by --out, or safetensors]."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for model and card; or a file, .pt or .safetensors."),
    ] = Path("export"),
    server: Server = DASHBOARD,
    token_file: TokenFile = None,
    task: Annotated[
        str | None,
        typer.Option(help="See that the model fits the module of this task; imports it."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Write over files that are there.")] = False,
    best: Annotated[bool, typer.Option("--best", help="The best tested, not the newest.")] = False,
) -> None:
    """Write a model as a file for PyTorch or safetensors, with its card."""
    from domo.commands.export import export as export_it

    export_it(model, form, out, server, task, force, best, token_file)


@data_app.command()
@friendly_errors()
def split(
    out: Annotated[Path, typer.Option(help="Folder to write; one folder in it for each silo.")],
    task: Annotated[
        str, typer.Option(help="Named task.", autocompletion=complete.tasks)
    ] = "digits",
    silos: Annotated[int, typer.Option(min=1, help="K.")] = 4,
    similarity: Annotated[float, typer.Option(min=0, max=1, help="Share dealt at random.")] = 0.05,
    data: DataRoot = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
) -> None:
    """Deal a public dataset out to silos, a folder for each."""
    from domo.commands.split import split_data

    split_data(task, data or user_cache(), silos, similarity, seed, out)


app.add_typer(remote_app)
