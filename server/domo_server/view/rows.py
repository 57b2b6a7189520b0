"""Rows of the database as status objects. Of many rows this takes long: in a thread."""

from dataclasses import asdict

from domo.api.schema import Event, Participant, RoundRecord, SiloRound
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
            )
            for part in row.participants
        ],
        left_out=row.left_out,
        train_loss=row.train_loss,
        drift=row.drift,
        closed_by=row.closed_by,
        closed_by_silo=row.closed_by_silo,
        times=row.times,
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
    )


def event_of(row: rows.EventRow) -> Event:
    """One event; of a kind that another version knows, plain."""
    kind = KINDS.get(row.kind, EventKind(row.kind))
    return Event(**asdict(row), level=kind.level, colour=kind.colour)
