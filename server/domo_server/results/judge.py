"""Judges models by the run's primary metric, keeps the best, and says when it is enough.

A model is judged once; its number is recorded and never changes again, so the same model is the
best whenever the coordinator dies. The row is the commit point: the best model's file is durable
before it, and the one before goes after it.
"""

from collections.abc import Mapping
from pathlib import Path

from domo.metrics.selection import Judged, Jury
from domo.run_config import RunConfig
from domo_server.results.numbers import read_points, read_shared
from domo_server.store.checkpoint import Checkpoint
from domo_server.store.kept import keep_best, prune_best
from domo_server.store.measured import Judgement
from domo_server.store.rows import RunChanges
from domo_server.store.store import Store


class Judge:
    """Of one run. Its calls block.

    Args:
        store: Where numbers are, and judgements go.
        run_id: The run.
        config: Its configuration.
        checkpoints: The folder of its checkpoints.
    """

    def __init__(self, store: Store, run_id: str, config: RunConfig, checkpoints: Path):
        self._store, self._run_id, self._config = store, run_id, config
        self._checkpoints = checkpoints
        self._jury = self._new_jury()

    def _new_jury(self) -> Jury:
        c = self._config
        return Jury(c.primary_metric, c.better_of, c.stop_after, c.stop_min_delta)

    def load(self) -> None:
        """Know what was judged before."""
        self._jury = self._new_jury()
        for j in self._store.judgements_of(self._run_id):
            self._jury.recall(j.metric, Judged(j.model_index, j.value, j.num_silos))

    @property
    def next_index(self) -> int:
        """The first model that may have to be judged."""
        judged = self._jury.judged
        return judged[-1].model_index + 1 if judged else 0

    @property
    def why_enough(self) -> str | None:
        """Why the run is to end before its last round, in words; None: it goes on."""
        return self._jury.why_enough

    def judge(self, made: Checkpoint) -> str | None:
        """Judge x_i.

        Args:
            made: x_i, whose file is durable.

        Returns:
            What its admin should know of the metric; None: nothing.

        Raises:
            OSError, CoordinatorUnavailableError: It is to be tried again.
        """
        index, row = made.round_index, self._store.run(self._run_id)
        if row is None or row.rounds_done < index:
            return None  # its round could not be committed
        points = read_points(self._store, self._run_id, index)
        point = next((p for p in points if p.model_index == index), None)
        found = point.metrics if point is not None else {}
        first = not any(j.num_silos for j in self._jury.judged)
        shared = None
        if self._jury.metric is None:
            shared = [n for n in read_shared(self._store, self._run_id, index) if n in found]
        tested = point.num_silos if point is not None else 0
        judged = self._jury.judge(index, found, tested, shared)
        try:
            self._record(made, judged, found)
        except BaseException:
            self._jury.take_back()
            raise
        return self._note(judged, found) if first and found else None

    def _record(self, made: Checkpoint, judged: Judged, found: Mapping[str, float]) -> None:
        index, metric, best = made.round_index, self._jury.metric, self._jury.choice.best
        has_tables = bool(self._store.tables_of(self._run_id, index, index))
        judgement = Judgement(
            index, metric, judged.value, judged.num_silos, found if has_tables else {}
        )
        if best is None or best.model_index != index:
            keep = [] if best is None else [best.model_index]
            self._store.judge(self._run_id, judgement, {}, keep)
            return
        name = keep_best(self._checkpoints, made)
        changes: RunChanges = {
            "best_index": index,
            "best_metric": metric,
            "best_value": judged.value,
            "best_checkpoint": name,
            "best_digest": made.digest,
        }
        self._store.judge(self._run_id, judgement, changes, [])
        prune_best(self._checkpoints, name)

    def _note(self, judged: Judged, found: Mapping[str, float]) -> str | None:
        metric, config = self._jury.metric, self._config
        if metric is None:
            there = ", ".join(sorted(found))
            return (
                f"no number is measured by most silos ({there}): no model is marked as the best. "
                "Give the next run primary_metric"
            )
        if judged.value is not None and config.better_of(metric):
            return None
        then = "no model is marked as the best"
        then += ", and stop_after does not end the run" if config.stop_after else ""
        if judged.value is None:
            there = ", ".join(sorted(found))
            return f"no silo measures {metric}, which the run is judged by, but {there}: {then}"
        return (
            f"nobody knows which way {metric} is better: {then}. Give the next run primary_metric "
            "and primary_better"
        )
