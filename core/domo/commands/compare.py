"""Several methods over several seeds: the numbers, a table, a plot.

A seed changes the split over silos, the initial weights and the order of batches, and is the same
for all methods, so methods can be compared seed by seed.
"""

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

from rich.table import Table

from domo.batched.how import AS_EXACT, Mode
from domo.errors import ConfigError
from domo.methods import PAPER_METHODS, canonical_name
from domo.metrics.names import primary_of
from domo.ops.console import say
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.simulating.state import ModelRecord
from domo.sweeps.cells import Setting, run_cells, run_one
from domo.sweeps.engines import processes

MODES: Mapping[Mode, str] = {
    "exact": "",
    "batched": f"; silos batched: {AS_EXACT}",
    "auto": f"; silos batched where that is quicker: {AS_EXACT}",
}
"""What a table says of how its numbers were made."""


@dataclass(slots=True)
class Comparison:
    """Every number of a comparison.

    Attributes:
        config: What all runs share.
        metric: What is compared: the run's primary metric.
        methods: In the order asked for.
        seeds: In the order asked for.
        model_indices: The i of each x_i that was tested.
        curves: (method, seed) -> the metric at each model index.
        losses: (method, seed) -> mean training loss of each round.
        mode: How silos were computed.
    """

    config: RunConfig
    metric: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    model_indices: tuple[int, ...] = ()
    curves: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    losses: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    mode: Mode = "exact"

    def finals(self, method: str) -> list[float]:
        """The metric of x_R, a value for each seed."""
        return [self.curves[method, seed][-1] for seed in self.seeds]

    def mean_curve(self, method: str) -> tuple[list[float], list[float]]:
        """Mean and standard deviation over seeds at each model index."""
        columns = list(zip(*(self.curves[method, s] for s in self.seeds), strict=True))
        return [statistics.fmean(c) for c in columns], [deviation(c) for c in columns]

    @property
    def best(self) -> str:
        """The method with the best mean in the end."""
        pick = max if self.config.better_of(self.metric) == "higher" else min
        return pick(self.methods, key=lambda m: statistics.fmean(self.finals(m)))

    def shown(self, value: float, sign: str = "") -> str:
        """A value as people read it: accuracy in per cent."""
        return f"{100 * value:{sign}.2f}" if self.metric == "accuracy" else f"{value:{sign}.4f}"

    def rows(self) -> Iterator[tuple[str, str, str, list[str]]]:
        """Method, mean, standard deviation and the value of each seed."""
        for method in self.methods:
            values = self.finals(method)
            mean, std = self.shown(statistics.fmean(values)), self.shown(deviation(values))
            yield method, mean, std, [self.shown(v) for v in values]

    @property
    def heading(self) -> str:
        """What the numbers are."""
        unit = ", %" if self.metric == "accuracy" else ""
        what = f"test {self.metric} after {counted(self.config.num_rounds, 'round')}{unit}"
        return what + MODES[self.mode]


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def parse_methods(text: str) -> tuple[str, ...]:
    """`all` (the paper's eight), or names separated by commas.

    Raises:
        ConfigError: An unknown or a repeated method.
    """
    if text.strip().lower() == "all":
        return PAPER_METHODS
    names = tuple(canonical_name(n.strip()) for n in text.split(",") if n.strip())
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"--compare {text!r}: give `all`, or each method once, with commas")
    return names


def that_fit(config: RunConfig, text: str) -> tuple[str, ...]:
    """The methods of `--compare` that go with a run's settings; of `all` it says which do not.

    Raises:
        ConfigError: As `parse_methods`; or a method that was named does not go with them.
    """
    fit = []
    for method in parse_methods(text):
        try:
            config.model_copy(update={"method": method}).kernel  # noqa: B018 - it is made
            fit.append(method)
        except ConfigError as error:
            if text.strip().lower() != "all":
                raise
            say(f"{method} is left out: {error}")
    return tuple(fit)


