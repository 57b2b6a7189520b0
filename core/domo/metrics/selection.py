"""Which model is the best, and whether a run has waited long enough for a better one.

The coordinator and the simulation ask the same questions of the same numbers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from domo.metrics.names import Better, primary_of


class Judged(NamedTuple):
    """The primary number of x_{model_index}, as it was when it was judged; it never changes again.

    Attributes:
        model_index: i of x_i.
        value: None: nobody measured it.
        num_silos: That tested it.
    """

    model_index: int
    value: float | None
    num_silos: int


class Choice(NamedTuple):
    """What follows from the numbers so far.

    Attributes:
        best: The best model; of equal ones the earliest. None: none has a number.
        waited: Tests since one was better than those before by more than the least difference.
    """

    best: Judged | None
    waited: int


def choose(judged: Sequence[Judged], better: Better, min_delta: float = 0.0) -> Choice:
    """The best of the models so far.

    One that fewer silos tested than the model before and than the best does not count: its number
    is of other data.

    Args:
        judged: In order of their index.
        better: Which way.
        min_delta: How much better a model must be for it to count as progress.
    """
    sign = 1.0 if better == "higher" else -1.0
    best: Judged | None = None
    mark, waited, before = 0.0, 0, 0
    for one in judged:
        if one.value is None:
            continue
        fewer = best is not None and one.num_silos < min(before, best.num_silos)
        before = one.num_silos
        if fewer:
            continue
        if best is None or sign * (one.value - mark) > min_delta:
            mark, waited = one.value, 0
        else:
            waited += 1
        if best is None or best.value is None or sign * (one.value - best.value) > 0:
            best = one
    return Choice(best, waited)


def why_enough(
    metric: str, choice: Choice, last: int, stop_after: int | None, min_delta: float
) -> str | None:
    """Why a run ends before its last round, in words; None: it goes on.

    Args:
        metric: What it is judged by.
        choice: Of its models so far.
        last: The newest of them.
        stop_after: Its patience, in tests; None: it has no end.
        min_delta: As above.
    """
    if stop_after is None or choice.best is None or choice.waited < stop_after:
        return None
    tests = "1 test" if stop_after == 1 else f"{stop_after} tests"
    by = f" by more than {min_delta:g}" if min_delta else ""
    best = choice.best.model_index
    was = f"best was round {best}" if best else "best was the initial model"
    return f"stopped early after round {last}: {metric} did not improve{by} for {tests}; {was}"


class Jury:
    """Judges the models of a run one by one.

    Args:
        primary_metric: What they are judged by; None: what the first has.
        better_of: Which way a metric is better; None: nobody knows.
        stop_after: Patience, in tests; None: it has no end.
        min_delta: As for `choose`.

    Attributes:
        metric: What they are judged by, once that is known.
        judged: All of them so far.
    """

    def __init__(
        self,
        primary_metric: str | None,
        better_of: Callable[[str], Better | None],
        stop_after: int | None = None,
        min_delta: float = 0.0,
    ):
        self._given, self._better_of = primary_metric, better_of
        self._stop_after, self._min_delta = stop_after, min_delta
        self.metric = primary_metric
        self.judged: list[Judged] = []

    def recall(self, metric: str | None, judged: Judged) -> None:
        """Know a model that was judged before."""
        self.metric = self.metric or metric
        self.judged.append(judged)

    def judge(
        self,
        model_index: int,
        numbers: Mapping[str, float],
        num_silos: int,
        shared: Collection[str] | None = None,
    ) -> Judged:
        """Look at the next model.

        Args:
            model_index: i of x_i.
            numbers: Of the federation.
            num_silos: That tested it.
            shared: Those of the numbers that most silos measure: a run is judged by one of them,
                where it does not say by what. None: all.
        """
        self.metric = self.metric or primary_of(numbers if shared is None else shared, self._given)
        value = numbers.get(self.metric) if self.metric is not None else None
        self.judged.append(Judged(model_index, value, num_silos))
        return self.judged[-1]

    def take_back(self) -> None:
        """The last one could not be recorded."""
        self.judged.pop()

    @property
    def choice(self) -> Choice:
        """The best so far."""
        better = None if self.metric is None else self._better_of(self.metric)
        return choose(self.judged, better, self._min_delta) if better else Choice(None, 0)

    @property
    def why_enough(self) -> str | None:
        """Why the run is to end before its last round, in words; None: it goes on."""
        if self._stop_after is None or self.metric is None or not self.judged:
            return None
        last = self.judged[-1].model_index
        return why_enough(self.metric, self.choice, last, self._stop_after, self._min_delta)
