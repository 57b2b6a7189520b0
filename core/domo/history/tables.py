"""A history as two tables: a row for each model, and a row for each silo and model.

One list of columns says unit, meaning and kind of each, for people and for programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from domo.metrics.names import direction

if TYPE_CHECKING:
    from domo.history.history import History

Kind = Literal["integer", "number", "text", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        unit: `s`, `bytes`, `steps`, ...; `1` for a pure number, empty where there is none.
        text: What it is.
        kind: Of its values.
    """

    unit: str
    text: str
    kind: Kind = "number"

    def __str__(self) -> str:
        """The meaning, with the unit where it is none of a pure number."""
        return f"{self.text} [{self.unit}]" if self.unit not in ("", "1") else self.text


MODEL = {
    "model_index": Column("", "i of the server model x_i; x_0 is the start", "integer"),
    "round_index": Column("", "the round that made it, from 0", "integer"),
}
OF_ROUND = {
    "num_silos": Column("silos", "whose updates are in x_i", "integer"),
    "num_steps": Column("steps", "local steps of all participants, the sum of P_k", "integer"),
    "local_lr": Column("1", "eta, the local step size"),
    "train_loss": Column("1", "training loss, weighted mean over the participants"),
    "drift": Column("1", "spread of the updates around their mean, relative to it"),
    "duration_s": Column("s", "from the round's opening to the next model, without pauses"),
    "update_bytes": Column("bytes", "all updates on the wire", "integer"),
}
SILO = Column("", "the silo's name", "text")
OF_SILO = {
    "took_part": Column("", "whether its update is in x_i", "flag"),
    "num_steps": Column("steps", "P_k, its local steps", "integer"),
    "train_loss": Column("1", "training loss, mean over its steps"),
    "weight": Column("1", "omega_k, raw"),
    "update_bytes": Column("bytes", "its update on the wire", "integer"),
    "update_norm": Column("1", "Euclidean norm of its update d_k"),
    "cosine": Column("1", "of its update to the server momentum before the round, -1 to 1"),
    "fetching_s": Column("s", "until it had the round's model"),
    "testing_s": Column("s", "it tested that model"),
    "training_s": Column("s", "its local steps"),
    "uploading_s": Column("s", "until its update was accepted"),
    "waiting_s": Column("s", "the rest of the round"),
    "left_out": Column("", "why its update is not in x_i", "text"),
}


def columns_of_rounds(history: History) -> dict[str, Column]:
    """The columns of the table with a row for each model."""
    logged = _logged_names(rnd.train_metrics for rnd in history.rounds)
    return {
        **MODEL,
        **OF_ROUND,
        **{f"train_{n}": _logged(n, "weighted mean over the participants") for n in logged},
        **{f"test_{n}": _tested(n, "x_i over the test data of all silos") for n in history.metrics},
    }


def columns_of_silos(history: History) -> dict[str, Column]:
    """The columns of the table with a row for each silo and model."""
    logged = _logged_names(part.train_metrics for rnd in history.rounds for part in rnd.silos)
    tested = _names(own for test in history.tests for own in test.silos.values())
    first = history.metrics
    tested.sort(key=lambda name: (first.index(name) if name in first else len(first), name))
    return {
        "model_index": MODEL["model_index"],
        "silo_id": SILO,
        "round_index": MODEL["round_index"],
        **OF_SILO,
        **{f"train_{n}": _logged(n, "mean over its steps") for n in logged},
        **{f"test_{n}": _tested(n, "x_i on the silo's own test data") for n in tested},
    }


def round_rows(history: History) -> list[dict[str, Any]]:
    """The rows of the table with a row for each model; what is not known is left out."""
    tests = {test.model_index: test for test in history.tests}
    made = {rnd.round_index + 1: rnd for rnd in history.rounds}
    rows = []
    for i in sorted({*tests, *made}):
        row: dict[str, Any] = {"model_index": i}
        if rnd := made.get(i):
            row |= {
                "round_index": rnd.round_index,
                "num_silos": len(rnd.participants),
                "num_steps": sum(rnd.steps),
                "local_lr": rnd.local_lr,
                "train_loss": rnd.train_loss,
                "drift": rnd.drift,
                "duration_s": rnd.duration_s,
                "update_bytes": rnd.update_bytes,
            } | _named("train_", rnd.train_metrics)
        if test := tests.get(i):
            row |= _named("test_", test.metrics)
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows


_OF_SILO = (
    "num_steps", "train_loss", "weight", "update_bytes", "update_norm", "cosine",
    "fetching_s", "testing_s", "training_s", "uploading_s", "waiting_s", "left_out",
)  # fmt: skip


def silo_rows(history: History) -> list[dict[str, Any]]:
    """The rows of the table with a row for each silo and model; likewise."""
    tests = {test.model_index: test.silos for test in history.tests}
    made = {rnd.round_index + 1: rnd for rnd in history.rounds}
    rows = []
    for i in sorted({*tests, *made}):
        rnd, own = made.get(i), tests.get(i, {})
        there = {part.silo_id: part for part in (rnd.silos if rnd else ())}
        for silo_id in dict.fromkeys([*there, *own]):
            row: dict[str, Any] = {"model_index": i, "silo_id": silo_id}
            if rnd is not None:
                row["round_index"] = rnd.round_index
                row["took_part"] = silo_id in there and there[silo_id].left_out is None
            if part := there.get(silo_id):
                row |= {name: getattr(part, name) for name in _OF_SILO}
                row |= _named("train_", part.train_metrics)
            row |= _named("test_", own.get(silo_id, {}))
            rows.append({name: value for name, value in row.items() if value is not None})
    return rows


def _named(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Numbers under the names of their columns; the loss of training has one of its own."""
    return {
        f"{prefix}{name}": value
        for name, value in metrics.items()
        if (prefix, name) != ("train_", "loss")
    }


def _names(found: Iterable[Mapping[str, float]]) -> list[str]:
    return sorted({name for metrics in found for name in metrics})


def _logged_names(found: Iterable[Mapping[str, float]]) -> list[str]:
    """All but the loss, which has a column of its own."""
    return [name for name in _names(found) if name != "loss"]


def _logged(name: str, how: str) -> Column:
    return Column("1", f"{name} as the loop logged it, {how}")


def _tested(name: str, where: str) -> Column:
    """A test metric: its unit is the task's, so only the way that is better is known."""
    way = direction(name)
    return Column("1", f"{name} of {where}" + (f"; {way} is better" if way else ""))
