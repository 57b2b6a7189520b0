"""What a run came to, round by round: the same object of a simulation and of a coordinator.

    history = domo.simulate("digits", num_rounds=5).to_history()
    history = domo.Coordinator(url).run("1-domo-digits").history()
    history.to_pandas()
    history.plot()

A `Round` is a closed round r, which made x_{r+1} of x_r. A `Test` is of one model x_i. Tables join
the two by the model: row i has x_i's test and the round that made it, i - 1; x_0 has no round.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from domo.errors import ConfigError
from domo.history import tables
from domo.history.page import page_of
from domo.history.records import Round, RunFacts, Test
from domo.history.tables import Column
from domo.metrics.names import primary_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, slots=True, repr=False)
class History:
    """Numbers of a run per round and per silo. Immutable: a live run's is of one moment.

    Attributes:
        facts: What is said of the run as a whole.
        rounds: Closed rounds, oldest first.
        tests: Models that were tested, oldest first.
    """

    facts: RunFacts
    rounds: tuple[Round, ...]
    tests: tuple[Test, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the test metrics, what the run is judged by first."""
        there = sorted({name for test in self.tests for name in test.metrics})
        first = primary_of(there, self.facts.primary_metric)
        return tuple(sorted(there, key=lambda name: name != first))

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns of `to_pandas`, in their order: unit, meaning and kind of each."""
        return tables.columns_of_rounds(self)

    @property
    def silo_columns(self) -> Mapping[str, Column]:
        """The same of `silos_to_pandas`."""
        return tables.columns_of_silos(self)

    @property
    def default_metric(self) -> str:
        """What is drawn where nobody says what: the primary metric, or else the training loss."""
        there = self.metrics
        return there[0] if there else "train_loss"

    def curve(self, metric: str | None = None) -> dict[int, float]:
        """A number over the run: i to its value at x_i, or in the round that made x_i.

        Args:
            metric: A test metric, or a column of `to_pandas`; by default what the run is judged by.

        Raises:
            ConfigError: There is none of this name; lists those that there are.
        """
        name = self.column_of(metric)
        rows = self.round_rows()
        return {row["model_index"]: row[name] for row in rows if row.get(name) is not None}

    def column_of(self, metric: str | None = None) -> str:
        """The column of `to_pandas` that holds a metric: `accuracy` is in `test_accuracy`.

        Raises:
            ConfigError: There is none of this name; lists those that there are.
        """
        name = self.default_metric if metric is None else metric
        there = self.columns
        for column in (f"test_{name}", name):
            if column in there and there[column].kind in ("integer", "number"):
                return column
        numbers = [n for n, c in there.items() if c.kind in ("integer", "number")]
        known = ", ".join(dict.fromkeys([*self.metrics, *numbers]))
        raise ConfigError(f"{self.facts.title} has no {name!r} in its history: it has {known}")

    def unit(self, metric: str | None = None) -> str:
        """The unit of a metric or a column, as a text; `1` for a pure number."""
        return self.columns[self.column_of(metric)].unit

    def round_rows(self) -> list[dict[str, Any]]:
        """The rows of `to_pandas` as plain dictionaries; what is not known is left out."""
        return tables.round_rows(self)

    def silo_rows(self) -> list[dict[str, Any]]:
        """The rows of `silos_to_pandas` as plain dictionaries; what is not known is left out."""
        return tables.silo_rows(self)

    def to_pandas(self) -> "DataFrame":
        """A row for each model x_i that was made: its test, and the round that made it.

        Returns:
            Indexed by `model_index`; `columns` says what each column is, `attrs["units"]` too.

        Raises:
            ConfigError: pandas is not installed; says how to get it.
        """
        from domo.history.frames import frame

        return frame(self.columns, self.round_rows(), ["model_index"])

    def silos_to_pandas(self) -> "DataFrame":
        """A row for each silo and model: its part in the round, and its own test of the model.

        Returns:
            Indexed by `model_index` and `silo_id`; `silo_columns` says what each column is.

        Raises:
            ConfigError: pandas is not installed; says how to get it.
        """
        from domo.history.frames import frame

        return frame(self.silo_columns, self.silo_rows(), ["model_index", "silo_id"])

    def plot(
        self, metric: str | None = None, ax: "Axes | None" = None, *, silos: bool = False
    ) -> "Axes":
        """Draw a number over the rounds.

        Args:
            metric: As in `curve`.
            ax: Where; a figure of its own by default.
            silos: Each silo's own numbers too, as thin lines.

        Returns:
            Where it was drawn.

        Raises:
            ConfigError: matplotlib is not installed, or there is no such number.
        """
        from domo.history.drawing import draw_history

        return draw_history(self, metric, ax, silos)

    def to_history(self) -> "History":
        """Itself, as of everything that has a history."""
        return self

    def __repr__(self) -> str:
        """One line."""
        f = self.facts
        shown = [f"{name} {self.tests[-1].metrics[name]:.4g}" for name in self.metrics[:3]
                 if name in self.tests[-1].metrics]  # fmt: skip
        best = "" if f.best_index is None else f"; best {f.primary_metric}: x_{f.best_index}"
        rounds = f"{len(self.rounds)} of {f.num_rounds or len(self.rounds)} rounds"
        return f"<History {f.title}: {rounds}, {', '.join(shown) or 'no test numbers'}{best}>"

    def _repr_html_(self) -> str:
        """A small table with the curve, as a notebook shows it. All texts are escaped."""
        return page_of(self)
