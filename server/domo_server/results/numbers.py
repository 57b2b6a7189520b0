"""Numbers of models: exact over the federation, and of each silo."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import fsum, sqrt

from domo.api.measured import MetricPoint, MetricTable, ModelTables, ModelTest, SiloTest, Spread
from domo.metrics.names import Better
from domo.metrics.numbers import added, drawing_of, numbers_of, numbers_of_table
from domo.metrics.table import Sum, Table
from domo_server.store.measured import EvaluationRow, Judgement, TableRow
from domo_server.store.store import Store

PIECE = 100
"""Models whose rows are read at once: of 2,000 models with 50 metrics they are 300,000."""


def latest_metrics(points: Sequence[MetricPoint]) -> Mapping[str, float]:
    """The newest numbers, but not those of a model that fewer silos have tested so far."""
    if len(points) > 1 and points[-1].num_silos < points[-2].num_silos:
        return points[-2].metrics
    return points[-1].metrics if points else {}


def read_points(store: Store, run_id: str, first: int = 0) -> list[MetricPoint]:
    """The federation's numbers of each model that was tested, from one on."""
    points: list[MetricPoint] = []
    for start, last in _pieces(store, run_id, first):
        points += _points(store, run_id, start, last, store.evaluations_of(run_id, start, last))
    return points


def _pieces(store: Store, run_id: str, first: int) -> Iterator[tuple[int, int | None]]:
    """First and last models of pieces of a run, so that few of its many rows are held at once."""
    last: int | None = first - 1
    while last is not None:
        first = last + 1
        last = store.last_tested(run_id, first, PIECE)
        yield first, last


def _points(
    store: Store, run_id: str, first: int, last: int | None, sums: Sequence[EvaluationRow]
) -> list[MetricPoint]:
    judged = store.judgements_of(run_id, first, last)
    whole = judged[-1].model_index + 1 if judged else first
    tables = store.tables_of(run_id, first, whole - 1)
    return metric_points(sums, [*tables, *store.tables_of(run_id, whole, last, cells=True)], judged)


def metric_points(
    sums: Iterable[EvaluationRow],
    tables: Iterable[TableRow] = (),
    judged: Iterable[Judgement] = (),
) -> list[MetricPoint]:
    """Exact numbers over the federation, from what all silos measured (in order of silo).

    Args:
        sums: Of silos.
        tables: Of silos, with their cells where the model was not judged yet.
        judged: Numbers of tables as they were then: of most models the cells are not kept.
    """
    measured: dict[int, dict[str, dict[str, Sum | TableRow]]] = {}
    nums: dict[int, dict[str, float]] = {}
    told = {j.model_index: j.numbers for j in judged}
    for t in tables:
        mine = measured.setdefault(t.model_index, {}).setdefault(t.silo_id, {})
        of_model = nums.setdefault(t.model_index, {})
        of_model[t.metric] = of_model.get(t.metric, 0.0) + t.num
        if t.model_index not in told:
            mine[t.metric] = t
    counted: dict[int, dict[str, float]] = {}
    for row in sums:
        mine = measured.setdefault(row.model_index, {}).setdefault(row.silo_id, {})
        mine[row.metric] = Sum(row.total, row.num)
        of_model = counted.setdefault(row.model_index, {})
        of_model[row.metric] = of_model.get(row.metric, 0.0) + row.num
    nums |= counted  # tables may count pixels
    return [
        MetricPoint(
            model_index=index,
            metrics={
                **told.get(index, {}),
                **numbers_of(_unpacked(silos[s]) for s in sorted(silos)),
            },
            num_silos=len(silos),
            num_samples=max(nums[index].values()),
        )
        for index, silos in sorted(measured.items())
    ]


def _unpacked(mine: Mapping[str, Sum | TableRow]) -> dict[str, Sum | Table]:
    """What a silo has measured, with its tables whole: of one silo at a time, as they are large."""
    whole = {name: x.table() if isinstance(x, TableRow) else x for name, x in mine.items()}
    return {name: one for name, one in whole.items() if one is not None}


