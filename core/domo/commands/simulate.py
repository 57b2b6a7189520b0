"""What `domo simulate` does: one run, or a comparison of methods."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import domo
from domo.batched.how import AS_EXACT, EXACT, How
from domo.commands import interrupted
from domo.commands.export import BEST
from domo.errors import DISK_FULL, DivergenceError, DomoError, code_of
from domo.metrics.names import main_names, primary_of
from domo.model.card import CardPoint, CardSilo, ModelCard, metadata_of, of_config
from domo.model.flat import digest
from domo.model.model_file import save_model
from domo.ops.console import complain, console, in_words, say
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.simulated import SimulationResult
from domo.simulating.state import Held, ModelRecord
from domo.simulating.visit import SimulatedSilo
from domo.simulation import simulate
from domo.stages.stopping import stops
from domo.stages.watch import watched
from domo.storage.home import make_results_folder
from domo.sweeps.cells import Setting
from domo.tasks.base import Task
from domo.training.falling_apart import CurvePoint, advice, falls, point

DISK_S = 2.0
"""Pause between attempts to write to a full disk."""


def run_single(
    setting: Setting, out: Path, side_by_side: str, again: str = "", resume: bool = False
) -> SimulationResult:
    """One run, a line for each round; leaves the model and its history in `out`.

    Args:
        setting: The run.
        out: Folder for what is made.
        side_by_side: The command that compares methods on the same task and data.
        again: The command that goes on with the run, should it be interrupted.
        resume: Go on with the one that was interrupted in `out`.
    """
    config = setting.config
    say(
        f"{config.title}: {config.method} on {config.task}, "
        f"{counted(config.expected_silos, 'silo')}, similarity {100 * config.similarity:g} %, "
        f"{counted(config.num_rounds, 'round')}, seed {config.seed}"
    )
    task, silos = setting.load()
    how = replace(setting.how, measure=True)
    where = setting.device, out, None, again, resume, setting.processes, how
    result = run_and_keep(config, task, silos, *where)
    say(f"next:    {side_by_side}    # the paper's eight methods side by side")
    return result


def run_and_keep(
    config: RunConfig,
    task: Task,
    silos: Sequence[SimulatedSilo],
    device: str,
    out: Path,
    participants: Sequence[Sequence[str]] | None = None,
    again: str = "",
    resume: bool = False,
    processes: int | None = None,
    how: How = EXACT,
) -> SimulationResult:
    """Run a simulation, a line for each round, and leave its model and history in `out`.

    Ctrl-C, and what fails in a later round, leave those of the rounds that are done, and what it
    takes to go on.

    Args:
        config: The run.
        task: What is trained.
        silos: All silos.
        device: Where silos compute.
        out: Folder; made if need be.
        participants: The silos of each round, where they are recorded.
        again: The command that goes on; empty: it cannot be gone on with.
        resume: Go on with what was interrupted in `out`.
        processes: Of the silos; None: as many as pay.
        how: Exact, or with the layers of all silos in one call.

    Raises:
        ConfigError: Nothing was interrupted there, or it was another run.
    """
    make_results_folder(out)
    began = time.perf_counter()
    curve: list[CurvePoint] = []
    samples = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    place = out / interrupted.FILE
    begin = interrupted.load_held(place, config, samples) if resume else None
    for record in begin.history if begin else ():
        _fall(config, curve, record)
    newest: list[tuple[Held, SimulationResult]] = []
    with progress() as bar:
        rounds = bar.add_task("rounds", total=len(participants or ()) or config.num_rounds)

        def show(record: ModelRecord) -> None:
            say(_line(config, record, len(silos)))
            if told := _fall(config, curve, record):
                say(told, style="yellow")
            bar.update(rounds, completed=record.model_index, refresh=True)

        try:
            with stops(complain, hangs_up=True), watched(complain):
                result = simulate(
                    config,
                    task,
                    silos,
                    device=device,
                    on_model=show,
                    participants=participants,
                    on_round=lambda held, so_far: newest.__setitem__(slice(None), [(held, so_far)]),
                    begin=begin,
                    processes=processes,
                    tell=say,
                    how=how,
                )
        except (KeyboardInterrupt, SystemExit, DomoError) as error:
            if newest and again:
                held, so_far = newest[0]
                interrupted.save_held(place, held, config, samples)
                _write(out, config, so_far, {"interrupted": True})
                say(
                    f"stopped after {counted(len(held.history), 'round')} of {config.num_rounds}: "
                    f"the model and its history so far are in {out}"
                )
                if not isinstance(error, DivergenceError):  # it would come again
                    say(f"next:    {again}")
            elif begin is not None:
                say(f"stopped before another round was done\nnext:    {again}")
            raise
    seconds = time.perf_counter() - began

    about = metadata_of(_card(config, result, silos), config)
    best = metadata_of(_card(config, result, silos, best=True), config) if result.best else {}
    _once_there_is_room(
        lambda: _write(out, config, result, {"seconds": round(seconds, 3)}, about, best)
    )
    place.unlink(missing_ok=True)

    table = Table(show_header=False)
    last = result.history[-1].metrics
    for name in main_names(last, result.primary_metric):
        table.add_row(f"test {name}", shown(name, last[name]))
    if result.best_index is not None:
        best_value = shown(str(result.primary_metric), result.best_value or 0.0)
        table.add_row("best", f"{result.primary_metric} {best_value} (x_{result.best_index})")
    steps = sum(sum(r.made_by.steps) for r in result.history if r.made_by)
    table.add_row("time", f"{seconds:.1f} s for {steps} local steps and the tests")
    if result.mode != "exact":
        table.add_row("mode", f"{result.mode}: {AS_EXACT}")
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


def _once_there_is_room(write: Callable[[], None]) -> None:
    """Write the results of what may have taken hours: a full disk is waited out."""
    told = False
    while True:
        try:
            return write()
        except OSError as error:
            if code_of(error) != DISK_FULL:
                raise
            if not told:
                complain(f"{in_words(error)}; the results wait for it, and Ctrl-C gives them up")
            told = True
            time.sleep(DISK_S)


def _write(
    out: Path,
    config: RunConfig,
    result: SimulationResult,
    more: Mapping[str, Any],
    about: Mapping[str, str] | None = None,
    about_best: Mapping[str, str] | None = None,
) -> None:
    """The model, the best one where that is another, and the history; with their cards."""
    metadata = {"run": config.title, "config_digest": config.digest}
    of_model = {**metadata, **(about or {})}
    save_model(out / "model.safetensors", result.layout, result.vectors, of_model)
    if result.best is not None and result.best_digest != result.checkpoint_digest:
        of_best = {**metadata, **(about_best or {})}
        save_model(out / BEST, result.layout, result.best_vectors, of_best)
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
        "mode": result.mode,
        **more,
        "history": [asdict(r) for r in result.history],
    }
    (out / "history.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


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


def progress() -> AbstractContextManager[Progress]:
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


def _fall(config: RunConfig, curve: list[CurvePoint], record: ModelRecord) -> str:
    """Put a model on the curve; says that the run falls apart, where this one makes it certain."""
    name = primary_of(record.metrics, config.primary_metric)
    loss = record.made_by.train_loss if record.made_by else None
    curve.append(point(record.model_index, record.metrics, name, loss))
    found = falls(curve, name or "loss", config.better_of(name or "loss") or "higher")
    if not found or found[-1].model_index != record.model_index:
        return ""
    return f"it falls apart: {found[-1].sign}. {advice(config, found[-1].best, is_kept=True)}"


def _line(config: RunConfig, record: ModelRecord, num_silos: int) -> str:
    width = len(str(config.num_rounds))
    parts = [f"round {record.model_index:{width}}/{config.num_rounds}"]
    names = main_names(record.metrics, config.primary_metric)
    parts += [f"test {name} {shown(name, record.metrics[name])}" for name in names]
    if made := record.made_by:
        parts.append(f"train loss {made.train_loss:.4f}")
        parts.append(f"{len(made.participants)} of {num_silos} silos")
    return "  ".join(parts)


def shown(name: str, value: float) -> str:
    """A number as people read it: accuracy in per cent."""
    return f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4f}"
