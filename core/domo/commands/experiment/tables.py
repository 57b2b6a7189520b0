"""Tables of a recipe: ours beside the printed numbers, for a terminal and in markdown."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table as RichTable
from rich.text import Text

from domo.experiments.claims import Verdict
from domo.experiments.recipe import SYMBOLS, Panel, Printed
from domo.experiments.results import Results, spread

NOTHING = "-"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Table:
    """Texts; a cell of `bold` is (row, column).

    Attributes:
        title: Above it.
        head: Names of columns.
        rows: Cells.
        bold: Those that are the best.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    bold: frozenset[tuple[int, int]] = frozenset()


def ours(r: Results, panel: str, row: str) -> str:
    """Mean and standard deviation over seeds; of fewer seeds, how many."""
    values = [100 * record.final() for record in r.done(panel, row)]
    if not values:
        return NOTHING
    bad = sum(not math.isfinite(value) for value in values)
    if bad:
        return "diverged" if bad == len(values) else f"diverged ({bad} of {len(values)})"
    text = f"{statistics.fmean(values):.2f}"
    if len(values) > 1:
        text += f" {PLUS_MINUS} {spread(values):.2f}"
    return text if len(values) == len(r.seeds) else f"{text} ({len(values)} of {len(r.seeds)})"


def printed(number: Printed | None) -> str:
    """What the paper has."""
    if number is None:
        return NOTHING
    if number.std is None:
        return f"{number.mean:.2f}"
    return f"{number.mean:.2f} {PLUS_MINUS} {number.std:.2f}"


def tables(r: Results) -> list[Table]:
    """One for methods, or one a panel for a grid."""
    if r.recipe.methods or r.recipe.variants:
        return [_methods(r)]
    made = []
    for panel in r.recipe.panels:
        grid = panel.grid or r.recipe.grid
        made.append((_matrix if len(grid) == 2 else _list)(r, panel))
    return made


def _best(r: Results, panel: str) -> str | None:
    """The best row of a panel, once all are done."""
    rows = [row.name for row in r.rows(panel)]
    if any(len(r.done(panel, row)) < len(r.seeds) for row in rows):
        return None
    return max(rows, key=lambda row: r.mean(panel, row))


def _methods(r: Results) -> Table:
    rows = [row.name for row in r.rows(r.recipe.panels[0].name)]
    head, columns, bold = ["method"], [rows], set()
    for panel in r.recipe.panels:
        best = _best(r, panel.name)
        bold |= {(i, len(head)) for i, m in enumerate(rows) if m == best}
        head.append(panel.name)
        columns.append([ours(r, panel.name, m) for m in rows])
        if panel.printed:
            head.append("printed")
            columns.append([printed(panel.printed.get(m)) for m in rows])
    return Table("test accuracy, %", head, list(zip(*columns, strict=True)), frozenset(bold))


def _list(r: Results, panel: Panel) -> Table:
    rows = r.rows(panel.name)
    best = _best(r, panel.name)
    lines = [
        (row.name, ours(r, panel.name, row.name), printed(panel.printed.get(row.name)))
        for row in rows
    ]
    bold = frozenset((i, 1) for i, row in enumerate(rows) if row.name == best)
    return Table(f"{panel.name}: test accuracy, %", ("", "ours", "printed"), lines, bold)


def _matrix(r: Results, panel: Panel) -> Table:
    (down, downs), (across, acrosses) = (panel.grid or r.recipe.grid).items()
    names = {tuple(row.at.values()): row.name for row in r.rows(panel.name)}
    best = _best(r, panel.name)
    lines, bold = [], set()
    for i, value in enumerate(downs):
        line = [f"{SYMBOLS[down]} = {value:g}"]
        for j, other in enumerate(acrosses):
            line.append(ours(r, panel.name, names[value, other]))
            bold |= {(i, j + 1)} if names[value, other] == best else set()
        lines.append(line)
    known = [f"{name}: {printed(number)}" for name, number in panel.printed.items()]
    title = f"{panel.name}: test accuracy, %" + "".join(f"; printed: {one}" for one in known)
    head = ("", *(f"{SYMBOLS[across]} = {value:g}" for value in acrosses))
    return Table(title, head, lines, frozenset(bold))


def claims_table(verdicts: Sequence[Verdict]) -> Table:
    """Each claim, what is printed, ours, and whether it holds."""
    rows = [
        (
            verdict.says,
            NOTHING if verdict.printed is None else f"{verdict.printed:+.2f}",
            verdict.found,
            verdict.word,
        )
        for verdict in verdicts
    ]
    return Table("what the paper says", ("claim", "printed", "here", ""), rows)


def in_markdown(table: Table) -> str:
    """As markdown, without the title; the best in bold."""
    texts = len(table.head) == 4 and table.head[0] == "claim"
    lines = [list(table.head), ["---", *["---" if texts else "---:"] * (len(table.head) - 1)]]
    for i, row in enumerate(table.rows):
        lines.append([f"**{c}**" if (i, j) in table.bold else c for j, c in enumerate(row)])
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def on_terminal(table: Table) -> RichTable:
    """As a terminal shows it."""
    made = RichTable(title=table.title, title_justify="left")
    for j, name in enumerate(table.head):
        made.add_column(name, justify="left" if j == 0 or table.head[0] == "claim" else "right")
    for i, row in enumerate(table.rows):
        cells = (Text(c, "bold" if (i, j) in table.bold else "") for j, c in enumerate(row))
        made.add_row(*cells)
    return made