def model_tests(
    store: Store,
    run_id: str,
    better: Callable[[str], Better | None],
    after: int = -1,
    limit: int | None = None,
) -> list[ModelTest]:
    """Tests of the models above an index: the federation's numbers, each silo's, their spread.

    Args:
        store: Where they are.
        run_id: The run.
        better: Which way a metric is better.
        after: Only models above this index.
        limit: At most so many, the first ones.
    """
    better = lru_cache(maxsize=None)(better)
    if limit is not None:
        last = store.last_tested(run_id, after + 1, limit)
        return _model_tests(store, run_id, better, after + 1, last)
    return [
        test
        for first, last in _pieces(store, run_id, after + 1)
        for test in _model_tests(store, run_id, better, first, last)
    ]


def _model_tests(
    store: Store,
    run_id: str,
    better: Callable[[str], Better | None],
    first: int,
    last: int | None,
) -> list[ModelTest]:
    by_model: dict[int, dict[str, dict[str, float]]] = {}
    nums: dict[tuple[int, str], float] = {}
    for t in store.tables_of(run_id, first, last):
        by_model.setdefault(t.model_index, {}).setdefault(t.silo_id, {}).update(t.numbers)
        nums.setdefault((t.model_index, t.silo_id), t.num)
    counted: dict[tuple[int, str], float] = {}
    sums = store.evaluations_of(run_id, first, last)  # once: of many silos and rounds they are many
    for row in sums:
        of_silo = by_model.setdefault(row.model_index, {}).setdefault(row.silo_id, {})
        of_silo[row.metric] = row.total / row.num
        key = row.model_index, row.silo_id
        counted[key] = max(counted.get(key, 0.0), row.num)
    nums |= counted
    return [
        ModelTest(
            **point.model_dump(),
            silos=[
                SiloTest(silo_id=s, metrics=mine[s], num_samples=nums[point.model_index, s])
                for s in sorted(mine)
            ],
            spread=_spread(mine, better),
        )
        for point in _points(store, run_id, first, last, sums)
        if (mine := by_model.get(point.model_index, {}))
    ]


def _spread(
    silos: Mapping[str, Mapping[str, float]], better: Callable[[str], Better | None]
) -> dict[str, Spread]:
    found: dict[str, dict[str, float]] = {}
    for silo_id in sorted(silos):
        for name, value in silos[silo_id].items():
            found.setdefault(name, {})[silo_id] = value
    spread = {}
    for name, by_silo in found.items():
        way, values = better(name), by_silo.values()
        worst = None
        if way is not None:
            pick = min if way == "higher" else max
            worst = pick(by_silo, key=lambda s: by_silo[s])
        spread[name] = Spread(
            lowest=min(values), highest=max(values), std=_std(values), worst=worst
        )
    return spread


def _std(values: Collection[float]) -> float:
    """Standard deviation over all; of a thousand silos the library's takes 60 times as long."""
    mean = fsum(values) / len(values)
    apart = [value - mean for value in values]
    scale = max(map(abs, apart)) or 1.0  # the square of a silo's number may be too large
    return scale * sqrt(fsum((a / scale) ** 2 for a in apart) / len(apart))


def model_tables(store: Store, run_id: str, model_index: int) -> ModelTables:
    """The tables of a model, summed over silos, as a page draws them."""
    silos: dict[str, dict[str, Sum | TableRow]] = {}
    for row in store.tables_of(run_id, model_index, model_index, cells=True):
        silos.setdefault(row.silo_id, {})[row.metric] = row
    _, tables = added(_unpacked(silos[s]) for s in sorted(silos))
    return ModelTables(
        model_index=model_index,
        tables=[
            MetricTable(
                name=name,
                kind=table.kind,
                labels=table.labels,
                numbers=numbers_of_table(name, table),
                **drawing_of(table),
            )
            for name, table in sorted(tables.items())
        ],
    )
