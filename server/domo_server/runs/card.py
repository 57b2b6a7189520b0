"""What the database says of a run's model: the means of its tests, and its card."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import domo
from domo.api.schema import ENDED, MetricPoint
from domo.model.card import (
    CardPoint,
    CardSilo,
    ModelCard,
    of_config,
)
from domo_server.store.rows import EvaluationRow, RoundRecord, RunRow
from domo_server.store.store import Store


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


def make_card(store: Store, row: RunRow, layout_digest: str) -> ModelCard:
    """The card of the newest committed model.

    Args:
        store: Where the run is recorded.
        row: The run.
        layout_digest: Hex, of its model.
    """
    run_id, r = row.run_id, row.rounds_done
    places = store.enrolled(run_id)
    committed = [x for x in store.rounds_of(run_id) if x.round_index < r]
    took_part = Counter(p.silo_id for x in committed for p in x.participants)
    points = metric_points(store.evaluations_of(run_id))
    fields = of_config(row.run_config())
    return ModelCard(
        **fields | {"name": row.name},
        run_id=run_id,
        state=row.state if row.state in ENDED else None,
        round_index=r,
        num_params=row.num_params,
        silos=[
            CardSilo(
                silo_id=s,
                num_samples=places[s].num_samples if s in places else None,
                rounds=took_part[s],
            )
            for s in sorted(took_part)
        ],
        points=[CardPoint(**p.model_dump()) for p in points if p.model_index <= r],
        layout_digest=layout_digest,
        checkpoint_digest=row.checkpoint_digest,
        software_version=domo.__version__,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        training_s=_length(committed),
    )


def _length(rounds: Sequence[RoundRecord]) -> float | None:
    known = [r.duration_s for r in rounds if r.duration_s is not None]
    return round(sum(known), 1) if known else None
