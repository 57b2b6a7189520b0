"""A federation with a history: a dozen runs that differ in everything that a table can sort by."""

from domo.api.held_up import HeldUp
from domo.api.schema import RunDetail, RunState
from tests.support.played.crowd import crowd
from tests.support.played.made_up import Federation

METHODS = ["DOMO", "FedAvg", "DOMO-S", "FedAvgSLM"]
TASKS = ["digits", "cifar10", "my_hospital.scans:Tumours"]
STATES: list[RunState] = ["FINISHED", "FINISHED", "FAILED", "STOPPED", "FINISHED"]
NOTES = "The run to beat.\nTrained on the second export; the first had its labels shifted."


def history(num_silos: int = 16, num_runs: int = 12) -> Federation:
    """`crowd`, and before its run so many that have ended; every fourth of them is archived."""
    it = crowd(num_silos)
    for i in reversed(range(1, num_runs + 1)):
        method, task = METHODS[i % 4], TASKS[i % 3]
        it.run_list.append(
            RunDetail(
                run_id=f"{i}-{method.lower()}-{i:02d}",
                name=f"{method.lower()}-{i:02d}",
                method=method,
                task=task,
                state=STATES[i % 5],
                num_rounds=50,
                rounds_done=50 if STATES[i % 5] == "FINISHED" else 7 * (i % 4),
                accuracy=None if i % 4 == 0 else 0.5 + ((i * 7) % 12) / 30,
                loss=None if i % 4 == 0 else 1.5 - ((i * 7) % 12) / 12,
                created_at=f"2026-01-{i:02d}T09:00:00Z",
                started_at=f"2026-01-{i:02d}T09:01:00Z",
                finished_at=f"2026-01-{i:02d}T10:{i:02d}:00Z",
                training_s=60.0 * ((i * 5) % 13),
                complete=i % 2 == 0,
                tags=[["baseline"], ["paper", "seed 3"], []][i % 3],
                notes=NOTES if i == 7 else "",
                archived=i % 4 == 0,
                config={"method": method, "task": task},
                roster=["silo-00"],
            )
        )
    judged = {"latest": {"auc": 0.912}, "primary_metric": "auc", "primary_better": "higher"}
    best = {"primary_value": 0.912, "best_index": 9, "best_value": 0.934}
    (place,) = (i for i, run in enumerate(it.run_list) if run.name == "fedavgslm-03")
    it.run_list[place] = it.run_list[place].model_copy(update={**judged, **best})
    return it


def stall(it: Federation) -> None:
    """Its current run makes no progress: five silos are gone, and one fails."""
    gone = [f"silo-{i:02d}" for i in range(4, 9)]
    why = "its connection broke: its process ended, or the network did"
    failure = "failed: out of memory: CUDA out of memory. Tried to allocate 2.00 GiB"
    it.run_list[0] = it.run_list[0].model_copy(
        update={
            "stalled": f"round 7 cannot close without {', '.join(gone[:3])} and 3 more. They went",
            "stalled_s": 12.0,
            "held_up_by": [
                HeldUp(silo_ids=gone, why=why, help="Start domo-client there again, or drop it"),
                HeldUp(silo_ids=["silo-14"], why=failure, help="Its page says what to do"),
            ],
            "waiting_for": [*gone, "silo-14"],
        }
    )
    for i, silo in enumerate(it.silo_list):
        if silo.silo_id in gone:
            away = {"phase": "offline", "away": why, "last_seen_s": 95.0}
            it.silo_list[i] = silo.model_copy(update=away)
