"""Figures over what silos have reported."""

from collections.abc import Iterable, Mapping, Sequence

from domo.api.schema import MetricPoint
from domo_server.store.rows import EvaluationRow


def latest_metrics(points: Sequence[MetricPoint]) -> Mapping[str, float]:
    """The newest numbers, but not those of a model that fewer silos have tested so far."""
    if len(points) > 1 and points[-1].num_silos < points[-2].num_silos:
        return points[-2].metrics
    return points[-1].metrics if points else {}


def metric_points(rows: Iterable[EvaluationRow]) -> list[MetricPoint]:
    """Exact means over the federation, from the sums of all silos (in order of silo)."""
    by_model: dict[int, dict[str, list[tuple[float, float]]]] = {}
    silos: dict[int, set[str]] = {}
    for row in rows:
        metrics = by_model.setdefault(row.model_index, {})
        metrics.setdefault(row.metric, []).append((row.total, row.num))
        silos.setdefault(row.model_index, set()).add(row.silo_id)
    points = []
    for index in sorted(by_model):
        nums = {k: sum(n for _, n in v) for k, v in by_model[index].items()}
        means = {k: sum(t for t, _ in v) / nums[k] for k, v in by_model[index].items()}
        points.append(
            MetricPoint(
                model_index=index,
                metrics=means,
                num_silos=len(silos[index]),
                num_samples=max(nums.values()),
            )
        )
    return points
