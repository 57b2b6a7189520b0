"""Rows of the rounds table as status objects. Of many rows this takes long: in a thread."""

from collections.abc import Mapping
from typing import Any

from domo.api.schema import Participant, RoundRecord, SiloRound


def round_record(row: Mapping[str, Any]) -> RoundRecord:
    """One row."""
    fields = ("silo_id", "weight", "num_steps", "update_norm", "train_loss")
    return RoundRecord(
        round_index=row["round_index"],
        state=row["state"],
        opened_at=row["opened_at"],
        closed_at=row["closed_at"],
        duration_s=row["duration_s"],
        local_lr=row["local_lr"],
        reference_steps=row["reference_steps"],
        participants=[
            Participant(**{f: p[f] for f in fields}, cosine=p.get("cosine"))
            for p in row["participants"]
        ],
        left_out=row["left_out"],
        train_loss=row["train_loss"],
        drift=row["drift"],
    )


def silo_round(row: Mapping[str, Any], silo_id: str) -> SiloRound | None:
    """A silo's part in one row; None: the round was not this silo's."""
    mine = next((p for p in row["participants"] if p["silo_id"] == silo_id), None)
    if mine is None and silo_id not in row["left_out"]:
        return None
    known = mine or {}
    return SiloRound(
        round_index=row["round_index"],
        state=row["state"],
        took_part=mine is not None,
        left_out=row["left_out"].get(silo_id),
        num_steps=known.get("num_steps"),
        update_norm=known.get("update_norm"),
        train_loss=known.get("train_loss"),
    )
