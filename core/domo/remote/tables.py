"""Tables for a terminal or a pipe, and what runs and silos are like in a cell."""

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from domo.api.answers import MOST_TIME
from domo.api.schema import (
    RunSummary,
    SiloStatus,
)
from domo.names import one_line
from domo.ops.console import console

MOST_BROKEN = 24
"""Characters in the first column of what has spaces: as many as it has columns."""
NARROW = 72
"""Below so many columns a table has only those that matter most."""
PIPE_WIDTH = 200
"""Columns where nobody's terminal says how many there are."""
STATE_STYLES = {"FAILED": "red", "STOPPED": "yellow", "PAUSED": "yellow", "FINISHED": "green"}


def silo_table(silos: Iterable[SiloStatus], width: int) -> Table:
    """Silos and what they do, as wide as there is room."""
    wide = width >= NARROW
    columns = ("seen", "what") if wide else ()
    table = make_table("silo", "phase", "step", *columns, width=width)
    for silo in silos:
        steps = f"{silo.step} of {silo.num_steps}" if silo.num_steps else ""
        ago = "" if silo.last_seen_s is None else f"{silo.last_seen_s:.0f} s ago"
        loads = silo.phase == "idle" and silo.doing
        phase = "preparing" if loads else str(silo.phase)
        phase = phase if silo.dropped is None else f"dropped, {phase}"
        bad = silo.dropped is not None or silo.phase in ("failed", "offline")
        parts = [text for text in (silo.dropped, silo.error, silo.doing, rate(silo)) if text]
        what = " ".join(" / ".join(parts).split())
        shown = Text(phase, style="yellow" if bad else "")
        add_row(table, silo.silo_id, shown, steps, *((ago, what) if wide else ()))
    return table


def rate(silo: SiloStatus) -> str:
    """What a silo that moves bytes moves in a second; empty: nothing."""
    from domo.ops.folder_checks import human_size

    moving = {"downloading": silo.received_per_s, "uploading": silo.sent_per_s}.get(silo.phase)
    return f"{human_size(int(moving))}/s" if moving else ""


def stalled(run: RunSummary) -> str:
    """Why a run does not get on; empty: it does, or the coordinator does not say."""
    return f"stalled: {run.stalled}" if run.stalled else ""


def state_text(run: RunSummary) -> Text:
    """A run's state with its colour."""
    return Text(run.state.lower(), style=STATE_STYLES.get(run.state, ""))


def percent(share: float | None) -> str:
    """A share in percent."""
    return "" if share is None else f"{100 * share:.1f} %"


def measured(name: str | None, value: float | None) -> str:
    """A number of a metric: an accuracy in percent, others in four digits."""
    return percent(value) if name == "accuracy" else number(value)


def best_of(run: RunSummary) -> str:
    """The best model's number and which model it is; empty: none was judged."""
    if run.best_index is None:
        return ""
    return f"{measured(run.primary_metric, run.best_value)} (x_{run.best_index})"


def number(value: float | None) -> str:
    """A number in four digits."""
    return "" if value is None else f"{value:.4g}"


def setting(value: Any) -> str:
    """A setting in words."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(setting, value)) or "none"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def local_time(text: str | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """An ISO 8601 time by this machine's clock; what is none stays as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone():{form}}" if text else ""
    except (ValueError, OverflowError):
        return one_line(text or "", MOST_TIME)


def make_table(first: str, *columns: str, width: int | None = None) -> Table:
    """A table that gives names a third of the width, or 24 columns."""
    table = Table(box=None)
    table.add_column(first, overflow="fold", min_width=min(24, (width or terminal_width()) // 3))
    for column in columns:
        table.add_column(one_line(column, None), overflow="fold")
    return table


def add_row(table: Table, first: str, *cells: str | Text) -> None:
    """A row of texts as they are: no markup, and nothing that a terminal would obey.

    The first is a name, which may be broken: what is none must not begin a line of its own.
    """
    name = one_line(first, None if re.fullmatch(r"\S{1,200}", first) else MOST_BROKEN)
    table.add_row(
        Text(name), *(Text(one_line(c, None)) if isinstance(c, str) else c for c in cells)
    )


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; where there is none, no cell is broken."""
    if console.is_terminal:
        console.print(table)
    else:
        Console(file=console.file, width=terminal_width(), emoji=False).print(table)


def terminal_width() -> int:
    """Columns of the terminal, or those that a pipe gets."""
    return console.width if console.is_terminal else max(console.width, PIPE_WIDTH)
