"""How long a run has waited and trained, and what is left of it."""

from datetime import datetime
from typing import TypedDict

from domo_server.runs.run import Run
from domo_server.store.rows import RunRow
from domo_server.view.run_stats import RunStats


class Durations(TypedDict):
    """Fields of a `RunSummary`."""

    waiting_s: float | None
    training_s: float | None
    remaining_s: float | None


def durations(row: RunRow, live: Run | None, stats: RunStats, num_rounds: int) -> Durations:
    """The durations of one run.

    Args:
        row: Of the database.
        live: The run, if it is the current one.
        stats: Over its rounds.
        num_rounds: R.
    """
    under_way = live is not None and live.ready and live.roster.frozen is not None
    training_s = stats.training_s
    if live is not None and under_way and not live.state.ended:
        in_rounds = live.state.round_index < num_rounds
        training_s = (training_s or 0.0) + (live.participants.times.working_s if in_rounds else 0.0)
        if row.rounds_done < live.state.round_index:  # the round before is being committed
            training_s += live.participants.times.before_s
    return Durations(
        waiting_s=_between(row.started_at, row.began_at),
        training_s=None if training_s is None else round(training_s, 1),
        remaining_s=_remaining(live, stats, num_rounds) if under_way else None,
    )


def _remaining(live: Run | None, stats: RunStats, num_rounds: int) -> float | None:
    """Rounds to come by the length of the last ones; of the open one, what it has not had yet."""
    if live is None or stats.recent_s is None:
        return None
    left = num_rounds - live.state.round_index
    times = live.participants.times
    spent = min(stats.recent_s, max(0.0, times.working_s - times.stalled_s)) if left else 0.0
    return round(left * stats.recent_s - spent, 1)


def _between(begun: str | None, ended: str | None) -> float | None:
    """By the coordinator's wall clock, which somebody may have set back."""
    if begun is None or ended is None:
        return None
    passed = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
    return round(max(0.0, passed.total_seconds()), 1)
