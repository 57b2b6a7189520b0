"""The end of a run: x_R is tested, the model written, what only a run under way needs deleted."""

import asyncio
import logging
from dataclasses import replace
from shutil import rmtree

from domo.errors import StateError
from domo.model.card import metadata_of
from domo_server.events import kinds
from domo_server.results.judge import Judge
from domo_server.rounds.state import Phase, Signal, advance
from domo_server.runs.card import make_card, of_best
from domo_server.runs.durable import Durable, set_state
from domo_server.runs.recovery import committed
from domo_server.runs.run import END, Run
from domo_server.store.checkpoint import (
    FROZEN_FILE,
    Checkpoint,
    export_model,
    load_previous,
    private_section,
    prune_checkpoints,
)
from domo_server.store.kept import best_checkpoint
from domo_server.store.store import now_text

log = logging.getLogger(__name__)

MODEL_FILE, BEST_FILE = "model.safetensors", "best.safetensors"
"""Of a run that has ended: its newest model, and the best where that is another one."""


class Ending:
    """Judges a run's models, and brings it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._durably = run, Durable(run, writing, END)
        self._late: Checkpoint | None = None
        self._judge = Judge(run.store, run.run_id, run.config, run.folder / "checkpoints")

    async def judge(self, durably: Durable, last: bool = False) -> str | None:
        """Judge the newest model, once all silos that are asked and are there have tested it.

        Where some are slow, that is done a round later, with the numbers that are there then.

        Args:
            durably: Writes for it.
            last: It is the last model: nobody is waited for.

        Returns:
            Why the run is to end before its last round; None: it goes on.
        """
        run, current = self._run, self._run.model.current
        assert current is not None
        r = current.round_index
        for index in (r - 1, r):
            if index < self._judge.next_index or not run.config.evaluates_at(index):
                continue
            if index == r and not last and run.untested():
                self._late = current
                continue
            await run.settle()
            made = current if index == r else await self._before(current)
            note = await durably(self._judge.judge, made) if made is not None else None
            if note is not None:
                run.say(kinds.METRIC, note)
        self._late = self._late if self._late is current else None
        return self._judge.why_enough

    async def _before(self, current: Checkpoint) -> Checkpoint | None:
        """The model before; None: after a restart it cannot be read any more."""
        folder, late = self._run.folder, self._late
        if late is not None and late.round_index + 1 == current.round_index:
            return late
        files = folder / "checkpoints", current, folder / "x0.safetensors"
        try:
            return await asyncio.to_thread(load_previous, *files)
        except StateError as error:
            log.warning("[%s] a model is not judged: %s", self._run.run_id, error)
            return None

    async def recall(self) -> None:
        """Know what was judged before a restart."""
        await asyncio.to_thread(self._judge.load)

    async def evaluate(self) -> None:
        """Wait for the numbers of x_R from all silos that have test data and are there."""
        run = self._run
        end = run.clock() + run.config.evaluation_deadline_s
        while waiting := run.untested():
            left = end - run.clock()
            if run.stop_text is not None or left <= 0:
                break
            run.check_files()
            run.waits_for(f"testing the final model at {', '.join(waiting)}")
            await run.changes.loops.changed(min(left, 1.0))
        done = f"all {run.state.round_index} rounds are committed"
        sums = await asyncio.to_thread(run.store.evaluations_of, run.run_id)
        tables = await asyncio.to_thread(run.store.tables_of, run.run_id)
        silent = run.config.evaluate_every and not sums and not tables
        await self.end(Signal.EVALUATED, f"{done}; no model has test numbers" if silent else done)

    async def end(self, signal: Signal, text: str) -> None:
        """End the run, and record how."""
        run = self._run
        if signal is Signal.STOP:  # a restart must not go on with it
            wish = run.stop_text
            await self._durably(lambda: run.store.update_run(run.run_id, stop_text=wish))
        await run.settle()
        run.waits_for(text)
        if run.ready:
            try:
                if run.roster.frozen is not None:
                    await self.judge(self._durably, last=True)
                await self._durably(self._export, advance(run.state, signal).phase, now_text())
            except StateError as error:
                if signal is Signal.EVALUATED:
                    raise  # it does not end without its model
                text = f"{text}; its model could not be written: {error}"
                run.waits_for(text)
            await asyncio.to_thread(self._tidy)
        run.move(signal)
        phase = run.state.phase
        await set_state(run, self._durably, {"state": phase.value, "finished_at": now_text()})
        run.say(kinds.ENDS[phase.value], f"{run.config.title}: {phase.lower()}: {text}")

    def _tidy(self) -> None:
        """Delete what only a run under way needs."""
        folder = self._run.folder
        (folder / FROZEN_FILE).unlink(missing_ok=True)
        rmtree(folder / "spool", True)
        newest = max((f.name for f in (folder / "checkpoints").glob("x*.safetensors")), default="")
        prune_checkpoints(folder / "checkpoints", newest)

    def _export(self, phase: Phase, finished_at: str) -> None:
        """Write the newest model that the database knows: if it failed, it may not have x_{r+1}."""
        run, model = self._run, self._run.model
        assert model.current is not None
        assert model.layout is not None
        row = run.store.run(run.run_id)
        assert row is not None
        ours = model.current.round_index == row.rounds_done
        newest = model.current if ours else committed(run.folder, row)
        ended = replace(row, state=phase.value, finished_at=finished_at)
        card = make_card(run.store, ended, model.layout.digest)
        path, about = run.folder / MODEL_FILE, metadata_of(card, run.config)
        private = private_section(run.folder / "x0.safetensors")
        export_model(path, model.layout, newest, model.frozen, about, private)
        best = best_checkpoint(run.folder / "checkpoints", row)
        if best is not None and best.round_index != row.rounds_done:
            card = make_card(run.store, of_best(ended), model.layout.digest)
            path, about = run.folder / BEST_FILE, metadata_of(card, run.config)
            export_model(path, model.layout, best, model.frozen, about, private)
