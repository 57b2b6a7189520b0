"""A picture of a comparison: one line for each method, labelled where it ends."""

import math
from collections.abc import Sequence
from pathlib import Path

from domo.commands.compare import Comparison
from domo.history.drawing import pyplot_for_files
from domo.history.styles import styles_of


def plot(c: Comparison, path: Path) -> None:
    """Draw the metric after each round, mean and standard deviation over seeds, as a PNG.

    Raises:
        ConfigError: matplotlib is not installed; says how to get it.
    """
    pyplot = pyplot_for_files()
    from matplotlib.ticker import MaxNLocator

    scale = 100.0 if c.metric == "accuracy" else 1.0
    styles = styles_of(list(c.methods))
    curves = {m: [[scale * v for v in series] for series in c.mean_curve(m)] for m in c.methods}
    fig, ax = pyplot.subplots(figsize=(8.4, 4.9), layout="constrained")
    for m, (mean, std) in curves.items():
        colour, dash = styles[m]
        below = [a - b for a, b in zip(mean, std, strict=True)]
        above = [a + b for a, b in zip(mean, std, strict=True)]
        ax.fill_between(c.model_indices, below, above, color=colour, alpha=0.10, linewidth=0)
        width = 2.6 if m == c.best else 1.6
        ax.plot(c.model_indices, mean, color=colour, linestyle=dash, linewidth=width)

    low, high = _range([mean for mean, _ in curves.values()])
    ax.set_ylim(low, high)
    last = c.model_indices[-1]
    ax.set_xlim(c.model_indices[0], last)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ends = [curves[m][0][-1] for m in c.methods]
    for m, end, at in zip(c.methods, ends, _spread(ends, (high - low) / 21), strict=True):
        ax.annotate(
            f"{m}  {end:.2f}" if scale > 1 else f"{m}  {end:.4f}",
            xy=(last, end),
            xytext=(last * 1.035, at),
            color=styles[m][0],
            fontweight="bold" if m == c.best else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": styles[m][0],
                "linewidth": 0.8,
                "relpos": (0, 0.5),
            },
        )
    for milestone in c.config.lr_milestones:
        at = milestone * c.config.num_rounds
        ax.axvline(at, color="0.8", linewidth=0.8, zorder=0)
        text = f" step size x {c.config.lr_decay:g}"
        ax.text(at, low, text, color="0.5", fontsize=8, rotation=90, ha="right", va="bottom")
    ax.set_xlabel("rounds")
    ax.set_ylabel("test accuracy, %" if scale > 1 else f"test {c.metric}")
    k, s = c.config.expected_silos, c.config.similarity
    n = len(c.seeds)
    ax.set_title(
        f"{c.config.task}, {k} silos, similarity {100 * s:g} %: "
        + (f"mean of {n} seeds, band \N{PLUS-MINUS SIGN} 1 std" if n > 1 else f"seed {c.seeds[0]}"),
        loc="left",
        fontsize=10,
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.92")
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=130)
    pyplot.close(fig)


def _range(means: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Limits that leave out the steep start, where all lines rise together."""
    later = [v for mean in means for v in mean[math.ceil(len(mean) / 6) :]]
    low, high = min(later), max(later)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _spread(values: Sequence[float], gap: float) -> list[float]:
    """Heights of labels: as near to the values as they can be, at least `gap` apart."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[tuple[float, list[int]]] = []  # centre, members from the lowest up
    for i in order:
        groups.append((values[i], [i]))
        while len(groups) > 1:
            (low, below), (high, above) = groups[-2:]
            if high - low >= gap * (len(below) + len(above)) / 2:
                break
            members = below + above
            groups[-2:] = [(sum(values[j] for j in members) / len(members), members)]
    out = [0.0] * len(values)
    for centre, members in groups:
        for place, i in enumerate(members):
            out[i] = centre + gap * (place - (len(members) - 1) / 2)
    return out
