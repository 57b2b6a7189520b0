"""Tables, plots and claims of recipes, from whatever is done of them."""

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from domo.batched.how import AS_EXACT
from domo.commands.experiment.draw import draw
from domo.commands.experiment.files import write_files
from domo.commands.experiment.tables import claims_table, in_markdown, on_terminal, tables
from domo.errors import ConfigError
from domo.experiments.claims import Verdict, check_all
from domo.experiments.records import BATCHED, write_whole
from domo.experiments.results import Results
from domo.ops.console import console, say
from domo.ops.words import counted, duration

REPORT, PLOT = "report.md", "plot.png"


def report(r: Results, folder: Path, page: Path | None = None) -> list[Verdict]:
    """Show what is done of a recipe, and write it down.

    Args:
        r: Its numbers.
        folder: Where `report.md`, `plot.png` and the numbers go.
        page: A markdown file with a place for it, between `<!-- NAME -->` and `<!-- /NAME -->`;
            the plot goes beside it.

    Returns:
        What became of its claims.
    """
    verdicts = check_all(r)
    say(f"\n{r.recipe.name}, scale {r.scale}: {r.recipe.title}", style="bold")
    say(f"{r.recipe.paper}. {summary(r)}")
    for table in tables(r):
        console.print(on_terminal(table))
    if verdicts:
        console.print(on_terminal(claims_table(verdicts)))
        say(tally(verdicts))
    files = write_files(r, folder)
    plotted = bool(r.records) and _plot(r, folder / PLOT)
    write_whole(folder / REPORT, in_words(r, verdicts, PLOT if plotted else None))
    if page is not None:
        beside = page.with_name(f"{page.stem}-{r.recipe.name}.png")
        if plotted:
            shutil.copyfile(folder / PLOT, beside)
        put_into(page, r.recipe.name, in_words(r, verdicts, beside.name if plotted else None))
    say(f"report:  {folder / REPORT}" + (f"\nplot:    {folder / PLOT}" if plotted else ""))
    if files:
        say(f"numbers: {', '.join(str(path) for path in files)}")
    return verdicts


def _plot(r: Results, path: Path) -> bool:
    try:
        draw(r, path)
    except ConfigError as error:
        say(f"no plot: {error}", style="yellow")
        return False
    return True


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many claims hold."""
    found = Counter(verdict.word for verdict in verdicts)
    told = [f"{found[word]} {text}" for word, text in _WORDS.items() if found[word]]
    return f"of {counted(len(verdicts), 'claim')}: {', '.join(told)}"


_WORDS = {"holds": "hold", "does not hold": "do not hold", "not done": "not done yet"}


def summary(r: Results) -> str:
    """What is done, how long it took, and what computed it."""
    text = f"{len(r.records)} of {counted(len(r.cells), 'run')} done"
    records = r.records.values()
    if records:
        distinct = {id(record): record.cpu_seconds for record in records}
        how = ["+".join(dict.fromkeys(one.mode for one in records))]
        how += dict.fromkeys(one.device for one in records)
        how += dict.fromkeys(f"torch {one.versions['torch']}" for one in records)
        text += f" in {duration(sum(distinct.values()))} of one core ({', '.join(how)})"
        if any(one.mode == BATCHED for one in records):
            text += f"; {BATCHED}: {AS_EXACT}"
    return text + "."


def in_words(r: Results, verdicts: Sequence[Verdict], plot: str | None) -> str:
    """A recipe in markdown."""
    tasks = dict.fromkeys(cell.config.task for cell in r.cells)
    parts = [
        f"{r.recipe.title}. {r.recipe.paper}.",
        f"Here at scale {r.scale}: {', '.join(f'`{task}`' for task in tasks)}, "
        f"{counted(r.cells[0].config.expected_silos, 'silo')}, seeds "
        f"{', '.join(map(str, r.seeds))}; mean and standard deviation of the test accuracy of "
        f"x_R, per cent. {summary(r)}",
    ]
    parts += [r.recipe.notes] if r.recipe.notes else []
    for table in tables(r):
        parts += [f"{table.title}:", in_markdown(table).rstrip("\n")]
    if verdicts:
        parts += [f"What the paper says ({tally(verdicts)}):"]
        parts += [in_markdown(claims_table(verdicts)).rstrip("\n")]
    parts += [f"![{r.recipe.title}]({plot})"] if plot else []
    return "\n\n".join(parts) + "\n"


def put_into(page: Path, name: str, text: str) -> None:
    """Put a text into its place in a markdown file.

    Raises:
        ConfigError: The file is not there, or has no place for it.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    try:
        before = page.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--into {page}: {error.strerror}") from None
    head, found, rest = before.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ConfigError(f"--into {page}: it needs the lines {begin.strip()} and {end}")
    write_whole(page, f"{head}{begin}{text}{end}{tail}")
