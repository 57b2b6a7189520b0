"""What `domo simulate` does: one run, or a comparison of methods."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import domo
from domo.commands import compare
from domo.commands.compare import Setting
from domo.commands.export import BEST
from domo.commands.plot import plot
from domo.errors import ConfigError
from domo.model.card import (
    CardPoint,
    CardSilo,
    ModelCard,
    metadata_of,
    of_config,
)
from domo.model.flat import digest
from domo.model.model_file import save_model
from domo.ops.console import console, say
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.simulated import ModelRecord, SimulationResult
from domo.simulation import SimulatedSilo, simulate
from domo.tasks.base import Task


def run_single(setting: Setting, out: Path, side_by_side: str) -> SimulationResult:
    """One run, a line for each round; leaves the model and its history in `out`.

    Args:
        setting: The run.
        out: Folder for what is made.
        side_by_side: The command that compares methods on the same task and data.
    """
    config = setting.config
    say(
        f"{config.title}: {config.method} on {config.task}, "
        f"{counted(config.expected_silos, 'silo')}, similarity {100 * config.similarity:g} %, "
        f"{counted(config.num_rounds, 'round')}, seed {config.seed}"
    )
    task, silos = setting.load()
    result = run_and_keep(config, task, silos, setting.device, out)
    say(f"next:    {side_by_side}    (the paper's eight methods side by side)")
    return result


def run_and_keep(
    config: RunConfig,
    task: Task,
    silos: Sequence[SimulatedSilo],
    device: str,
    out: Path,
    participants: Sequence[Sequence[str]] | None = None,
) -> SimulationResult:
    """Run a simulation, a line for each round, and leave its model and history in `out`.

    Args:
        config: The run.
        task: What is trained.
        silos: All silos.
        device: Where silos compute.
        out: Folder; made if need be.
        participants: The silos of each round, where they are recorded.
    """
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with _progress() as bar:
        rounds = bar.add_task("rounds", total=len(participants or ()) or config.num_rounds)

        def show(record: ModelRecord) -> None:
            say(_line(config, record, len(silos)))
            for note in record.notes:
                say(f"note: {note}", style="yellow")
            bar.update(rounds, completed=record.model_index, refresh=True)

        result = simulate(
            config, task, silos, device=device, on_model=show, participants=participants
        )
    seconds = time.perf_counter() - began

    metadata = {"run": config.title, "config_digest": config.digest}
    metadata |= metadata_of(_card(config, result, silos), config)
    save_model(out / "model.safetensors", result.layout, result.vectors, metadata)
    if result.best is not None and result.best_index != result.history[-1].model_index:
        about = metadata_of(_card(config, result, silos, best=True), config)
        save_model(out / BEST, result.layout, result.best_vectors, metadata | about)
    else:
        (out / BEST).unlink(missing_ok=True)  # of an earlier run
    body = {
        "config": config.model_dump(mode="json"),
        "config_digest": config.digest,
        "model_digest": digest(result.x),
        "checkpoint_digest": result.checkpoint_digest,
        "primary_metric": result.primary_metric,
        "best_index": result.best_index,
        "best_value": result.best_value,
        "best_digest": result.best_digest,
        "stopped": result.stopped,
        "seconds": round(seconds, 3),
        "history": [asdict(r) for r in result.history],
    }
    (out / "history.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")

    table = Table(show_header=False)
    for name, value in result.history[-1].metrics.items():
        table.add_row(f"test {name}", _shown(name, value))
    if result.best_index is not None:
        shown = _shown(str(result.primary_metric), result.best_value or 0.0)
        table.add_row("best", f"{result.primary_metric} {shown} (x_{result.best_index})")
    steps = sum(sum(r.made_by.steps) for r in result.history if r.made_by)
    table.add_row("time", f"{seconds:.1f} s for {steps} local steps and the tests")
    table.add_row("digest of the model", digest(result.x))
    table.add_row("digest of the momentum", digest(result.m))
    console.print(table)
    if result.untested:
        say(f"warning: {result.untested}", style="yellow")
    if result.stopped is not None:
        say(result.stopped)
    say(f"model:   {out / 'model.safetensors'}\nhistory: {out / 'history.json'}")
    if (out / BEST).exists():
        say(f"best:    {out / BEST}")
    return result


def _card(
    config: RunConfig,
    result: SimulationResult,
    silos: Sequence[SimulatedSilo],
    best: bool = False,
) -> ModelCard:
    last = result.history[-1].model_index
    index = result.best_index if best and result.best_index is not None else last
    history = [r for r in result.history if r.model_index <= index]
    made = [r.made_by for r in history if r.made_by is not None]
    took_part = Counter(silo_id for record in made for silo_id in record.participants)
    sizes = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    return ModelCard(
        **of_config(config),
        simulated=True,
        round_index=len(made),
        num_params=result.layout.num_params,
        silos=[
            CardSilo(silo_id=s, num_samples=sizes[s], rounds=n)
            for s, n in sorted(took_part.items())
        ],
        points=[
            CardPoint(model_index=r.model_index, metrics=r.metrics) for r in history if r.metrics
        ],
        primary_metric=result.primary_metric,
        best_index=result.best_index,
        best_value=result.best_value,
        layout_digest=result.layout.digest,
        checkpoint_digest=result.best_digest if best else result.checkpoint_digest,
        software_version=domo.__version__,
    )


def run_comparison(
    setting: Setting, methods: tuple[str, ...], seeds: tuple[int, ...], jobs: int, out: Path
) -> compare.Comparison:
    """Several methods and seeds; leaves every number, a table and a plot in `out`."""
    config = setting.config
    say(
        f"{counted(len(methods), 'method')} x {counted(len(seeds), 'seed')} on {config.task}: "
        f"{counted(config.expected_silos, 'silo')}, similarity {100 * config.similarity:g} %, "
        f"{counted(config.num_rounds, 'round')}"
    )
    out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with _progress() as bar:
        runs = bar.add_task("runs", total=len(methods) * len(seeds))

        def show(method: str, seed: int, metric: str, value: float) -> None:
            say(f"seed {seed}  {method:12} {metric} {_shown(metric, value)}")
            bar.advance(runs)
            bar.refresh()

        result = compare.compare(setting, methods, seeds, jobs=jobs, on_done=show)
    (out / "comparison.json").write_text(compare.to_json(result), encoding="utf-8")
    (out / "comparison.md").write_text(compare.markdown(result), encoding="utf-8")
    console.print(compare.rich_table(result))
    say(f"time:    {time.perf_counter() - began:.1f} s")
    say(f"numbers: {out / 'comparison.json'}\ntable:   {out / 'comparison.md'}")
    try:
        plot(result, out / "comparison.png")
        say(f"plot:    {out / 'comparison.png'}")
    except ConfigError as error:
        say(f"no plot: {error}", style="yellow")
    return result


def _progress() -> AbstractContextManager[Progress]:
    """A live bar below the lines, on a terminal only; drawn by whoever prints the lines."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    disable = not console.is_terminal
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=disable,
        auto_refresh=False,
    )


def _line(config: RunConfig, record: ModelRecord, num_silos: int) -> str:
    width = len(str(config.num_rounds))
    parts = [f"round {record.model_index:{width}}/{config.num_rounds}"]
    first = sorted(record.metrics, key=lambda name: name != "accuracy")
    parts += [f"test {name} {_shown(name, record.metrics[name])}" for name in first]
    if made := record.made_by:
        parts.append(f"train loss {made.train_loss:.4f}")
        parts.append(f"{len(made.participants)} of {num_silos} silos")
    return "  ".join(parts)


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4f}"
