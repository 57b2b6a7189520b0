"""A run's history as a table, a row for each silo in each round: as CSV and as Parquet."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from domo.api.schema import RoundRecord, RunDetail
from domo_server.dashboard.errors import no_parquet

_ROUND = ("state", "opened_at", "closed_at", "duration_s", "local_lr", "reference_steps", "drift")
_CLOSED = ("closed_by", "closed_by_silo")
_TIMES = ("span_s", "collect_s", "fold_s", "commit_s", "paused_s", "stalled_s")
_ABOUT_SILO = ("weight", "num_steps", "update_norm", "train_loss", "cosine")
_OF_SILO = ("fetch_at_s", "fetch_s", "test_s", "train_s", "upload_s", "wait_s", "unfinished")
_TRIED = ("fetch", "train", "upload")
_TRIES = tuple(f"{work}_tries" for work in _TRIED)
_SILO = ("silo_id", "took_part", "left_out", *_ABOUT_SILO, *_OF_SILO, *_TRIES)
FORMAT_VERSION = 1
"""Of the Parquet file."""
_INTEGERS = ("model_index", "num_steps", *_TRIES)
_TEXTS = ("state", "silo_id", "left_out", "unfinished", *_CLOSED)
_INSTANTS = ("opened_at", "closed_at")


def history_csv(run: RunDetail, rounds: Sequence[RoundRecord]) -> str:
    """The table as CSV (RFC 4180) with a head; what is not known is empty.

    `model_index` 0 is the start; x_i is the model after round i, so row i has the round with
    `round_index` i - 1, and the tests of the model that it made.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, columns(run))
    table.writeheader()
    for row in history_rows(run, rounds):
        table.writerow({key: _cell(value) for key, value in row.items()})
    return text.getvalue()


def columns(run: RunDetail) -> list[str]:
    """The head of the table."""
    tested = sorted({name for point in run.metrics for name in point.metrics})
    return [
        "model_index",
        *(f"test_{n}" for n in tested),
        *_ROUND,
        "round_train_loss",
        *_CLOSED,
        *_TIMES,
        *_SILO,
    ]


def history_rows(run: RunDetail, rounds: Sequence[RoundRecord]) -> Iterator[dict[str, Any]]:
    """Its rows, without what is not known."""
    tests = {point.model_index: point.metrics for point in run.metrics}
    for row in _rows(0 in tests, rounds):
        yield {f"test_{k}": v for k, v in tests.get(row["model_index"], {}).items()} | row


def _rows(tested_start: bool, rounds: Sequence[RoundRecord]) -> Iterator[dict[str, Any]]:
    if tested_start:
        yield {"model_index": 0}
    for record in rounds:
        shared = {name: getattr(record, name) for name in (*_ROUND, *_CLOSED)}
        shared |= {"model_index": record.round_index + 1, "round_train_loss": record.train_loss}
        shared |= {name: getattr(record.times, name, None) for name in _TIMES}
        told = {p.silo_id for p in record.participants} | {*record.left_out}
        for silo in record.participants:
            own = {name: getattr(silo, name) for name in _ABOUT_SILO}
            own |= _times_of(record, silo.silo_id)
            yield {**shared, "silo_id": silo.silo_id, "took_part": True, **own}
        for silo_id, why in record.left_out.items():
            own = {"left_out": why, **_times_of(record, silo_id)}
            yield {**shared, "silo_id": silo_id, "took_part": False, **own}
        for silo_id in record.times.silos if record.times else ():
            if silo_id not in told:  # it only tested
                own = _times_of(record, silo_id)
                yield {**shared, "silo_id": silo_id, "took_part": False, **own}


def _times_of(record: RoundRecord, silo_id: str) -> dict[str, Any]:
    """Where a silo's time went in a round."""
    times = record.times.silos.get(silo_id) if record.times else None
    if times is None:
        return {}
    tries = {f"{work}_tries": n for work, n in times.tries.items() if work in _TRIED}
    return {name: getattr(times, name) for name in _OF_SILO} | tries


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula becomes plain text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def history_parquet(run: RunDetail, rounds: Sequence[RoundRecord]) -> bytes:
    """The table as Parquet; what is not known is null.

    The run itself, with its config and roster, is JSON under `domo_run` in the schema's metadata.

    Raises:
        ApiError: pyarrow is not installed; says how to get it.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise no_parquet() from None

    def kind(name: str) -> Any:
        if name in _INTEGERS:
            return pa.int64()
        if name in _TEXTS:
            return pa.string()
        if name in _INSTANTS:
            return pa.timestamp("ms", tz="UTC")
        return pa.bool_() if name == "took_part" else pa.float64()

    about = run.model_dump_json(exclude={"metrics", "waiting_for", "remaining_s"})
    metadata = {"domo_run": about, "domo_format_version": json.dumps(FORMAT_VERSION)}
    schema = pa.schema([(name, kind(name)) for name in columns(run)], metadata=metadata)
    rows = [{k: _value(k, v) for k, v in row.items()} for row in history_rows(run, rounds)]
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")
    return file.getvalue()


def _value(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name in _INSTANTS and value is not None else value
