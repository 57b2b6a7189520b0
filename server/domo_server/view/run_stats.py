"""What a run's rounds and evaluations come to, read again only as far as there is something new."""

import asyncio
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from domo.api.measured import MetricPoint
from domo_server.results.numbers import read_points
from domo_server.store.rows import RoundRecord, RunRow
from domo_server.store.store import Store

NUM_RECENT = 9
"""Over how many of the last rounds their length is taken."""


class RunStats(NamedTuple):
    """Figures over a run's rounds and evaluations.

    Attributes:
        points: Test metrics by model, oldest first.
        recent_s: Median length of the last rounds, without what was paused or stalled; None before
            the first.
        training_s: Length of all rounds, without what was paused; None before the first.
        complete: Whether no silo was left out of any round; None before the first.
    """

    points: Sequence[MetricPoint]
    recent_s: float | None
    training_s: float | None
    complete: bool | None


class _Known(NamedTuple):
    """The figures with what they were made of: committed rounds never change."""

    key: tuple[Any, ...]
    num_reported: Mapping[int, int]
    stats: RunStats
    last_committed: int
    lengths: Sequence[float]
    training_s: float
    complete: bool


class StatsOfRuns:
    """The figures of all runs.

    Args:
        store: Where rounds and evaluations are.
    """

    def __init__(self, store: Store):
        self._store = store
        self._known: dict[str, _Known] = {}

    async def of(self, row: RunRow, live: Any) -> RunStats:
        """Of one run.

        Args:
            row: Of the database.
            live: Its tests, if it is the current one.
        """
        run_id = row.run_id
        key = (row.state, row.rounds_done, live.revision if live is not None else -1)
        known = self._known.get(run_id)
        if known is None or known.key != key:
            reported = {} if live is None else live.reported
            num_reported = {index: len(silos) for index, silos in reported.items()}
            if live is None:
                known = None  # it is read as a whole, once
            known = await asyncio.to_thread(self._read, run_id, key, num_reported, known)
            self._known[run_id] = known
        return known.stats

    def _read(
        self,
        run_id: str,
        key: tuple[Any, ...],
        num_reported: Mapping[int, int],
        known: _Known | None,
    ) -> _Known:
        points, last, lengths, training_s, complete = self._before(known)
        first = _first_changed(num_reported, known)
        newer = read_points(self._store, run_id, first)
        points = [*(p for p in points if p.model_index < first), *newer]
        records = self._store.rounds_of(run_id, last)
        final = [r for r in records if r.state == "COMMITTED"]
        shown = _recent([*lengths, *_lengths(final)])
        training_s += sum(r.duration_s or 0.0 for r in final)
        any_round = last >= 0 or bool(records)
        stats = RunStats(
            points,
            median(shown) if shown else None,
            training_s if last >= 0 or final else None,
            complete and not _left_out(records) if any_round else None,
        )
        return _Known(
            key,
            num_reported,
            stats,
            final[-1].round_index if final else last,
            shown,
            training_s,
            complete and not _left_out(final),
        )

    @staticmethod
    def _before(
        known: _Known | None,
    ) -> tuple[Sequence[MetricPoint], int, Sequence[float], float, bool]:
        if known is None:
            return [], -1, [], 0.0, True
        so_far = known.lengths, known.training_s, known.complete
        return known.stats.points, known.last_committed, *so_far


def _lengths(records: Sequence[RoundRecord]) -> list[float]:
    """Of whole rounds; one that was open when the coordinator ended was longer than it saw."""
    return [
        max(0.0, r.duration_s - (r.times.stalled_s if r.times else 0.0))
        for r in records
        if r.duration_s is not None and not (r.times and r.times.interrupted)
    ]


def _recent(lengths: Sequence[float]) -> Sequence[float]:
    return lengths[-NUM_RECENT:]


def _left_out(records: Sequence[RoundRecord]) -> bool:
    return any(r.left_out for r in records)


def _first_changed(num_reported: Mapping[int, int], known: _Known | None) -> int:
    """The first model whose numbers may have changed; the newest two always may."""
    if known is None or not known.stats.points:
        return 0
    changed = [i for i, n in num_reported.items() if known.num_reported.get(i) != n]
    return max(0, min([*changed, known.stats.points[-1].model_index - 1]))
