"""A run's history as a Parquet file: the rows of `history_csv` with types."""

import io
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from domo.api.schema import RoundRecord, RunDetail
from domo_server.dashboard.history_csv import columns, history_rows

FORMAT_VERSION = 1
_INTEGERS = ("model_index", "num_steps")
_TEXTS = ("state", "silo_id", "left_out")
_TIMES = ("opened_at", "closed_at")


def history_parquet(run: RunDetail, rounds: Sequence[RoundRecord]) -> bytes:
    """The table as Parquet; what is not known is null.

    The run itself, with its config and roster, is JSON under `domo_run` in the schema's metadata.
    """
    import pyarrow as pa
    from pyarrow import parquet

    def kind(name: str) -> Any:
        if name in _INTEGERS:
            return pa.int64()
        if name in _TEXTS:
            return pa.string()
        if name in _TIMES:
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
    return datetime.fromisoformat(value) if name in _TIMES and value is not None else value
