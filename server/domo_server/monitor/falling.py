"""Says when the current run falls apart, by its tests and training losses; once each time."""

import asyncio
import logging
from collections import defaultdict

from domo.metrics.names import primary_of
from domo.metrics.table import Sum
from domo.training.falling_apart import CurvePoint, advice, falls, point
from domo_server.events import kinds
from domo_server.runs.run import Run
from domo_server.store.store import Store

log = logging.getLogger(__name__)


class Falling:
    """Reads what each round adds to the curves of the current run.

    After a restart the past is read, and nothing is said of it again.

    Args:
        store: Where the numbers are.
    """

    def __init__(self, store: Store):
        self._store = store
        self._at: tuple[str, int] | None = None
        self._run_id, self._points = "", list[CurvePoint]()
        self._name: str | None = None
        self._task: asyncio.Task[None] | None = None

    def look(self, run: Run) -> None:
        """Begin to look, where a round was closed since the last time."""
        at = (run.run_id, run.state.round_index)
        if at != self._at and (self._task is None or self._task.done()):
            self._at = at
            self._task = asyncio.create_task(self._judge(run, run.state.round_index))

    async def _judge(self, run: Run, end: int) -> None:
        """Look at the models below an index, whose rounds are closed."""
        is_new = run.run_id == self._run_id
        if not is_new:
            self._run_id, self._points = run.run_id, []
        first = self._points[-1].model_index + 1 if self._points else 0
        try:
            self._points += await asyncio.to_thread(self._read, run, first, end)
        except Exception:  # the database's; it is asked again after the next round
            log.debug("curves of %s", run.run_id, exc_info=True)
            return
        name = self._name or "loss"
        found = falls(self._points, name, run.config.better_of(name) or "higher")
        if is_new and found and found[-1].model_index >= first:
            fall = found[-1]
            what = advice(run.config, fall.best, is_kept=True)
            run.say(kinds.FALLS_APART, f"{run.config.title} falls apart: {fall.sign}. {what}")

    def _read(self, run: Run, first: int, end: int) -> list[CurvePoint]:
        sums: dict[int, dict[str, Sum]] = defaultdict(dict)
        for row in self._store.evaluations_of(run.run_id, first):
            if row.model_index < end:
                of = sums[row.model_index]
                total, num = of.get(row.metric, Sum(0.0, 0.0))
                of[row.metric] = Sum(total + row.total, num + row.num)
        rounds = self._store.rounds_of(run.run_id, first - 2)
        losses = {row.round_index + 1: row.train_loss for row in rounds}
        means = {i: {m: s.total / s.num for m, s in of.items() if s.num} for i, of in sums.items()}
        names = {name for of in means.values() for name in of}
        self._name = primary_of(names, run.config.primary_metric) or self._name
        return [point(i, of, self._name, losses.get(i)) for i, of in sorted(means.items())]
