"""Several histories beside each other: what `domo.compare` is."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from domo.errors import ConfigError
from domo.history.history import History
from domo.history.page import Raw, number, sparkline, table
from domo.history.tables import Column
from domo.metrics.names import direction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class HasHistory(Protocol):
    """A `History`, or what `domo.simulate` returns."""

    def to_history(self) -> History:
        """Its history."""
        ...


Runs = HasHistory | Sequence[HasHistory]
"""One run, or the same run with several seeds."""


@dataclass(frozen=True, slots=True, repr=False)
class HistoryComparison:
    """Runs by label, each with one history or one a seed; drawn and listed beside each other.

    Attributes:
        runs: The histories under each label.
        metric: What they are compared by.
    """

    runs: Mapping[str, tuple[History, ...]]
    metric: str

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns of `to_pandas`: unit and meaning of each."""
        way = self._better
        said = f"; {way} is better" if way else ""
        return {
            "run": Column("", "its label", "text"),
            "runs": Column("", "how many histories it is the mean of", "integer"),
            "rounds": Column("", "closed rounds, of the shortest of them", "integer"),
            "last": Column(self.unit, f"{self.metric} at the end, mean{said}"),
            "last_std": Column(self.unit, "its standard deviation over the runs; one run has none"),
            "best": Column(self.unit, f"the best {self.metric} of each run, mean"),
        }

    @property
    def unit(self) -> str:
        """Of the metric."""
        return self._any.unit(self.metric)

    @property
    def _any(self) -> History:
        return next(iter(self.runs.values()))[0]

    @property
    def _better(self) -> str | None:
        facts = self._any.facts
        return facts.better if self.metric == facts.primary_metric else direction(self.metric)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of `to_pandas` as plain dictionaries; what is not known is left out."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        choose = {"higher": max, "lower": min}.get(self._better or "")
        for label, histories in self.runs.items():
            curves = [history.curve(self.metric) for history in histories]
            row = {
                "run": label,
                "runs": len(histories),
                "rounds": min(len(history.rounds) for history in histories),
            }
            if all(curves):
                last = [[*curve.values()][-1] for curve in curves]
                row["last"] = statistics.fmean(last)
                if len(last) > 1:
                    row["last_std"] = statistics.stdev(last)
                if choose is not None:
                    row["best"] = statistics.fmean(choose(curve.values()) for curve in curves)
            yield row

    def to_pandas(self) -> "DataFrame":
        """A row for each label.

        Raises:
            ConfigError: pandas is not installed; says how to get it.
        """
        from domo.history.frames import frame

        return frame(self.columns, self.rows(), ["run"])

    def plot(self, metric: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """Draw a line for each label: the mean over its runs, and one standard deviation.

        Args:
            metric: As `History.plot` takes it; by default what the runs are compared by.
            ax: Where; a figure of its own by default.

        Raises:
            ConfigError: matplotlib is not installed, or there is no such number.
        """
        from domo.history.drawing import draw_many

        return draw_many(self.runs, metric or self.metric, ax)

    def __repr__(self) -> str:
        """One line for each label."""
        lines = [f"<HistoryComparison by {self.metric}"]
        for row in self._rows():
            last = number(row["last"]) if "last" in row else "no numbers yet"
            spread = f" +- {number(row['last_std'])}" if "last_std" in row else ""
            lines.append(f"  {row['run']}: {last}{spread} after {row['rounds']} rounds")
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        """A table with a curve for each label, as a notebook shows it. All texts are escaped."""
        columns = self.columns
        head = [(name, str(column)) for name, column in columns.items()]
        rows = []
        for row, histories in zip(self._rows(), self.runs.values(), strict=True):
            curve: Raw = sparkline(histories[0].curve(self.metric))
            rows.append([row.get(name) for name in columns] + [curve])
        return table([*head, (self.metric, "over the rounds, of the first run")], rows)


def compare(*runs: Mapping[str, Runs] | HasHistory, metric: str | None = None) -> HistoryComparison:
    """Put histories beside each other.

        domo.compare(a, b).plot()
        domo.compare({"DOMO": [seed_0, seed_1], "FedAvg": [other_0, other_1]}).to_pandas()

    Args:
        runs: Histories, or what `domo.simulate` returns, which are labelled by their method or
            title; or one table of labels, with a history or several seeds under each.
        metric: By what: a test metric, or a column of `to_pandas`. By default what the first run
            is judged by.

    Returns:
        Tables and a plot of all of them.

    Raises:
        ConfigError: There is nothing to compare, it is no history, or one of them has no such
            number.
    """
    named = _named(runs)
    first = next(iter(named.values()))[0]
    chosen = first.default_metric if metric is None else metric
    for label, histories in named.items():
        for history in histories:
            try:
                history.column_of(chosen)
            except ConfigError as error:
                raise ConfigError(f"compare: {label}: {error}") from None
    return HistoryComparison(named, chosen)


def _named(runs: Sequence[Mapping[str, Runs] | HasHistory]) -> dict[str, tuple[History, ...]]:
    """The histories under each label."""
    if len(runs) == 1 and isinstance(runs[0], Mapping):
        given = runs[0]
        found = {
            str(label): tuple(map(_history, one if isinstance(one, list | tuple) else [one]))
            for label, one in given.items()
        }
    else:
        histories = [_history(one) for one in runs]
        found = dict(zip(_labels(histories), ((one,) for one in histories), strict=True))
    if not found or not all(found.values()):
        raise ConfigError(
            "compare: there is nothing to compare; give histories, or a table of labels with a "
            "history under each"
        )
    return found


def _labels(histories: Sequence[History]) -> list[str]:
    """Their methods, where these tell them apart, or else their titles; numbered where need be."""
    methods = [history.facts.method for history in histories]
    different = None not in methods and len(set(methods)) == len(methods)
    names = [str(m) for m in methods] if different else [h.facts.title for h in histories]
    made: list[str] = []
    for name in names:
        label, i = name, 1
        while label in made:
            i += 1
            label = f"{name} ({i})"
        made.append(label)
    return made


def _history(given: Any) -> History:
    """The history of what was given.

    Raises:
        ConfigError: It has none.
    """
    if isinstance(given, History):
        return given
    make = getattr(given, "to_history", None)
    if make is None:
        hint = ": call its .history()" if callable(getattr(given, "history", None)) else ""
        raise ConfigError(f"compare: {type(given).__name__} is no history{hint}")
    made: History = make()
    return made
