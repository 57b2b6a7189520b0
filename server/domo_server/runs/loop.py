"""The life of one run: prepare x_0, freeze the roster, collect, close, commit, evaluate, finish.

A round is closed in three steps (DESIGN section 6): the set that closes it is recorded; it is
summed, and the next round opens at once; the checkpoint is made durable and one transaction with
its digest advances r, while silos fetch the new model and train. Whatever dies in between, the next
start finds which step was reached and goes on from there: the same set gives the same bytes. The
next round is not closed before this one is committed.
"""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from domo.errors import OUTLIER, DomoError, RoundTimeoutError, StateError, TransportError
from domo.model.card import metadata_of
from domo.model.tensor_file import TensorFile
from domo_server.events import kinds
from domo_server.rounds.aggregate import make_record, sum_round
from domo_server.rounds.alignment import Alignment
from domo_server.rounds.state import (
    Phase,
    RoundState,
    Signal,
    advance,
)
from domo_server.runs.card import make_card
from domo_server.runs.durable import Durable, said_by_disk, set_state
from domo_server.runs.receiver import of_its_files
from domo_server.runs.recovery import committed, load
from domo_server.runs.run import NOBODY, Run
from domo_server.store.checkpoint import (
    FROZEN_FILE,
    Checkpoint,
    export_model,
    prune_checkpoints,
    save_checkpoint,
)
from domo_server.store.rows import RoundRecord, RunChanges, RunRow
from domo_server.store.spool import recycle
from domo_server.store.store import now_text

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""A waiting run looks at least this often, so that its text stays true."""


class RunLoop:
    """Drives a `Run` from where the database left it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written; a shutdown waits for it.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._durably = run, Durable(run, writing)
        self._behind = Durable(run, writing, behind=True)
        self._lastly = Durable(run, writing, lastly=True)
        self._paused_at = run.clock()
        self._frozen: TensorFile | None = None
        self._resumed = False

    async def execute(self, row: RunRow) -> None:
        """Run to the end; faults become the state FAILED with the reason.

        Raises:
            OSError, TransportError: The disk, the database or a file of the run; it may be tried
                again.
        """
        run = self._run
        run.state = RoundState(run.state.phase, row.rounds_done)
        try:
            self._frozen, self._resumed = await load(run, self._durably, row)
            if run.state.phase is Phase.WAITING:
                await self._freeze_roster()
            while run.state.phase in (Phase.OPEN, Phase.PAUSED, Phase.CLOSING):
                if run.state.phase is not Phase.CLOSING and not await self._collect():
                    break
                await self._close()
            if run.state.phase is Phase.EVALUATING:
                await self._evaluate()
        except (OSError, TransportError) as error:
            if run.stop_text is None:
                raise  # not the run's fault: it is loaded again
            why = "" if run.ready else f"; it could not be loaded: {said_by_disk(error)}"
            await self._end(Signal.STOP, run.stop_text + why)
        except StateError as error:
            if run.ready:
                raise of_its_files(error) from error
            await self._end(Signal.FAIL, str(error))  # it is to begin with what is no model
        except DomoError as error:
            await self._end(Signal.FAIL, str(error))
        except Exception as error:
            log.exception("[%s] internal error", run.run_id)
            await self._end(Signal.FAIL, f"internal error: {error!r}; the log has the details")
        finally:
            if run.saving is not None:
                run.saving.cancel()  # it is done again at the next start
                await asyncio.wait([run.saving])

    # start

    async def _freeze_roster(self) -> None:
        run = self._run
        run.say(kinds.WAITING, f"{run.config.title} is open for silos to enrol")
        while (roster := run.freeze_roster()) is None:
            if run.stop_text is not None:
                await self._end(Signal.STOP, run.stop_text)
                return
            await run.broadcast.changed(1.0)
        run.config.check_tables(roster)  # wrong ones fail at once
        run.roster = roster
        await self._durably(
            lambda: run.store.update_run(run.run_id, state="OPEN", roster=roster, detail="")
        )
        run.open_round()
        run.move(Signal.ROSTER_FROZEN)
        run.say(kinds.STARTED, f"{run.config.title} started with {len(roster)} silos")

    # rounds

    async def _collect(self) -> bool:
        """Wait until the round may close; False if the run ended instead."""
        run = self._run
        while True:
            if run.saving is not None and run.saving.done():
                await self._settle()  # raises why it could not be done
            self._check_files()
            if run.stop_text is not None:
                await self._end(Signal.STOP, run.stop_text)
                return False
            if run.pause_wanted != (run.state.phase is Phase.PAUSED):
                await self._pause_or_resume()
            if run.state.phase is Phase.PAUSED or not run.sampled:
                paused = run.state.phase is Phase.PAUSED
                run.detail = "paused by the admin" if paused else NOBODY
                await run.broadcast.changed(LOOK_S)
                continue
            decision = run.decide()
            run.detail = decision.text + run.notes_on(decision.missing)
            if decision.action == "close":
                if not self._refuse_outliers():
                    return True
                continue
            if decision.action == "fail":
                raise RoundTimeoutError(decision.text, decision.missing)
            await run.broadcast.changed(min(decision.wait_s or LOOK_S, LOOK_S))

    def _check_files(self) -> None:
        if self._run.damage is not None and self._run.stop_text is None:
            raise self._run.damage

    async def _pause_or_resume(self) -> None:
        run = self._run
        if run.pause_wanted:
            self._paused_at = run.clock()
            await self._settle()
            run.move(Signal.PAUSE)
            run.say(kinds.PAUSED, f"paused in round {run.state.round_index + 1}")
        else:
            run.hold(self._paused_at)
            run.move(Signal.RESUME)
            run.say(kinds.RESUMED, f"goes on in round {run.state.round_index + 1}")
        await set_state(run, self._durably, {"state": run.state.phase.value})

    async def _close(self) -> None:
        """Record the set, sum it, write the checkpoint, commit."""
        run, r = self._run, self._run.state.round_index
        config = run.config
        assert run.server is not None
        counters = run.events.counters
        if run.state.phase is Phase.OPEN:
            counters.phase("collecting", run.clock() - run.opened_at)
            run.move(Signal.QUORUM)
            for silo_id, why in run.outliers().items() if config.norm_check == "warn" else ():
                run.say(kinds.UNUSUAL, f"{silo_id}: {why}", silo_id)
        await self._settle()
        record = await self._durably(self._record)
        run.detail = f"summing {len(record.participants)} updates"
        before = run.server
        begun = run.clock()
        following, aligned = await self._sum(record)
        counters.phase("summing", run.clock() - begun)
        last = r + 1 >= config.num_rounds
        parts = zip(record.participants, aligned.cosines, strict=True)
        duration_s = run.clock() - run.opened_at
        counters.round(duration_s)
        closed = replace(
            record,
            closed_at=now_text(),
            duration_s=duration_s,
            participants=[replace(part, cosine=cosine) for part, cosine in parts],
            drift=aligned.drift,
        )
        changes: RunChanges = {
            "state": "EVALUATING" if last else "OPEN",
            "rounds_done": r + 1,
            "attempt": 0,
            "checkpoint_digest": following.digest,
            "inference_scale": following.inference_scale,
            "detail": "",
        }
        spool, already = run.spool, {}
        if self._resumed:  # some of the next round's may be here
            self._resumed, already = False, await run.find_updates(r + 1)
        run.server, run.detail = following, ""
        run.previous = before if run.kernel.fusion != "none" else None
        run.revision += 1
        run.saving = asyncio.create_task(  # whatever may go wrong from here on
            self._commit(following, closed, changes, spool)
        )
        run.saving.add_done_callback(lambda _: run.broadcast.notify())
        run.count(record)
        run.move(Signal.LAST_COMMITTED if last else Signal.COMMITTED)
        run.open_round()
        run.restore(already)

    async def _commit(
        self, made: Checkpoint, closed: RoundRecord, changes: RunChanges, spool: Path
    ) -> None:
        """Make a closed round durable."""
        run, r = self._run, made.round_index - 1
        checkpoints, begun = run.folder / "checkpoints", run.clock()

        name = await self._behind(save_checkpoint, checkpoints, made)
        changes = {**changes, "checkpoint": name}
        await self._behind(run.store.commit_round, run.run_id, closed, changes)
        await asyncio.to_thread(recycle, spool, run.free)
        run.events.counters.phase("committing", run.clock() - begun)
        run.revision += 1
        done = f"round {r + 1} of {run.config.num_rounds} committed"
        loss = closed.train_loss
        tail = f", train loss {loss:.4g}" if loss is not None else ""
        run.say(kinds.ROUND_COMMITTED, f"{done} with {len(closed.participants)} silos{tail}")

    async def _settle(self) -> None:
        """Wait until the last closed round is committed."""
        run = self._run
        while run.saving is not None and not run.saving.done():
            run.detail = run.unsaved or "writing the last round's checkpoint"
            await asyncio.wait([run.saving], timeout=1.0)
        saving, run.saving = run.saving, None
        if saving is not None:
            await saving

    def _refuse_outliers(self) -> bool:
        far = self._run.refuse_outliers()
        for silo_id, why in far.items():
            self._run.say(kinds.REFUSED, f"refused an update of {silo_id}: {why}", silo_id)
            self._run.events.counters.refused(silo_id, "norm")
            session = self._run.sessions.of(silo_id)
            if session is not None:
                session.fails(f"update refused: {why}", OUTLIER)
        return bool(far)

    async def _sum(self, record: RoundRecord) -> tuple[Checkpoint, Alignment]:
        """x_{r+1} and what else follows."""
        run = self._run
        where = (run.spool, run.folder / "checkpoints", run.config.update_dtype)
        return await self._durably(sum_round, run.kernel, run.server, record, *where)

    def _record(self) -> RoundRecord:
        """The set that the round is closed with: the database's, or made and recorded now."""
        run, r = self._run, self._run.state.round_index
        record = run.store.round_at(run.run_id, r)
        if record is not None:
            return record
        samples = {s: run.enrolments[s].num_samples for s in run.accepted}
        left_out = run.reasons_missing()
        which = (run.sampled, run.accepted, samples, left_out)
        record = make_record(run.config, r, *which, run.opened_text)
        run.store.begin_close(run.run_id, record)
        return record

    # end

    async def _evaluate(self) -> None:
        """Wait for the numbers of x_R from all silos that have test data and are there."""
        run, r = self._run, self._run.state.round_index
        tests = sorted(s for s, e in run.enrolments.items() if e.num_eval_samples)
        end = run.clock() + run.config.evaluation_deadline_s

        def pending() -> list[str]:
            missing = [s for s in tests if s not in run.reported.get(r, ())]
            there = (s for s in missing if s not in run.dropped)
            return [s for s in there if run.sessions.of(s) is None or run.sessions.is_online(s)]

        while run.config.evaluates_at(r) and (waiting := pending()):
            left = end - run.clock()
            if run.stop_text is not None or left <= 0:
                break
            self._check_files()
            run.detail = f"testing the final model at {', '.join(waiting)}"
            await run.broadcast.changed(min(left, 1.0))
        await self._end(Signal.EVALUATED, f"all {r} rounds are committed")

    async def _end(self, signal: Signal, text: str) -> None:
        run = self._run
        if signal is Signal.STOP:  # a restart must not go on with it
            wish = run.stop_text
            await self._lastly(lambda: run.store.update_run(run.run_id, stop_text=wish))
        await self._settle()
        run.detail = text
        if run.server is not None and run.layout is not None:
            try:
                await self._lastly(self._export, advance(run.state, signal).phase, now_text())
            except StateError as error:
                if signal is Signal.EVALUATED:
                    raise  # it does not end without its model
                run.detail = text = f"{text}; its model could not be written: {error}"
            await asyncio.to_thread(self._tidy)
        run.move(signal)
        phase = run.state.phase
        await set_state(run, self._lastly, {"state": phase.value, "finished_at": now_text()})
        run.say(kinds.ENDS[phase], f"{run.config.title}: {phase.lower()}: {text}")

    def _tidy(self) -> None:
        """Delete what only a run under way needs."""
        folder = self._run.folder
        (folder / FROZEN_FILE).unlink(missing_ok=True)
        rmtree(folder / "spool", True)
        newest = max((f.name for f in (folder / "checkpoints").glob("x*.safetensors")), default="")
        prune_checkpoints(folder / "checkpoints", newest)

    def _export(self, phase: Phase, finished_at: str) -> None:
        """Write the newest model that the database knows: if it failed, it may not have x_{r+1}."""
        run = self._run
        assert run.server is not None
        assert run.layout is not None
        row = run.store.run(run.run_id)
        assert row is not None
        ours = run.server.round_index == row.rounds_done
        newest = run.server if ours else committed(run.folder, row)
        ended = replace(row, state=phase.value, finished_at=finished_at)
        card = make_card(run.store, ended, run.layout.digest)
        about = metadata_of(card, run.config)
        path = run.folder / "model.safetensors"
        export_model(path, run.layout, newest, self._frozen, about)
