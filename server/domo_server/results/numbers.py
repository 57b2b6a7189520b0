"""Numbers of models: exact over the federation, and of each silo."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import fsum, sqrt

from domo.api.measured import MetricPoint, MetricTable, ModelTables, ModelTest, SiloTest, Spread
from domo.metrics.names import Better
from domo.metrics.numbers import added, drawing_of, in_most, numbers_of, numbers_of_table
from domo.metrics.table import Sum, Table
from domo_server.results.weights import Nums, too_heavy, weighed
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


def read_shared(store: Store, run_id: str, model_index: int) -> list[str]:
    """Names of a model's numbers that are made of what most silos measure."""
    silos: dict[str, dict[str, Sum | TableRow]] = {}
    for row in store.evaluations_of(run_id, model_index, model_index):
        silos.setdefault(row.silo_id, {})[row.metric] = Sum(row.total, row.num)
    for table in store.tables_of(run_id, model_index, model_index, cells=True):
        silos.setdefault(table.silo_id, {})[table.metric] = table
    most = in_most(list(silos.values()))
    shared = ({m: one for m, one in mine.items() if m in most} for mine in silos.values())
    parts = (_unpacked("", mine, {}, kind) for mine in shared for kind in (Table, Sum))
    return list(numbers_of(parts))


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
    tables += store.tables_of(run_id, whole, last, cells=True)
    return metric_points(sums, tables, judged, store.test_samples(run_id))


def metric_points(
    sums: Iterable[EvaluationRow],
    tables: Iterable[TableRow] = (),
    judged: Iterable[Judgement] = (),
    samples: Mapping[str, int] | None = None,
) -> list[MetricPoint]:
    """Exact numbers over the federation, from what all silos measured (in order of silo).

    Args:
        sums: Of silos.
        tables: Of silos, with their cells where the model was not judged yet.
        judged: Numbers of tables as they were then: of most models the cells are not kept.
        samples: Test samples that each silo enrolled with: for more it does not count.
    """
    measured: dict[int, dict[str, dict[str, Sum | TableRow]]] = {}
    counted: dict[int, dict[str, dict[str, float]]] = {}
    told = {j.model_index: j.numbers for j in judged}
    for t in tables:
        mine = measured.setdefault(t.model_index, {}).setdefault(t.silo_id, {})
        counted.setdefault(t.model_index, {}).setdefault(t.silo_id, {})[t.metric] = t.num
        if t.model_index not in told:
            mine[t.metric] = t
    summed: dict[int, set[str]] = {}
    for row in sums:
        mine = measured.setdefault(row.model_index, {}).setdefault(row.silo_id, {})
        mine[row.metric] = Sum(row.total, row.num)
        counted.setdefault(row.model_index, {}).setdefault(row.silo_id, {})[row.metric] = row.num
        summed.setdefault(row.model_index, set()).add(row.metric)
    return [
        _point(index, silos, counted[index], summed.get(index), told.get(index, {}), samples)
        for index, silos in sorted(measured.items())
    ]


def heavy_of(
    store: Store, run_id: str, model_index: int
) -> tuple[Nums, dict[tuple[str, str], float]]:
    """What each silo counts of a model, and what of it is too much, with its factor."""
    nums: dict[str, dict[str, float]] = {}
    sums = store.evaluations_of(run_id, model_index, model_index)
    rows: list[EvaluationRow | TableRow] = [
        *sums,
        *store.tables_of(run_id, model_index, model_index),
    ]
    for row in rows:
        nums.setdefault(row.silo_id, {})[row.metric] = row.num
    return nums, too_heavy(nums, store.test_samples(run_id))


def _point(
    index: int,
    silos: Mapping[str, Mapping[str, Sum | TableRow]],
    nums: Nums,
    summed: Collection[str] | None,
    told: Mapping[str, float],
    samples: Mapping[str, int] | None,
) -> MetricPoint:
    """The federation's numbers of one model.

    Args:
        index: i of x_i.
        silos: What each has measured; tables where the model was not judged yet.
        nums: What each counts, by metric.
        summed: Metrics that are sums; None: there is none.
        told: Numbers of tables, where it was judged.
        samples: Test samples that each enrolled with.
    """
    heavy = {} if samples is None else too_heavy(nums, samples)
    found = {**told, **numbers_of(_unpacked(s, silos[s], heavy, Table) for s in sorted(silos))}
    means = numbers_of(_unpacked(s, silos[s], heavy, Sum) for s in sorted(silos))
    tabled = sum(any(m not in (summed or ()) for m in mine) for mine in nums.values())
    for name, value in means.items():
        # one silo's sum does not stand for what is made of most silos' tables
        if name not in found or 2 * sum(name in mine for mine in nums.values()) > tabled:
            found[name] = value
    total: dict[str, float] = {}
    for silo_id, mine in sorted(nums.items()):
        for metric, num in mine.items():
            total[metric] = total.get(metric, 0.0) + num * heavy.get((silo_id, metric), 1.0)
    plain = [n for metric, n in total.items() if metric in (summed or ())]  # tables: pixels
    return MetricPoint(
        model_index=index,
        metrics=found,
        num_silos=len(silos),
        num_samples=max(plain or total.values()),
    )


def _unpacked(
    silo_id: str,
    mine: Mapping[str, Sum | TableRow],
    heavy: Mapping[tuple[str, str], float],
    kind: type[Sum] | type[Table],
) -> dict[str, Sum | Table]:
    """What a silo has measured of one kind, with its tables whole: of one silo at a time."""
    found: dict[str, Sum | Table] = {}
    for name, row in mine.items():
        if isinstance(row, TableRow) is (kind is Sum):
            continue
        one = row.table() if isinstance(row, TableRow) else row
        factor = heavy.get((silo_id, name), 1.0)
        if one is not None and factor:
            found[name] = one if factor == 1 else weighed(one, factor)
    return found


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
    silos: dict[str, dict[str, TableRow]] = {}
    for row in store.tables_of(run_id, model_index, model_index, cells=True):
        silos.setdefault(row.silo_id, {})[row.metric] = row
    nums = {s: {name: row.num for name, row in mine.items()} for s, mine in silos.items()}
    heavy = too_heavy(nums, store.test_samples(run_id))
    _, tables = added(_unpacked(s, silos[s], heavy, Table) for s in sorted(silos))
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
