"""Plots of a recipe, drawn as in the paper, from whatever is done of it."""

import math
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from domo.commands.experiment.tables import PLUS_MINUS
from domo.experiments.recipe import SYMBOLS, Panel
from domo.experiments.results import Results, spread
from domo.history.drawing import pyplot_for_files
from domo.history.styles import styles_of

OURS, THEIRS = "#D55E00", "#555555"
LETTERS = 13.5
"""Of a title, in an inch."""


def draw(r: Results, path: Path) -> None:
    """Draw a recipe as a PNG.

    Raises:
        ConfigError: matplotlib is not installed; says how to get it.
    """
    pyplot = pyplot_for_files()

    panels = r.recipe.panels
    down = 2 if r.recipe.drawn == "values" else 1
    size = (4.6 * len(panels) + 0.4, 3.9 * down + 0.5)
    if r.recipe.drawn == "rows":
        size = (7.0 * len(panels), 0.24 * len(r.rows(panels[0].name)) + 1.4)
    fig, axes = pyplot.subplots(
        down, len(panels), figsize=size, layout="constrained", squeeze=False
    )
    for i, panel in enumerate(panels):
        if r.recipe.drawn == "curves":
            _curves(r, panel, axes[0][i])
        elif r.recipe.drawn == "rows":
            _rows(r, panel, axes[0][i])
        elif r.recipe.drawn == "heatmap":
            _heat_map(r, panel, axes[0][i], fig)
        else:
            _values(r, panel, axes[0][i], axes[1][i])
    tasks = ", ".join(dict.fromkeys(cell.config.task for cell in r.cells))
    seeds = len(r.seeds)
    below = (
        f"{r.recipe.name}, scale {r.scale}: {tasks}, {r.cells[0].config.expected_silos} silos, "
        f"mean of {seeds} seeds {PLUS_MINUS} std; {len(r.records)} of {len(r.cells)} runs"
    )
    lines = [textwrap.fill(text, int(LETTERS * size[0])) for text in (r.recipe.title, below)]
    fig.suptitle("\n".join(lines), fontsize=10, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)
    pyplot.close(fig)


def _curves(r: Results, panel: Panel, ax: Any) -> None:
    """Test accuracy over passes over the data; the last numbers in the legend, as in the paper."""
    shown = list[list[float]]()
    rows = r.rows(panel.name)
    styles = styles_of([row.name for row in rows])
    for row in rows:
        done = [record for record in r.done(panel.name, row.name) if not record.failed]
        if not done:
            continue
        epochs = float(done[0].config.get("local_epochs") or 1.0)
        x = [index * epochs for index in done[0].model_indices]
        columns = list(zip(*(record.metrics["accuracy"] for record in done), strict=True))
        mean = [100 * statistics.fmean(c) for c in columns]
        std = [100 * spread(c) for c in columns]
        colour, dash = styles[row.name]
        low = [a - b for a, b in zip(mean, std, strict=True)]
        high = [a + b for a, b in zip(mean, std, strict=True)]
        ax.fill_between(x, low, high, color=colour, alpha=0.10, linewidth=0)
        label = f"{row.name} ({mean[-1]:.2f} {PLUS_MINUS} {std[-1]:.2f})"
        width = 2.2 if row.name in ("DOMO", "DOMO-S") else 1.4
        ax.plot(x, mean, color=colour, linestyle=dash, linewidth=width, label=label)
        shown.append(mean)
    if shown:
        later = [v for mean in shown for v in mean[math.ceil(len(mean) / 6) :]]
        margin = 0.05 * (max(later) - min(later)) or 0.5
        ax.set_ylim(min(later) - margin, max(later) + margin)  # without the steep start
        ax.legend(fontsize=7, loc="lower right")
    else:
        ax.text(0.5, 0.5, "nothing is done", ha="center", transform=ax.transAxes, color="0.5")
    ax.set_title(panel.name, fontsize=10)
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("test accuracy, %")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")


