"""What `domo experiment run` and `list` do."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from domo.batched.how import Mode
from domo.commands.experiment.cells import Job, run_all
from domo.commands.experiment.report import report
from domo.errors import TransportError
from domo.experiments.cost import rates, time_left
from domo.experiments.recipe import ORDER, Cell, Recipe, Scale, load_recipes
from domo.experiments.records import CELLS, EXACT, Record, begin, record_name, save_record
from domo.experiments.results import Results, load_results
from domo.ops.console import complain, console, say
from domo.ops.words import counted, duration, typed
from domo.simulating.state import ModelRecord
from domo.stages.stopping import stops
from domo.storage.home import make_results_folder
from domo.sweeps.cells import Setting
from domo.sweeps.engines import elsewhere

OUT = Path("runs/experiments")


@dataclass(frozen=True)
class Wanted:
    """What all of `run`, `report` and `list` are asked for.

    Attributes:
        names: Of recipes.
        scale: Which settings.
        out: Where all results lie, those of each scale in a folder of its own.
        seeds: In place of the recipes'; empty: theirs.
        typed: Settings that win over the recipes'.
        mode: How runs are computed.
    """

    names: Sequence[str]
    scale: Scale = "small"
    out: Path = OUT
    seeds: Sequence[int] = ()
    typed: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = EXACT

    @property
    def store(self) -> Path:
        """Folder of the records of all recipes."""
        return self.out / self.scale / CELLS

    def folder(self, recipe: Recipe) -> Path:
        """Of a recipe's tables and plots."""
        return self.out / self.scale / recipe.name

    def recipes(self) -> list[Recipe]:
        """In the order asked for."""
        return load_recipes(self.names)

    def results(self, recipe: Recipe) -> Results:
        """What is done of one."""
        cells = recipe.cells(self.scale, self.seeds, self.typed)
        return load_results(recipe, self.scale, cells, self.store, self.mode)

    def command(self, verb: str, names: Sequence[str] = (), **more: str | None) -> str:
        """What somebody types to go on."""
        flags: dict[str, str | Path | None] = {
            "scale": None if self.scale == "small" else self.scale,
            "out": None if self.out == OUT else self.out,
            "seeds": ",".join(map(str, self.seeds)) or None,
            "mode": None if self.mode == EXACT else self.mode,
        }
        text = typed("domo", "experiment", verb, *(names or self.names), **flags, **more)
        return " ".join([text, *(typed("--set", f"{k}={v}") for k, v in self.typed.items())])


def run(
    wanted: Wanted,
    data: Path,
    device: str = "cpu",
    jobs: int = 1,
    on: str | None = None,
    most: int | None = None,
    afresh: bool = False,
) -> list[Results]:
    """Run what is not done yet of some recipes, and report on each.

    Args:
        wanted: What is to be run.
        data: Folder of the tasks' data.
        device: Where silos compute.
        jobs: Processes; any number gives the same numbers.
        on: Where runs are computed instead: see `domo.sweeps.engines.elsewhere`.
        most: Runs after which to stop.
        afresh: Go on with other settings than those that a recipe was begun with.

    Raises:
        ConfigError: A recipe was begun with other settings; or one is wrong.
    """
    recipes = wanted.recipes()
    make_results_folder(wanted.store)
    for recipe in recipes:  # what is refused is refused before hours of work
        cells = recipe.cells(wanted.scale, wanted.seeds, wanted.typed)
        make_results_folder(wanted.folder(recipe))
        begin(wanted.folder(recipe), cells, wanted.mode, afresh)
    found, again = [], wanted.command("run", jobs=None if jobs == 1 else str(jobs), on=on)
    left = most
    for recipe in recipes:
        before = wanted.results(recipe)
        todo = missing(before)
        asked = todo if left is None else todo[:left]
        left = None if left is None else left - len(asked)
        say(
            f"{recipe.name}, scale {wanted.scale}: {counted(len(before.cells), 'run')}, "
            f"{counted(len(todo), 'run')} to do" + ("" if asked == todo else f", {len(asked)} now")
        )
        _run_cells(wanted, before, asked, data, device, jobs, on, again)
        found.append(wanted.results(recipe))
        report(found[-1], wanted.folder(recipe))
    if any(missing(one) for one in found):
        say(f"next:    {again}")
    else:
        rest = [n for n in ORDER if n not in {one.recipe.name for one in found}]
        open_ones = [
            n for n in rest if missing(replace(wanted, names=[n]).results(*load_recipes([n])))
        ]
        verb, names = ("run", open_ones[:1]) if open_ones else ("report", ["all"])
        say(f"next:    {wanted.command(verb, names)}")
    return found


