"""A run's history as a table: a row for each silo in each round."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from domo_server.status import RoundRecord, RunDetail

_ROUND = ("state", "opened_at", "closed_at", "duration_s", "local_lr", "reference_steps", "drift")
_ABOUT_SILO = ("weight", "num_steps", "update_norm", "train_loss", "cosine")
_SILO = ("silo_id", "took_part", "left_out", *_ABOUT_SILO)


def history_csv(run: RunDetail, rounds: Sequence[RoundRecord]) -> str:
    """The table as CSV (RFC 4180) with a head; what is not known is empty.

    `model_index` 0 is the start; x_i is the model after round i, so row i has the round with
    `round_index` i - 1, and the tests of the model that it made.
    """
    tests = {point.model_index: point.metrics for point in run.metrics}
    metrics = sorted({name for point in tests.values() for name in point})
    text = io.StringIO()
    head = ["model_index", *(f"test_{name}" for name in metrics), *_ROUND, "round_train_loss"]
    table = csv.DictWriter(text, [*head, *_SILO])
    table.writeheader()
    for row in _rows(tests, rounds):
        named = {f"test_{k}": v for k, v in tests.get(row["model_index"], {}).items()}
        table.writerow({key: _cell(value) for key, value in {**named, **row}.items()})
    return text.getvalue()


def _rows(tests: Any, rounds: Sequence[RoundRecord]) -> Iterator[dict[str, Any]]:
    if 0 in tests:
        yield {"model_index": 0}
    for record in rounds:
        shared = {name: getattr(record, name) for name in _ROUND}
        shared |= {"model_index": record.round_index + 1, "round_train_loss": record.train_loss}
        for silo in record.participants:
            own = {name: getattr(silo, name) for name in _ABOUT_SILO}
            yield {**shared, "silo_id": silo.silo_id, "took_part": "yes", **own}
        for silo_id, why in record.left_out.items():
            yield {**shared, "silo_id": silo_id, "took_part": "no", "left_out": why}


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula becomes plain text."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
