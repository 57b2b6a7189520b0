"""Runs that are made up, of three silos and with many metrics; the newest is judged by its AUC."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from domo.api.measured import (
    MetricPoint,
    MetricTable,
    ModelTables,
    ModelTest,
    SiloTest,
    Spread,
)
from domo.api.schema import Participant, RoundRecord, RunDetail
from tests.support.played.made_up import Federation

SILOS = ["silo-a", "silo-b", "=silo-c"]
ROUNDS = 40
BEST = 30
SPIKE = 20
LEFT_OUT = [11, 12, 13]
"""Rounds, counted from 1, that the first silo was left out of."""
WORST = SILOS[0]
CLASSES = 7
_BEGAN = datetime.fromisoformat("2026-01-05T09:00:00+00:00")


class Judged(Federation):
    """Two runs of 40 rounds each: `2-judged`, open and of 60, and `1-other`."""

    def __init__(self) -> None:
        super().__init__()
        self.run_list = [_run("2-judged", 60, "OPEN"), _run("1-other", ROUNDS, "FINISHED")]
        self.silo_list = []
        self.round_list = [_round(r) for r in range(ROUNDS)]

    async def tests(
        self, run_id: str, after: int = -1, limit: int | None = None
    ) -> Sequence[ModelTest] | None:
        return [_test(i) for i in range(after + 1, ROUNDS + 1)][:limit]

    async def tables(self, run_id: str, which: str = "newest") -> ModelTables | None:
        matrix = [[8.0, 2.0], [1.0, 9.0]]
        bins = {"": [(0.1, 0.2), (0.5, 0.5), (0.9, 0.8)]}
        roc = {"cat": [(0.0, 0.0), (0.1, 0.8), (1.0, 1.0)]}
        return ModelTables(
            model_index=BEST if which == "best" else ROUNDS,
            tables=[
                MetricTable(
                    name="confusion",
                    kind="confusion",
                    labels=["cat", "dog"],
                    matrix=matrix,
                    numbers={"accuracy": 0.85},
                ),
                MetricTable(
                    name="auc", kind="auc", labels=["cat"], curves=roc, numbers={"auc": 0.9}
                ),
                MetricTable(
                    name="calibration",
                    kind="calibration",
                    curves=bins,
                    counts=[5, 2, 9],
                    numbers={"ece": 0.05},
                ),
            ],
        )


def _at(seconds: float) -> str:
    return (_BEGAN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def _auc(index: int) -> float:
    """It rises up to the best model, and falls from then on."""
    return round(0.9 - 0.01 * abs(index - BEST), 6)


def _metrics(index: int) -> dict[str, float]:
    loss = 1e6 if index == SPIKE else 2.4 / (1 + index / 4)
    classes = {f"class-{i}": 0.5 + i / 20 for i in range(CLASSES)}
    return {"loss": loss, "accuracy": index / 50, "auc": _auc(index), **classes}


def _run(run_id: str, num_rounds: int, state: str) -> RunDetail:
    return RunDetail(
        run_id=run_id,
        name=run_id[2:],
        method="DOMO",
        task="digits",
        state=state,  # type: ignore[arg-type]
        num_rounds=num_rounds,
        rounds_done=ROUNDS,
        accuracy=ROUNDS / 50,
        loss=0.2,
        latest=_metrics(ROUNDS),
        primary_metric="auc",
        primary_better="higher",
        primary_value=_auc(ROUNDS),
        best_index=BEST,
        best_value=_auc(BEST),
        created_at=_at(0),
        config={"method": "DOMO", "num_rounds": num_rounds},
        roster=SILOS,
        metrics=[
            MetricPoint(model_index=i, metrics=_metrics(i), num_silos=3, num_samples=90)
            for i in range(ROUNDS + 1)
        ],
    )


def _round(index: int) -> RoundRecord:
    """20 s each."""
    there = SILOS[1:] if index + 1 in LEFT_OUT else SILOS
    return RoundRecord(
        round_index=index,
        state="COMMITTED",
        opened_at=_at(20 * index),
        closed_at=_at(20 * (index + 1)),
        duration_s=20.0,
        local_lr=0.05,
        reference_steps=12,
        participants=[
            Participant(
                silo_id=silo,
                weight=1,
                num_steps=12,
                update_norm=2.0 + i,
                train_loss=2.0 / (1 + index),
                cosine=0.5 if index else None,
                update_bytes=1000,
                metrics={"grad_norm": 1.0 + i} | ({"spare": 1.0} if i == 2 else {}),
            )
            for i, silo in enumerate(there)
        ],
        left_out={} if len(there) == len(SILOS) else {SILOS[0]: "no update in time"},
        train_loss=2.0 / (1 + index),
        train_metrics={"grad_norm": 2.0},
    )


def _test(index: int) -> ModelTest:
    """Of each silo the first has the lowest numbers."""
    here = _metrics(index)
    silos = [
        SiloTest(silo_id=s, metrics={k: v - 0.1 * (2 - i) for k, v in here.items()}, num_samples=30)
        for i, s in enumerate(SILOS)
    ]
    return ModelTest(
        model_index=index,
        metrics=here,
        num_silos=3,
        num_samples=90,
        silos=silos,
        spread={
            k: Spread(lowest=v - 0.2, highest=v, std=0.1, worst=WORST) for k, v in here.items()
        },
    )
