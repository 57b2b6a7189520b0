"""Histories drawn with matplotlib: one run, or several beside each other."""

import logging
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domo.errors import ConfigError
from domo.history.frames import EXTRA
from domo.history.styles import STYLES, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from domo.history.history import History

COLOUR = STYLES["FedAvgSLM"][0]
"""Of a run whose method has none."""


def pyplot_for_files() -> Any:
    """Matplotlib's pyplot for pictures in files, which needs no screen.

    Raises:
        ConfigError: matplotlib is not installed; says how to get it.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # that its cache has no home
    try:
        import matplotlib
    except ImportError:
        raise ConfigError('plots need matplotlib: pip install "domo-federated[sim]"') from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw_history(history: "History", metric: str | None, ax: "Axes | None", silos: bool) -> "Axes":
    """One number of one run over its rounds; see `History.plot`."""
    name, curve = history.column_of(metric), history.curve(metric)
    ax = _axes(ax)
    colour = STYLES.get(history.facts.method or "", (COLOUR, "-"))[0]
    if silos:
        for i, own in enumerate(_of_silos(history, name).values()):
            label = "_nolegend_" if i else "each silo"
            ax.plot(list(own), list(own.values()), color="0.6", linewidth=0.8, label=label)
    ax.plot(list(curve), list(curve.values()), color=colour, linewidth=2, label="all silos")
    _finish(ax, name)
    ax.set_title(_plain(history.facts.title), loc="left", fontsize=10)
    if silos:
        ax.legend(frameon=False, fontsize=8)
    return ax


def draw_many(
    runs: Mapping[str, Sequence["History"]], metric: str | None, ax: "Axes | None"
) -> "Axes":
    """One number of several runs: mean over seeds, and a band of one standard deviation."""
    first = next(iter(runs.values()))[0]
    name = first.column_of(metric)
    ax = _axes(ax)
    for label, (colour, dash) in styles_of(list(runs)).items():
        at, mean, std = mean_curve(runs[label], metric)
        if any(std):
            below = [a - b for a, b in zip(mean, std, strict=True)]
            above = [a + b for a, b in zip(mean, std, strict=True)]
            ax.fill_between(at, below, above, color=colour, alpha=0.12, linewidth=0)
        ax.plot(at, mean, color=colour, linestyle=dash, linewidth=1.8, label=_plain(label))
    _finish(ax, name)
    ax.legend(frameon=False, fontsize=8)
    return ax


def mean_curve(
    histories: Sequence["History"], metric: str | None
) -> tuple[list[int], list[float], list[float]]:
    """Mean and standard deviation over runs, at the models that all of them have."""
    curves = [history.curve(metric) for history in histories]
    at = [i for i in curves[0] if all(i in curve for curve in curves)]
    values = [[curve[i] for curve in curves] for i in at]
    std = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in values]
    return at, [statistics.fmean(v) for v in values], std


def _of_silos(history: "History", name: str) -> dict[str, dict[int, float]]:
    """The same column of each silo, where silos have it."""
    found: dict[str, dict[int, float]] = {}
    for row in history.silo_rows():
        if row.get(name) is not None:
            found.setdefault(row["silo_id"], {})[row["model_index"]] = row[name]
    return found


def _axes(given: "Axes | None") -> "Axes":
    """Where to draw: a figure of its own by default.

    Raises:
        ConfigError: matplotlib is not installed; says how to get it.
    """
    if given is not None:
        return given
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ConfigError(f"plots need matplotlib: {EXTRA}") from None
    axes: Axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")[1]
    return axes


def _finish(ax: Any, name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("rounds")
    words = name.replace("_", " ", 1) if name.startswith(("test_", "train_")) else name
    ax.set_ylabel(_plain(words))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")


def _plain(text: str) -> str:
    """A text in which matplotlib finds no formula: a `$` of a silo could make drawing fail."""
    return text.replace("$", r"\$")
