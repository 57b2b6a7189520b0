"""A run as named scalars by round."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from domo.api.schema import ENDED, RoundRecord, RunDetail
from domo.model.card import of_config
from domo.run_config import RunConfig

_OF_SILO = ("update_norm", "cosine", "train_loss")


class Point(NamedTuple):
    """One value.

    Attributes:
        name: Such as `test/accuracy` or `silo/site-a/update_norm`.
        step: Index of the model: round r makes x_{r+1}, so its numbers are at r + 1.
        value: Finite.
        at_s: Seconds since 1970: when the round was committed.
    """

    name: str
    step: int
    value: float
    at_s: float


def ends_of(run: RunDetail, rounds: Sequence[RoundRecord]) -> dict[int, float]:
    """When each round was committed, by its points' step; those that are not are left out."""
    committed = [r for r in rounds if r.state == "COMMITTED"]
    return {r.round_index + 1: seconds(r.closed_at or run.created_at) for r in committed}


def points_of(
    run: RunDetail, rounds: Sequence[RoundRecord], earlier: Mapping[int, float] | None = None
) -> list[Point]:
    """All that will not change any more, in order of steps.

    The tests of a model come in silo by silo; they are taken once the next round is committed, or
    the run has ended.

    Args:
        run: With the tests of all its models.
        rounds: Those whose points are wanted.
        earlier: `ends_of` the rounds before them: tests of their models may come late.
    """
    ends = {**(earlier or {}), **ends_of(run, rounds)}
    committed = [r for r in rounds if r.state == "COMMITTED"]
    points = [p for record in committed for p in _of_round(record, ends[record.round_index + 1])]
    for tests in run.metrics:
        step = tests.model_index
        if step < run.rounds_done or run.state in ENDED:
            at_s = ends.get(step, seconds(run.started_at or run.created_at))
            points += [Point(f"test/{k}", step, v, at_s) for k, v in tests.metrics.items()]
    return sorted((p for p in points if math.isfinite(p.value)), key=lambda p: (p.step, p.name))


def _of_round(record: RoundRecord, at_s: float) -> Iterator[Point]:
    values = {
        "round/train_loss": record.train_loss,
        "round/drift": record.drift,
        "round/seconds": record.duration_s,
        "round/local_lr": record.local_lr,
        "round/silos": len(record.participants),
    }
    values |= _logged("train", record.train_metrics)
    for part in record.participants:
        values |= {f"silo/{part.silo_id}/{key}": getattr(part, key) for key in _OF_SILO}
        values |= _logged(f"silo/{part.silo_id}/train", part.metrics)
    for name, value in values.items():
        if value is not None:
            yield Point(name, record.round_index + 1, float(value), at_s)


def _logged(prefix: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """What a loop logged beside the loss, which is there as `train_loss`."""
    return {f"{prefix}/{name}": value for name, value in metrics.items() if name != "loss"}


def settings_of(run: RunDetail) -> dict[str, str | float]:
    """The hyperparameters that the method uses, and what is trained."""
    fields = of_config(RunConfig.stored(run.config))
    found: dict[str, str | float] = {k: fields[k] for k in ("task", "method", "seed")}
    for constant in fields["constants"]:
        value = constant.value
        found[constant.name] = value if isinstance(value, str | int | float) else json.dumps(value)
    return found


def seconds(text: str) -> float:
    """A time of the record as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
