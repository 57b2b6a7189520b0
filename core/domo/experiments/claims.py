"""What the paper says of its numbers, as functions that look whether it holds for ours.

Each takes the results and what the recipe gives it, and returns whether it holds with the numbers
that say so. Comparisons are between means over seeds; differences are paired by seed.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from domo.errors import ConfigError
from domo.experiments.recipe import ClaimSpec
from domo.experiments.results import Results, UndoneError, mean_of, spread
from domo.methods import PAPER_METHODS


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds here.

    Attributes:
        says: The claim.
        printed: The difference that the paper prints, points.
        holds: None: not all of its runs are done.
        found: Our numbers.
    """

    says: str
    printed: float | None
    holds: bool | None
    found: str

    @property
    def word(self) -> str:
        """For a table."""
        return {True: "holds", False: "does not hold", None: "not done"}[self.holds]


Found = tuple[bool, str]
REST = tuple(name for name in PAPER_METHODS if not name.startswith("DOMO"))
"""The paper's counterparts: what DOMO is compared with where a claim names nothing else."""


def ordering(r: Results, groups: Sequence[Sequence[str]], panels: Sequence[str] = ()) -> Found:
    """In every panel all rows of a group are below all of the next; within a group any order."""
    wrong = []
    for panel in panels or r.panels:
        for below, above in itertools.pairwise(groups):
            high = max(below, key=lambda row: r.mean(panel, row))
            low = min(above, key=lambda row: r.mean(panel, row))
            if not r.mean(panel, high) < r.mean(panel, low):
                wrong.append(f"{panel}: {_at(r, panel, high)} is not below {_at(r, panel, low)}")
    return not wrong, "; ".join(wrong) or f"in all of {', '.join(panels or r.panels)}"


def ahead(r: Results, first: str, over: Sequence[str] = REST, panels: Sequence[str] = ()) -> Found:
    """In every panel a row is above the best of others."""
    holds, told = True, []
    for panel in panels or r.panels:
        best, gains = _over_best(r, panel, first, over)
        holds = holds and mean_of(gains) > 0
        told.append(f"{panel}: {_gain(gains)} over {best}")
    return holds, "; ".join(told)


def behind(r: Results, rows: Sequence[str], over: str, panels: Sequence[str] = ()) -> Found:
    """In every panel each of these rows is below another one."""
    holds, told = True, []
    for panel, row in itertools.product(panels or r.panels, rows):
        gains = r.gains(panel, row, over)
        holds = holds and mean_of(gains) < 0
        told.append(f"{panel}: {row} {_gain(gains)} over {over}")
    return holds, "; ".join(told)


def gap_grows(r: Results, first: str, panels: Sequence[str], over: Sequence[str] = REST) -> Found:
    """A row's lead over the best of others is larger in each panel than in the one before."""
    gaps, told = [], []
    for panel in panels:
        best, gains = _over_best(r, panel, first, over)
        gaps.append(mean_of(gains))
        told.append(f"{panel}: {_gain(gains)} over {best}")
    return all(a < b for a, b in itertools.pairwise(gaps)), "; ".join(told)


def best_at(r: Results, row: str, panels: Sequence[str] = ()) -> Found:
    """A row is the best of each panel."""
    holds, told = True, []
    for panel in panels or r.panels:
        names = [one.name for one in r.rows(panel)]
        best = max(names, key=lambda name: r.mean(panel, name))
        holds = holds and best == row
        note = "" if best == row else f", and {_at(r, panel, row)}"
        told.append(f"{panel}: {_at(r, panel, best)} is best{note}")
    return holds, "; ".join(told)


def falls_off(r: Results, row: str, panels: Sequence[str] = ()) -> Found:
    """From a row of a grid on, each step along one axis away from it leads lower."""
    wrong = []
    for panel in panels or r.panels:
        rows = r.rows(panel)
        r.done(panel, row)  # that it is there
        start = next(one for one in rows if one.name == row)
        for key, value in start.at.items():
            line = [
                one for one in rows if all(one.at[k] == v for k, v in start.at.items() if k != key)
            ]
            line.sort(key=lambda one: one.at[key])
            sides = (
                [one for one in line if one.at[key] >= value],
                [one for one in reversed(line) if one.at[key] <= value],
            )
            for near, far in itertools.chain.from_iterable(map(itertools.pairwise, sides)):
                if r.mean(panel, near.name) < r.mean(panel, far.name):
                    text = f"{_at(r, panel, far.name)} is above {_at(r, panel, near.name)}"
                    wrong.append(f"{panel}: {text}")
    return not wrong, "; ".join(wrong) or f"in all of {', '.join(panels or r.panels)}"


def fastest(
    r: Results, rows: Sequence[str], over: Sequence[str] = REST, panels: Sequence[str] = ()
) -> Found:
    """The mean of the whole curve of each of these rows is above that of all others."""
    holds, told = True, []
    for panel in panels or r.panels:
        low = min(rows, key=lambda row: r.speed(panel, row))
        high = max(over, key=lambda row: r.speed(panel, row))
        a, b = r.speed(panel, low), r.speed(panel, high)
        holds = holds and a > b
        told.append(f"{panel}: {low} {a:.2f}, {high} {b:.2f}")
    return holds, "; ".join(told)


CHECKS: dict[str, Callable[..., Found]] = {
    f.__name__: f for f in (ordering, ahead, behind, gap_grows, best_at, falls_off, fastest)
}
"""What a recipe can name."""


def check_all(r: Results) -> list[Verdict]:
    """Every claim of a recipe.

    Raises:
        ConfigError: A claim names a check, an argument, a panel or a row that is not there.
    """
    return [_check(claim, r) for claim in r.recipe.claims]


def _check(claim: ClaimSpec, r: Results) -> Verdict:
    function = CHECKS.get(claim.check)
    if function is None:
        raise ConfigError(f"{r.recipe.name}: no check {claim.check!r}: {', '.join(CHECKS)}")
    try:
        inspect.signature(function).bind(r, **claim.given)
    except TypeError as error:
        raise ConfigError(f"{r.recipe.name}: the check {claim.check}: {error}") from None
    try:
        holds, found = function(r, **claim.given)
    except UndoneError as error:
        return Verdict(claim.says, claim.printed, None, f"not all of {error} is done")
    return Verdict(claim.says, claim.printed, holds, found)


def _over_best(r: Results, panel: str, first: str, over: Sequence[str]) -> tuple[str, list[float]]:
    best = max(over, key=lambda row: r.mean(panel, row))
    return best, r.gains(panel, first, best)


def _at(r: Results, panel: str, row: str) -> str:
    mean = r.mean(panel, row)
    return f"{row} {mean:.2f}" if math.isfinite(mean) else f"{row} (diverged)"


def _gain(gains: Sequence[float]) -> str:
    """A paired difference: mean, standard deviation, and how many seeds have this sign."""
    mean = mean_of(gains)
    if not math.isfinite(mean):
        return "diverged"
    same = sum(g * mean > 0 for g in gains)
    return f"{mean:+.2f} \N{PLUS-MINUS SIGN} {spread(gains):.2f} ({same} of {len(gains)} seeds)"
