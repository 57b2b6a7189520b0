"""One cell, and many of them over processes; results come as they are done."""

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from domo.batched.how import How, Mode
from domo.commands import interrupted
from domo.errors import ConfigError, DivergenceError
from domo.experiments.recipe import Cell
from domo.experiments.records import AUTO, EXACT, Record, record_name
from domo.ops.command_app import version
from domo.simulated import SimulationResult
from domo.simulating.state import Held, ModelRecord
from domo.simulation import simulate
from domo.sweeps.cells import Setting, run_cells
from domo.sweeps.engines import processes

KEEP_S = 60.0
"""How often a long run leaves what it takes to go on: so much work a kill costs at most."""


@dataclass(frozen=True, slots=True)
class Job:
    """What it takes to run a cell, in whichever process.

    Attributes:
        cell: Which.
        setting: Its run, data and device.
        store: Folder of records; where it is there, a long run keeps what it has in it.
        mode: How it is computed; `auto`: whichever is quicker, and its record says which.
    """

    cell: Cell
    setting: Setting
    store: Path
    mode: Mode = EXACT

    @property
    def title(self) -> str:
        """As in tables."""
        return self.cell.key

    def run(self) -> Record:
        """The cell, in this process; see `run_cell`."""
        return run_cell(self)


def run_cell(job: Job, on_model: Callable[[ModelRecord], None] | None = None) -> Record:
    """Run a cell, or go on with it where a kill has left it.

    A run that diverges is a result: with the same settings it would diverge again.

    Raises:
        ConfigError: The task tests nothing, or has no accuracy.
    """
    config = job.setting.config
    task, silos = job.setting.load()
    samples = {s.silo_id: len(s.train) for s in silos if s.train is not None}
    place = job.store / f"{record_name(config, job.mode)}.held"
    held = _held(place, job, samples)
    mode = held.mode if held and job.mode == AUTO else job.mode
    began = kept = time.perf_counter()
    before = time.process_time()

    def keep(now: Held, _: SimulationResult) -> None:
        nonlocal kept, mode
        mode = now.mode
        if time.perf_counter() - kept > KEEP_S and job.store.is_dir():
            interrupted.save_held(place, now, config, samples)
            kept = time.perf_counter()

    failed, history = "", list[ModelRecord]()
    try:
        result = simulate(
            config,
            task,
            silos,
            device=job.setting.device,
            on_model=on_model,
            on_round=keep,
            begin=held,
            how=How(job.mode),
        )
        history, mode = result.history, result.mode
    except DivergenceError as error:
        if mode == AUTO:  # in the first round: nobody knows yet how it was computed
            return run_cell(replace(job, mode=EXACT), on_model)
        failed = str(error)
    whole = 1.0
    if held and not failed:  # as if all rounds had been as fast as those since
        whole = config.num_rounds / max(1, config.num_rounds - len(held.history))
    seconds = whole * (time.perf_counter() - began)
    cpu_seconds = whole * (time.process_time() - before)
    place.unlink(missing_ok=True)
    tested = [r for r in history if r.metrics]
    if not failed and not (tested and all("accuracy" in r.metrics for r in tested)):
        raise ConfigError(f"{job.cell.key}: {config.task} tests no accuracy, so there is no number")
    names = tested[-1].metrics if tested else {}
    rounds = [r.made_by for r in history if r.made_by]
    return Record(
        config=config.model_dump(mode="json"),
        mode=mode,
        device=job.setting.device,
        versions={"domo": version(), "torch": str(torch.__version__)},
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        steps=sum(sum(one.steps) for one in rounds),
        model_indices=[r.model_index for r in tested],
        metrics={n: [r.metrics[n] for r in tested] for n in names if n in tested[0].metrics},
        train_loss=[one.train_loss for one in rounds],
        failed=failed,
    )


def _held(place: Path, job: Job, samples: dict[str, int]) -> Held | None:
    """What a kill has left; what cannot be read is run again from the start."""
    with suppress(ConfigError):
        return interrupted.load_held(place, job.setting.config, samples)
    return None


def run_all(
    todo: Sequence[Job],
    jobs: int = 1,
    executor: Executor | None = None,
    on_model: Callable[[Job, ModelRecord], None] | None = None,
) -> Generator[tuple[Job, Record], None, None]:
    """Run cells, and hand out each as it is done.

    A cell whose process was killed is done again.

    Args:
        todo: In the order in which they begin.
        jobs: Processes; 1: this one.
        executor: What executes them instead; its workers have domo and the data.
        on_model: Called with each model that is tested; in this process only.

    Raises:
        TransportError: The processes of a cell are lost again and again.
    """
    if executor is None and jobs <= 1:
        for job in todo:
            told = (lambda record, job=job: on_model(job, record)) if on_model else None
            yield job, run_cell(job, told)
        return
    if executor is not None:
        made = run_cells(todo, lambda: nullcontext(executor))
    else:
        made = run_cells(todo, partial(processes, jobs), at_once=jobs)
    for i, record in made:
        yield todo[i], record
