"""Rows of the database as status objects. Of many rows this takes long: in a thread."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from domo.api.schema import Event, Participant, RoundRecord, RunSummary, SiloRound
from domo.metrics.names import primary_of
from domo.run_config import RunConfig
from domo_server.events.kinds import KINDS, EventKind
from domo_server.store import rows


def round_record(row: rows.RoundRecord) -> RoundRecord:
    """One round."""
    return RoundRecord(
        round_index=row.round_index,
        state=row.state,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        duration_s=row.duration_s,
        local_lr=row.local_lr,
        reference_steps=row.reference_steps,
        participants=[
            Participant(
                silo_id=part.silo_id,
                weight=part.weight,
                num_steps=part.num_steps,
                update_bytes=sum(num_bytes for _, num_bytes in part.vectors),
                update_norm=part.update_norm,
                train_loss=part.train_loss,
                cosine=part.cosine,
                metrics=part.metrics,
            )
            for part in row.participants
        ],
        left_out=row.left_out,
        train_loss=row.train_loss,
        drift=row.drift,
        closed_by=row.closed_by,
        closed_by_silo=row.closed_by_silo,
        times=row.times,
        train_metrics=_means(row.participants),
    )


def _means(parts: Sequence[rows.Participant]) -> dict[str, float]:
    """Weighted means of what all participants have logged."""
    logged = parts[0].metrics if parts else ()
    names = [name for name in logged if all(name in part.metrics for part in parts)]
    total = sum(part.weight for part in parts)
    return {n: sum(part.weight * part.metrics[n] for part in parts) / total for n in names}


def summary_of(
    row: rows.RunRow, config: RunConfig, latest: Mapping[str, float], **now: Any
) -> RunSummary:
    """A run, short.

    Args:
        row: The run.
        config: Its configuration.
        latest: Its newest test numbers.
        now: What the coordinator knows beside.
    """
    primary = row.best_metric or primary_of(latest, config.primary_metric)
    return RunSummary(
        run_id=row.run_id,
        name=row.name,
        method=config.method,
        task=config.task,
        num_rounds=config.num_rounds,
        rounds_done=row.rounds_done,
        accuracy=latest.get("accuracy"),
        loss=latest.get("loss"),
        latest=latest,
        primary_metric=primary,
        primary_better=None if primary is None else config.better_of(primary),
        primary_value=None if primary is None else latest.get(primary),
        best_index=row.best_index,
        best_value=row.best_value,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        **now,
    )


def silo_round(row: rows.RoundRecord, silo_id: str) -> SiloRound | None:
    """A silo's part in one round; None: the round was not this silo's."""
    mine = next((p for p in row.participants if p.silo_id == silo_id), None)
    times = None if row.times is None else row.times.silos.get(silo_id)
    if mine is None and silo_id not in row.left_out and times is None:
        return None
    return SiloRound(
        round_index=row.round_index,
        state=row.state,
        took_part=mine is not None,
        left_out=row.left_out.get(silo_id),
        num_steps=None if mine is None else mine.num_steps,
        update_norm=None if mine is None else mine.update_norm,
        train_loss=None if mine is None else mine.train_loss,
        times=times,
        span_s=None if row.times is None else row.times.span_s,
        metrics={} if mine is None else mine.metrics,
    )


def event_of(row: rows.EventRow) -> Event:
    """One event; of a kind that another version knows, plain."""
    kind = KINDS.get(row.kind, EventKind(row.kind))
    return Event(**asdict(row), level=kind.level, colour=kind.colour)