def missing(r: Results) -> list[Cell]:
    """The runs that are not done, each once, however many rows share it."""
    left: dict[str, Cell] = {}
    for cell in r.cells:
        if (cell.panel, cell.row, cell.seed) not in r.records:
            left.setdefault(cell.config.digest, cell)
    return list(left.values())


def _run_cells(
    wanted: Wanted,
    before: Results,
    todo: Sequence[Cell],
    data: Path,
    device: str,
    jobs: int,
    on: str | None,
    again: str,
) -> None:
    records = list(before.records.values())
    waiting = {cell.key: cell for cell in todo}
    work = [
        Job(cell, Setting(cell.config, data, device=device), wanted.store, wanted.mode)
        for cell in todo
    ]

    def told() -> str:
        seconds = None if on else time_left(list(waiting.values()), rates(records), jobs)
        return "" if seconds is None else f"about {duration(seconds)} left"

    threads = max((cell.config.threads for cell in todo), default=1)
    place = nullcontext() if on is None else elsewhere(on, wanted.store.parent / "jobs", threads)
    with _progress() as bar, place as executor:
        runs = bar.add_task("runs", total=len(todo), left=told())
        rounds = bar.add_task("rounds", total=1, left="", visible=jobs == 1 and on is None)

        def show(job: Job, record: ModelRecord) -> None:
            total = job.cell.config.num_rounds
            done = record.model_index
            bar.update(rounds, completed=done, total=total, left=job.cell.key, refresh=True)

        try:
            made = run_all(work, jobs, executor, show)
            with stops(complain, hangs_up=True), closing(made) as found:
                for job, record in found:
                    save_record(wanted.store, job.cell.config, record)
                    records.append(record)
                    del waiting[job.cell.key]
                    left = told()
                    say(f"{_line(job, record)}{f', {left}' if waiting else ''}")
                    bar.update(runs, advance=1, left=left, refresh=True)
        except (KeyboardInterrupt, SystemExit, TransportError):
            done = len(todo) - len(waiting)
            say(f"stopped: {done} of {counted(len(todo), 'run')} done, kept in {wanted.store}")
            say(f"next:    {again}")
            raise


def _line(job: Job, record: Record) -> str:
    number = record.failed or f"accuracy {100 * record.final():.2f} %"
    mode = "" if record.mode == EXACT else f"  {record.mode}"
    return f"{job.cell.key:44} {number}  {record.seconds:.1f} s{mode}"


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
        auto_refresh=False,
    )


def show_list(wanted: Wanted) -> None:
    """Names, what they are of the paper, how many runs are done, and how long the rest takes."""
    table = Table()
    for name in ("recipe", "of the paper", "runs done", "time left"):
        table.add_column(name, no_wrap=name in ("recipe", "runs done"))
    results = [wanted.results(recipe) for recipe in wanted.recipes()]
    distinct = {
        record_name(c.config, EXACT): r.records[c.panel, c.row, c.seed]
        for r in results
        for c in r.cells
        if (c.panel, c.row, c.seed) in r.records
    }
    known = rates(distinct.values())
    total: float | None = 0.0
    for r in results:
        todo = missing(r)
        seconds = time_left(todo, known)
        total = None if total is None or seconds is None else total + seconds
        left = "not known before a run is done" if seconds is None else duration(seconds)
        table.add_row(
            r.recipe.name,
            r.recipe.paper,
            f"{len(r.records)} of {len(r.cells)}",
            left if todo else "",
        )
    console.print(table)
    if total:
        say(f"about {duration(total)} in all, with one process")
    first = next((r.recipe.name for r in results if missing(r)), None)
    say(
        f"next:    {wanted.command('run', [first]) if first else wanted.command('report', ['all'])}"
    )