def compare(
    setting: Setting,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    on_done: Callable[[str, int, str, float], None] | None = None,
    done: Mapping[tuple[str, int], list[ModelRecord]] = MappingProxyType({}),
    on_run: Callable[[str, int, list[ModelRecord]], None] | None = None,
) -> Comparison:
    """Run every method with every seed.

    Args:
        setting: What the runs share.
        methods: Names from the tables of `domo.methods`.
        seeds: One run of each method for each.
        jobs: Processes; any number gives the same bytes.
        executor: What executes the runs instead, such as Dask's `client.get_executor(pure=False)`;
            its workers have domo and the data.
        done: The records of runs that need not be run again.
        on_run: Called with method, seed and records of each that was run.
        on_done: Called with method, seed, and the name and final value of the metric.

    Raises:
        ConfigError: The runs test nothing, so there is nothing to compare.
        TransportError: The workers of a run are lost again and again.
        DivergenceError: Names the method and the seed.
    """
    cells = [(m, s) for s in seeds for m in methods]  # seed by seed: silos are loaded once
    whole = {"stop_after": None}  # all runs have all rounds, or their means would not go together
    configs = {
        (m, s): setting.config.model_copy(update={"method": m, "seed": s, **whole})
        for m, s in cells
    }
    todo = [cell for cell in cells if cell not in done]
    made = _run([replace(setting, config=configs[cell]) for cell in todo], jobs, executor)
    out = Comparison(setting.config, "accuracy", tuple(methods), tuple(seeds))
    out.mode = setting.how.mode
    known = ((cell, done[cell]) for cell in cells if cell in done)
    for (method, seed), history in chain(known, ((todo[i], records) for i, records in made)):
        if on_run and (method, seed) not in done:
            on_run(method, seed, history)
        tested = [r for r in history if r.metrics]
        if not tested or tested[-1].model_index != setting.config.num_rounds:
            raise ConfigError("nothing to compare: the task has no test data, or it is never used")
        metric = primary_of(tested[0].metrics, setting.config.primary_metric)
        if metric is None or any(metric not in r.metrics for r in tested):
            raise ConfigError(f"nothing to compare: not every model has a number of {metric}")
        out.metric = metric
        out.model_indices = tuple(r.model_index for r in tested)
        out.curves[method, seed] = [r.metrics[out.metric] for r in tested]
        out.losses[method, seed] = [r.made_by.train_loss for r in history if r.made_by]
        if on_done:
            on_done(method, seed, out.metric, out.curves[method, seed][-1])
    return out


def _run(
    todo: Sequence[Setting], jobs: int, executor: Executor | None
) -> Iterator[tuple[int, list[ModelRecord]]]:
    """The place of each run and its records, as they come."""
    if executor is not None:
        return run_cells(todo, lambda: nullcontext(executor))
    if jobs > 1:
        return run_cells(todo, partial(processes, jobs), at_once=jobs)
    return enumerate(map(run_one, todo))


def rich_table(c: Comparison) -> Table:
    """The table for a terminal; the best method in bold."""
    table = Table(title=f"{c.config.task}: {c.heading}")
    table.add_column("method")
    for name in ("mean", "std", *(f"seed {s}" for s in c.seeds)):
        table.add_column(name, justify="right")
    for method, mean, std, values in c.rows():
        table.add_row(method, mean, std, *values, style="bold" if method == c.best else None)
    return table


def markdown(c: Comparison) -> str:
    """The table in markdown, every seed's number in it."""
    head = ["method", "mean", "std", *(f"seed {s}" for s in c.seeds)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for method, mean, std, values in c.rows():
        mark = "**" if method == c.best else ""
        lines.append([f"{mark}{method}{mark}", f"{mark}{mean}{mark}", std, *values])
    note = f"\nSimulated{MODES[c.mode]}.\n" if c.mode != "exact" else ""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + note


def to_json(c: Comparison) -> str:
    """Every number of every seed."""
    body: dict[str, Any] = {
        "metric": c.metric,
        "mode": c.mode,
        "model_indices": c.model_indices,
        "seeds": c.seeds,
        "config": c.config.model_dump(mode="json", exclude={"method", "seed"}),
        "methods": {
            m: {
                "mean": statistics.fmean(c.finals(m)),
                "std": deviation(c.finals(m)),
                "final": dict(zip(c.seeds, c.finals(m), strict=True)),
                "curve": {s: c.curves[m, s] for s in c.seeds},
                "train_loss": {s: c.losses[m, s] for s in c.seeds},
            }
            for m in c.methods
        },
    }
    return json.dumps(body, indent=1) + "\n"
