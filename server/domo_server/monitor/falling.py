"""Says when the current run falls apart, by its tests and training losses; once each time."""

import asyncio
import logging

from domo.metrics.names import primary_of
from domo.training.falling_apart import Curve, Fall, advice, point
from domo_server.events import kinds
from domo_server.results.numbers import read_points
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
        self._run_id, self._next = "", 0
        self._curve: Curve | None = None
        self._name: str | None = None
        self._kept: int | None = None
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
            self._run_id, self._next, self._curve, self._name = run.run_id, 0, None, None
        try:
            found = await asyncio.to_thread(self._read, run, self._next, end)
        except Exception:  # the database's; it is asked again after the next round
            log.debug("curves of %s", run.run_id, exc_info=True)
            return
        if is_new and found:
            fall = found[-1]
            what = advice(run.config, fall.best, is_kept=fall.best == self._kept)
            run.say(kinds.FALLS_APART, f"{run.config.title} falls apart: {fall.sign}. {what}")

    def _read(self, run: Run, first: int, end: int) -> list[Fall]:
        tests = read_points(self._store, run.run_id, first)
        means = {p.model_index: p.metrics for p in tests if p.model_index < end}
        rounds = self._store.rounds_of(run.run_id, first - 2)
        losses = {row.round_index + 1: row.train_loss for row in rounds}
        names = {name for of in means.values() for name in of}
        row = self._store.run(run.run_id)
        judged_by = run.config.primary_metric or (None if row is None else row.best_metric)
        self._name = self._name or primary_of(names, judged_by)
        self._kept = None if row is None else row.best_index
        if self._curve is None and means:
            name = self._name or "loss"
            self._curve = Curve(name, run.config.better_of(name) or "higher")
        found: list[Fall] = []
        for i, of in sorted(means.items()):
            assert self._curve is not None
            fall = self._curve.add(point(i, of, self._name, losses.get(i)))
            found += [] if fall is None else [fall]
            self._next = i + 1
        return found
