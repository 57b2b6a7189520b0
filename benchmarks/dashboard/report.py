"""Figures, as they are kept and shown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """The spread of one measured thing."""

    what: str
    num: int
    median: float
    p95: float
    most: float
    unit: str


def figures_of(values: Mapping[str, Sequence[float]], unit: str) -> list[Figure]:
    """One for each thing that was measured at least once."""
    rows = []
    for what, some in values.items():
        if some:
            middle, high = median(some), float(np.percentile(some, 95))
            figures = round(middle, 1), round(high, 1), round(max(some), 1)
            rows.append(Figure(what, len(some), *figures, unit))
    return rows


def table(rows: Iterable[Any]) -> str:
    """Markdown of dataclasses of one kind; empty without any."""
    body = [asdict(row) for row in rows]
    if not body:
        return ""
    lines = [f"| {' | '.join(body[0])} |", "|---" * len(body[0]) + "|"]
    lines += [f"| {' | '.join(map(str, row.values()))} |" for row in body]
    return "\n".join(lines) + "\n"


def keep(folder: Path, name: str, rows: Sequence[Any]) -> None:
    """Write NAME.json and NAME.md, in place of those of an earlier look."""
    (folder / f"{name}.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    (folder / f"{name}.md").write_text(table(rows))


def slope(values: Sequence[float], at: Sequence[float]) -> float:
    """Of a line through values; 0 with fewer than two of them, or all at one place."""
    return float(np.polyfit(at, values, 1)[0]) if len(set(at)) > 1 else 0.0
