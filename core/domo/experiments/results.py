"""The numbers of a recipe, of the cells that are done: what tables, plots and claims ask for."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from domo.errors import ConfigError
from domo.experiments.recipe import Cell, Panel, Recipe, Row, Scale
from domo.experiments.records import AUTO, BATCHED, EXACT, Record, load_record


class UndoneError(Exception):
    """A number is asked for whose runs are not all done; for `claims.check_all` alone."""


@dataclass(frozen=True)
class Results:
    """A recipe at a scale, with what is done of it. Accuracies are in per cent.

    Attributes:
        recipe: What was asked for.
        scale: With which settings.
        cells: All of its runs.
        records: Panel, row and seed to the record of each run that is done.
    """

    recipe: Recipe
    scale: Scale
    cells: Sequence[Cell]
    records: Mapping[tuple[str, str, int], Record] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """In order."""
        return list(dict.fromkeys(cell.seed for cell in self.cells))

    @property
    def panels(self) -> list[str]:
        """Names in order."""
        return [panel.name for panel in self.recipe.panels]

    def panel(self, name: str) -> Panel:
        """One of them.

        Raises:
            ConfigError: There is none of this name.
        """
        for panel in self.recipe.panels:
            if panel.name == name:
                return panel
        raise ConfigError(f"{self.recipe.name} has no panel {name!r}: {', '.join(self.panels)}")

    def rows(self, panel: str) -> list[Row]:
        """Those of a panel."""
        return list(self.recipe.rows(self.panel(panel)))

    def done(self, panel: str, row: str) -> list[Record]:
        """Records of the seeds that are done.

        Raises:
            ConfigError: There is no such row.
        """
        if row not in (found := [r.name for r in self.rows(panel)]):
            raise ConfigError(f"{self.recipe.name}, {panel}: no row {row!r}: {', '.join(found)}")
        keys = [(panel, row, seed) for seed in self.seeds]
        return [self.records[key] for key in keys if key in self.records]

    def finals(self, panel: str, row: str) -> list[float]:
        """Accuracy of x_R for each seed.

        Raises:
            UndoneError: A seed is not done.
        """
        done = self.done(panel, row)
        if len(done) < len(self.seeds):
            raise UndoneError(f"{panel}, {row}")
        return [100 * record.final() for record in done]

    def mean(self, panel: str, row: str) -> float:
        """Mean over seeds of the accuracy of x_R; -inf where a run diverged.

        Raises:
            UndoneError: A seed is not done.
        """
        return statistics.fmean(self.finals(panel, row))

    def gains(self, panel: str, first: str, second: str) -> list[float]:
        """First minus second, seed by seed, points.

        Raises:
            UndoneError: A seed is not done.
        """
        pairs = zip(self.finals(panel, first), self.finals(panel, second), strict=True)
        return [a - b for a, b in pairs]

    def speed(self, panel: str, row: str) -> float:
        """Mean accuracy over all tested models and seeds: who is higher rose faster.

        Raises:
            UndoneError: A seed is not done.
        """
        self.finals(panel, row)
        curves = [
            r.metrics["accuracy"] if not r.failed else [-math.inf] for r in self.done(panel, row)
        ]
        return 100 * statistics.fmean(statistics.fmean(curve) for curve in curves)


def mean_of(values: Sequence[float]) -> float:
    """The mean; of infinities of both signs NaN."""
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 for a single value, NaN where a run diverged."""
    if not all(map(math.isfinite, values)):
        return math.nan
    return statistics.stdev(values) if len(values) > 1 else 0.0


def load_results(
    recipe: Recipe, scale: Scale, cells: Sequence[Cell], store: Path, mode: str
) -> Results:
    """What is done of a recipe, in the mode asked for; with `AUTO` in either, exact first.

    Raises:
        ConfigError: A record cannot be read.
    """
    found = {}
    modes = (EXACT, BATCHED) if mode == AUTO else (mode,)
    for cell in cells:
        records = (load_record(store, cell.config, one) for one in modes)
        if record := next(filter(None, records), None):
            found[cell.panel, cell.row, cell.seed] = record
    return Results(recipe, scale, cells, found)
