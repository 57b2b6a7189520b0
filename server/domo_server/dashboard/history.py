"""A run's history as a table, a row for each silo in each round: as CSV and as Parquet."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from domo.api.measured import ModelTest
from domo.api.schema import (
    RoundRecord,
    RunDetail,
)
from domo.names import one_line
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


def history_csv(
    run: RunDetail, rounds: Sequence[RoundRecord], tests: Sequence[ModelTest] = ()
) -> str:
    """The table as CSV (RFC 4180) with a head; what is not known is empty.

    `model_index` 0 is the start; x_i is the model after round i, so row i has the round with
    `round_index` i - 1, and the tests of the model that it made: `test_` over the federation,
    `silo_test_` of the row's silo alone.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, columns(run, rounds, tests))
    table.writeheader()
    for row in history_rows(run, rounds, tests):
        table.writerow({key: _cell(value) for key, value in row.items()})
    return text.getvalue()


def columns(
    run: RunDetail, rounds: Sequence[RoundRecord] = (), tests: Sequence[ModelTest] = ()
) -> list[str]:
    """The head of the table."""
    tested = sorted({name for point in run.metrics for name in point.metrics})
    own = sorted({name for test in tests for silo in test.silos for name in silo.metrics})
    logged = {name for record in rounds for part in record.participants for name in part.metrics}
    trained = sorted(logged - {"loss"})
    return [
        "model_index",
        *(f"test_{n}" for n in tested),
        *_ROUND,
        "round_train_loss",
        *(f"round_train_{n}" for n in trained),
        *_CLOSED,
        *_TIMES,
        *_SILO,
        *(f"train_{n}" for n in trained),
        *(f"silo_test_{n}" for n in own),
    ]


def history_rows(
    run: RunDetail, rounds: Sequence[RoundRecord], tests: Sequence[ModelTest] = ()
) -> Iterator[dict[str, Any]]:
    """Its rows, without what is not known."""
    told = {point.model_index: point.metrics for point in run.metrics}
    own = {test.model_index: {s.silo_id: s.metrics for s in test.silos} for test in tests}
    for row in _rows(0 in told, rounds, own):
        index, silo_id = row["model_index"], row.get("silo_id", "")
        mine = own.get(index, {}).get(silo_id, {})
        shown = {f"test_{k}": v for k, v in told.get(index, {}).items()} | row
        yield shown | {f"silo_test_{k}": v for k, v in mine.items()}


def _rows(
    tested_start: bool, rounds: Sequence[RoundRecord], own: Mapping[int, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    if tested_start:
        yield from ({"model_index": 0, "silo_id": s} for s in own.get(0, {}))
        if not own.get(0):
            yield {"model_index": 0}
    for record in rounds:
        index, seen = record.round_index + 1, set(record.left_out)
        shared = {name: getattr(record, name) for name in (*_ROUND, *_CLOSED)}
        shared |= {"model_index": index, "round_train_loss": record.train_loss}
        shared |= {name: getattr(record.times, name, None) for name in _TIMES}
        shared |= _named("round_train_", record.train_metrics)
        for silo in record.participants:
            seen.add(silo.silo_id)
            about = {name: getattr(silo, name) for name in _ABOUT_SILO}
            about |= _named("train_", silo.metrics) | _times_of(record, silo.silo_id)
            yield {**shared, "silo_id": silo.silo_id, "took_part": True, **about}
        for silo_id, why in record.left_out.items():
            about = {"left_out": why, **_times_of(record, silo_id)}
            yield {**shared, "silo_id": silo_id, "took_part": False, **about}
        tested = {*own.get(index, {}), *(record.times.silos if record.times else ())}
        for silo_id in sorted(tested - seen):  # it has only tested
            about = _times_of(record, silo_id)
            yield {**shared, "silo_id": silo_id, "took_part": False, **about}


def _named(prefix: str, logged: Mapping[str, float]) -> dict[str, float]:
    """What a loop logged beside the loss, which has a column of its own."""
    return {f"{prefix}{name}": value for name, value in logged.items() if name != "loss"}


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
    value = one_line(value, None) if isinstance(value, str) else value
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def history_parquet(
    run: RunDetail, rounds: Sequence[RoundRecord], tests: Sequence[ModelTest] = ()
) -> bytes:
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
    head = columns(run, rounds, tests)
    schema = pa.schema([(name, kind(name)) for name in head], metadata=metadata)
    found = history_rows(run, rounds, tests)
    rows = [{k: _value(k, v) for k, v in row.items()} for row in found]
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")
    return file.getvalue()


def _value(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name in _INSTANTS and value is not None else value