def _rows(r: Results, panel: Panel, ax: Any) -> None:
    """A dot for each row, the best on top, with its spread over the seeds; DOMO's in its colour."""
    done = {
        row.name: [100 * one.final() for one in r.done(panel.name, row.name)]
        for row in r.rows(panel.name)
    }
    good = {name: v for name, v in done.items() if v and all(map(math.isfinite, v))}
    names = sorted(good, key=lambda name: statistics.fmean(good[name]))
    for at, name in enumerate(names):
        mean, std = statistics.fmean(good[name]), spread(good[name])
        colour = OURS if name.startswith("DOMO") else THEIRS
        ax.errorbar(mean, at, xerr=std, color=colour, marker="o", capsize=3, markersize=4)
        text = f"{mean:.2f} {PLUS_MINUS} {std:.2f}"
        ax.annotate(text, (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize=7)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.set_xlabel("test accuracy, %")
    ax.set_title(panel.name, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="0.92")


def _means(r: Results, panel: Panel) -> dict[str, float]:
    """Row to mean over the seeds that are done; NaN where none is, or one diverged."""
    means = {}
    for row in r.rows(panel.name):
        values = [100 * record.final() for record in r.done(panel.name, row.name)]
        good = values and all(map(math.isfinite, values))
        means[row.name] = statistics.fmean(values) if good else math.nan
    return means


def _heat_map(r: Results, panel: Panel, ax: Any, fig: Any) -> None:
    """A grid of two constants; the best is framed, what diverged or is not done is empty."""
    (down, downs), (across, acrosses) = (panel.grid or r.recipe.grid).items()
    means = _means(r, panel)
    at = {tuple(row.at.values()): row.name for row in r.rows(panel.name)}
    values = [[means[at[a, b]] for b in acrosses] for a in reversed(downs)]
    known = sorted(v for line in values for v in line if math.isfinite(v))
    # the colours are for the cells worth comparing: the lowest tenth shares one
    low = known[len(known) // 10] if known else 0.0
    image = ax.imshow(values, cmap="viridis", aspect="auto", vmin=low, vmax=max(known, default=1.0))
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            name = at[list(reversed(downs))[i], acrosses[j]]
            text = f"{value:.1f}"
            if not math.isfinite(value):
                text = "div." if r.done(panel.name, name) else "-"
            bright = math.isfinite(value) and known and value > (low + known[-1]) / 2
            colour = "black" if bright or not math.isfinite(value) else "white"
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color=colour)
            if known and value == known[-1]:
                ax.add_patch(_frame(j, i))
    ax.set_xticks(range(len(acrosses)), [f"{v:g}" for v in acrosses])
    ax.set_yticks(range(len(downs)), [f"{v:g}" for v in reversed(downs)])
    ax.set_xlabel(SYMBOLS[across])
    ax.set_ylabel(SYMBOLS[down])
    ax.set_title(f"{panel.name}: test accuracy, %", fontsize=10)
    fig.colorbar(image, ax=ax, fraction=0.05)


def _frame(column: int, line: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, line - 0.5), 1, 1, fill=False, edgecolor=OURS, linewidth=2.5)


def _values(r: Results, panel: Panel, ours: Any, theirs: Any) -> None:
    """Accuracy over one constant: ours above, what is printed below, each on its own scale."""
    rows = r.rows(panel.name)
    (key,) = panel.grid or r.recipe.grid
    done = {row.name: [100 * one.final() for one in r.done(panel.name, row.name)] for row in rows}
    good = [row for row in rows if done[row.name] and all(map(math.isfinite, done[row.name]))]
    means = [statistics.fmean(done[row.name]) for row in good]
    _errors(ours, [r.at[key] for r in good], means, [spread(done[r.name]) for r in good], OURS)
    ours.set_title(f"{panel.name}: here", fontsize=10)
    told = [(row.at[key], panel.printed[row.name]) for row in rows if row.name in panel.printed]
    stds = [number.std or 0.0 for _, number in told]
    _errors(theirs, [at for at, _ in told], [number.mean for _, number in told], stds, THEIRS)
    theirs.set_title(f"{panel.name}: printed", fontsize=10)
    theirs.set_xlabel(SYMBOLS[key])


def _errors(
    ax: Any, x: Sequence[float], mean: Sequence[float], std: Sequence[float], colour: str
) -> None:
    if x:
        ax.errorbar(x, mean, std, color=colour, marker="o", capsize=3, linewidth=1.6)
    ax.set_ylabel("test accuracy, %")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")
