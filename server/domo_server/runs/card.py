"""The card of a run's model, from what the database says."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import domo
from domo.api.schema import ENDED
from domo.model.card import (
    CardPoint,
    CardSilo,
    ModelCard,
    of_config,
)
from domo_server.results.numbers import read_points
from domo_server.store.rows import RoundRecord, RunRow
from domo_server.store.store import Store


def of_best(row: RunRow) -> RunRow:
    """A run as it was when its best model was the newest."""
    assert row.best_index is not None
    return replace(
        row,
        rounds_done=row.best_index,
        checkpoint=row.best_checkpoint,
        checkpoint_digest=row.best_digest,
    )


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
    points = read_points(store, run_id)
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
        primary_metric=row.best_metric,
        best_index=row.best_index,
        best_value=row.best_value,
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
