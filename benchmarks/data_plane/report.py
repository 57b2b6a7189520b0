"""The table and the plot of the data plane's benchmark."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.data_plane.domo import Rounds

COLUMNS = "system|what|model|silos|s a round|CPU-s|x floor|server peak MB|silo peak MB"
HEAD = f"| {' | '.join(COLUMNS.split('|'))} |"


def table(results: Sequence[Rounds]) -> str:
    """Markdown, a row for each result."""
    lines = [HEAD, "|---" * 9 + "|"]
    for r in results:
        size = f"{r.model_mb / 1000:.0f} GB" if r.model_mb >= 1000 else f"{r.model_mb:.3g} MB"
        floor = f"{r.seconds / r.floor_s:.1f}" if r.floor_s else ""
        server = f"{r.server_mb:.0f} (bare {r.bare_mb:.0f})" if r.bare_mb else _or_none(r.server_mb)
        cpu, silo = _or_none(r.cpu_s, 2), _or_none(r.silo_mb)
        cells = [r.system, r.case, size, r.silos, f"{r.seconds:.3f}", cpu, floor, server, silo]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _or_none(value: float, digits: int = 0) -> str:
    return f"{value:.{digits}f}" if value else ""


def plot(results: Sequence[Rounds], path: Path) -> None:
    """Seconds a round of 59 MB by number of silos, a line for each system; nothing without any."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    some = [r for r in results if 58 < r.model_mb < 60 and r.case in CURVES]
    systems = sorted({r.system for r in some})
    if not systems:
        return
    fig, ax = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for system in systems:
        points = sorted((r.silos, r.seconds) for r in some if r.system == system)
        ax.plot(*zip(*points, strict=True), marker="o", label=system)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks([4, 8, 16], ["4", "8", "16"])
    ax.set_xlabel("silos")
    ax.set_ylabel("seconds a round, no training")
    ax.set_title("a model of 59 MB: all updates ready, to all silos have the next model")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    fig.savefig(path, dpi=150)
    pyplot.close(fig)


CURVES = ("floor", "no training", "adds a constant")
