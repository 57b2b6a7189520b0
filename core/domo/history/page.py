"""A history as a small piece of HTML for a notebook: facts, the curve, some rows.

Names and texts come from silos and coordinators: every one of them is escaped. The picture is SVG
of numbers alone, in the colour of the text around it, so that it is seen on dark pages too.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domo.metrics.names import main_names
from domo.names import one_line

if TYPE_CHECKING:
    from domo.history.history import History

MOST_ROWS = 9
"""Of the table: the first, the last, and some between."""
WIDTH, HEIGHT, EDGE = 240, 48, 3
"""Of the picture, in CSS pixels."""


def page_of(history: History) -> str:
    """The facts of a run, its curve and some of its rows."""
    facts, metric = history.facts, history.default_metric
    rows = history.round_rows()
    curve = history.curve()
    told = [
        ("method", facts.method),
        ("task", facts.task),
        ("silos", facts.num_silos),
        ("rounds", f"{len(history.rounds)} of {facts.num_rounds or len(history.rounds)}"),
        ("seed", facts.seed),
        ("mode", facts.mode),
        ("state", facts.state),
        ("", facts.detail),
        (f"best {facts.primary_metric}", _best(history)),
        ("digest", facts.digest),
    ]
    words = "; ".join(f"{k} {v}".strip() for k, v in told if v not in (None, ""))
    head = f"<b>{escaped(facts.title)}</b><br><small>{escaped(words)}</small>"
    caption = f"<small>{escaped(metric)}: {_span(curve)}</small>"
    return f"<div>{head}<br>{sparkline(curve)} {caption}{_table(history, rows)}</div>"


def _best(history: History) -> str | None:
    facts = history.facts
    if facts.best_index is None or facts.best_value is None:
        return None
    return f"{number(facts.best_value)} (x_{facts.best_index})"


def _table(history: History, rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns that have something in them, of single classes none; rows spread over the run."""
    tests = {f"test_{name}" for name in main_names(history.metrics, history.facts.primary_metric)}
    there = {name for row in rows for name in row}
    shown = {
        name: column
        for name, column in history.columns.items()
        if name in there and (name in tests or not name.startswith("test_"))
    }
    head = [(name, str(column)) for name, column in shown.items()]
    return table(head, [[row.get(name) for name in shown] for row in spread(rows)])


def spread(rows: Sequence[Any], most: int = MOST_ROWS) -> list[Any]:
    """At most so many of these: the first, the last, and evenly between."""
    if len(rows) <= most:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (most - 1))] for i in range(most)]


def table(head: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table.

    Args:
        head: Of each column its name and its meaning, which is shown when one points at it.
        rows: Cells: numbers, texts, or None. One that is `Raw` is HTML already.
    """
    top = "".join(f'<th title="{escaped(meaning)}">{escaped(name)}</th>' for name, meaning in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


class Raw(str):
    """HTML that was made here, of numbers alone."""

    __slots__ = ()


def _cell(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if value is None:
        return ""
    if isinstance(value, float):
        return escaped(number(value))
    return escaped(str(value))


def number(value: float) -> str:
    """A number in few digits."""
    return f"{value:.4g}"


def escaped(text: str) -> str:
    """A text that is nothing but a text in HTML, in attributes too, and one line."""
    return html.escape(one_line(text), quote=True)


def sparkline(curve: Mapping[int, float]) -> Raw:
    """A curve as inline SVG: i to the right, the value up. What is not finite is left out."""
    points = spread([(i, v) for i, v in curve.items() if math.isfinite(v)], WIDTH)
    if len(points) < 2:
        return Raw("")
    xs, ys = [float(i) for i, _ in points], [v for _, v in points]
    wide, high = max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0
    at = " ".join(
        f"{EDGE + (x - min(xs)) / wide * (WIDTH - 2 * EDGE):.1f},"
        f"{HEIGHT - EDGE - (y - min(ys)) / high * (HEIGHT - 2 * EDGE):.1f}"
        for x, y in zip(xs, ys, strict=True)
    )
    return Raw(
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<polyline points="{at}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _span(curve: Mapping[int, float]) -> str:
    """From where to where it goes."""
    if not curve:
        return "no numbers yet"
    ends = [*curve.items()]
    return " to ".join(f"{number(v)} (x_{i})" for i, v in (ends[0], ends[-1]))
