"""The life of one run: prepare x_0, freeze the roster, collect, close, commit; then its ending.

A round is closed in three steps (DESIGN section 6): the set that closes it is recorded; it is
summed, and the next round opens at once; the checkpoint is made durable and one transaction with
its digest advances r, while silos fetch the new model and train. Whatever dies in between, the next
start finds which step was reached and goes on from there: the same set gives the same bytes. The
next round is not closed before this one is committed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from shutil import rmtree

from domo.errors import (
    OUTLIER,
    DivergenceError,
    DomoError,
    RoundTimeoutError,
    StateError,
    TransportError,
)
from domo.ops.words import counted
from domo_server.events import kinds
from domo_server.rounds.aggregate import make_record, sum_round
from domo_server.rounds.alignment import Alignment
from domo_server.rounds.state import Phase, Signal
from domo_server.rounds.times import TimesOfRound
from domo_server.runs.durable import Durable, said_by_disk, set_state
from domo_server.runs.ending import Ending
from domo_server.runs.model import digest_of_model, of_its_files
from domo_server.runs.recovery import load
from domo_server.runs.roster import NOBODY
from domo_server.runs.run import COMMIT, PAUSED_BY, Run
from domo_server.store.checkpoint import Checkpoint, save_checkpoint
from domo_server.store.rows import AcceptedUpdate, RoundRecord, RunChanges, RunRow
from domo_server.store.store import now_text

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""A waiting run looks at least this often, so that its text stays true."""


class RunLoop:
    """Drives a `Run` from where the database left it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written; a shutdown waits for it.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._durably = run, Durable(run, writing)
        self._behind, self._ending = Durable(run, writing, COMMIT), Ending(run, writing)
        self._paused_at = run.clock()
        self._resumed = False

    async def execute(self, row: RunRow) -> None:
        """Run to the end; faults become the state FAILED with the reason.

        Raises:
            OSError, TransportError: The disk, the database or a file of the run; it may be tried
                again.
        """
        run = self._run
        try:
            self._resumed = await load(run, self._durably, row)
            await self._ending.recall()
            if run.state.phase is Phase.WAITING:
                await self._freeze_roster()
            while run.state.phase in (Phase.OPEN, Phase.PAUSED, Phase.CLOSING):
                if run.state.phase is not Phase.CLOSING and not await self._collect():
                    break
                await self._close()
            if run.state.phase is Phase.EVALUATING:
                await self._ending.evaluate()
        except (OSError, TransportError) as error:
            if run.stop_text is None:
                raise  # not the run's fault: it is loaded again
            why = "" if run.ready else f"; it could not be loaded: {said_by_disk(error)}"
            await self._ending.end(Signal.STOP, run.stop_text + why)
        except StateError as error:
            if run.ready:
                raise of_its_files(error) from error
            await self._ending.end(Signal.FAIL, str(error))  # it is to begin with what is no model
        except DomoError as error:
            await self._ending.end(Signal.FAIL, str(error))
        except Exception as error:
            log.exception("[%s] internal error", run.run_id)
            await self._ending.end(
                Signal.FAIL, f"internal error: {error!r}; the log has the details"
            )
        finally:
            if run.saving is not None:
                run.saving.cancel()  # it is done again at the next start
                await asyncio.wait([run.saving])
            run.model.let_go()  # silos may still ask how it ended; a next try loads it again

    # start

    async def _freeze_roster(self) -> None:
        run = self._run
        run.say(kinds.WAITING, f"{run.config.title} is open for silos to enrol")
        while True:
            silo_ids, missing = run.roster.choose()
            if not missing:
                break
            run.waits_for(missing)
            self._tell_strangers()
            if run.stop_text is not None:
                await self._ending.end(Signal.STOP, run.stop_text)
                return
            await run.changes.loops.changed(1.0)
        run.roster.freeze(silo_ids)
        began: RunChanges = {"began_at": now_text()}
        values: RunChanges = {"state": "OPEN", "roster": silo_ids, "detail": "", **began}
        await self._durably(lambda: run.store.update_run(run.run_id, **values))
        run.open_round()
        run.move(Signal.ROSTER_FROZEN)
        run.say(kinds.STARTED, f"{run.config.title} started with {counted(len(silo_ids), 'silo')}")
        for kind, text in run.roster.at_start():
            run.say(kind, text)

    def _tell_strangers(self) -> None:
        """A silo that seems to be one that the run waits for, under another name."""
        for silo_id, text in self._run.roster.new_strangers().items():
            self._run.say(kinds.NO_PLACE, text, silo_id)

    # rounds

    async def _collect(self) -> bool:
        """Wait until the round may close; False if the run ended instead."""
        run = self._run
        while True:
            if run.saving is not None and run.saving.done():
                await run.settle()  # raises why it could not be done
            run.check_files()
            if run.stop_text is not None:
                await self._ending.end(Signal.STOP, run.stop_text)
                return False
            if run.pause_wanted != (run.state.phase is Phase.PAUSED):
                await self._pause_or_resume()
                continue  # what the admin wants may have changed meanwhile
            if run.state.phase is Phase.PAUSED or not run.participants.sampled:
                paused = run.state.phase is Phase.PAUSED
                run.waits_for(f"{PAUSED_BY}{run.paused_by}" if paused else NOBODY)
                await run.changes.loops.changed(LOOK_S)
                continue
            if run.config.stop_after is not None:
                enough = await self._ending.judge(self._durably)
                if enough is not None:
                    await self._ending.end(Signal.ENOUGH, enough)
                    return False
            if (why := run.participants.why_hopeless(run.roster.frozen or ())) is not None:
                raise DivergenceError(why)
            decision = run.participants.decide()
            run.waits_for(decision.text + run.notes_on(decision.missing))
            self._tell_strangers()
            if decision.action == "close" and (testing := self._still_tests()):
                run.waits_for(f"testing the model at {', '.join(testing)}")
            elif decision.action == "close":
                if not self._refuse_outliers():
                    return True
                continue
            if decision.action == "fail":
                raise RoundTimeoutError(decision.text, decision.missing)
            await run.changes.loops.changed(min(decision.wait_s or LOOK_S, LOOK_S))

    def _still_tests(self) -> Sequence[str]:
        """Silos whose numbers a run that may stop early waits for before it closes the round."""
        run, config = self._run, self._run.config
        late = run.clock() - run.participants.opened_at > config.evaluation_deadline_s
        return [] if config.stop_after is None or late else run.untested()

    async def _pause_or_resume(self) -> None:
        run, where = self._run, f"round {self._run.state.round_index + 1}"
        if run.pause_wanted:
            self._paused_at = run.clock()
            run.participants.times.paused()
            await run.settle()
            run.move(Signal.PAUSE)
            run.waits_for(f"{PAUSED_BY}{run.paused_by}")
            run.say(kinds.PAUSED, f"paused in {where} by {run.paused_by}")
        else:
            run.participants.hold(self._paused_at)
            run.move(Signal.RESUME)
            run.say(kinds.RESUMED, f"goes on in {where}, as {run.paused_by} wants")
        await set_state(run, self._durably, {"state": run.state.phase.value, "detail": run.detail})

    async def _close(self) -> None:
        """Record the set, sum it, write the checkpoint, commit."""
        run, r = self._run, self._run.state.round_index
        config, counters, opened_at = run.config, run.events.counters, run.participants.opened_at
        made, times = None, run.participants.times
        if run.state.phase is Phase.OPEN:
            times.fixed()
            counters.phase("collecting", run.clock() - opened_at)
            made = self._set()  # here, as it is now: what is stored later must not change
            run.move(Signal.QUORUM)
            far = run.participants.outliers() if config.norm_check == "warn" else {}
            for silo_id, why in far.items():
                run.say(kinds.UNUSUAL, f"{silo_id}: {why}", silo_id)
        await run.settle()
        await self._ending.judge(self._durably)
        record = await self._durably(self._record, made)
        run.waits_for(f"summing {counted(len(record.participants), 'update')}")
        begun = run.clock()
        times.folding()
        following, aligned = await self._sum(record)
        counters.phase("summing", run.clock() - begun)
        parts = zip(record.participants, aligned.cosines, strict=True)
        times.ended()
        duration_s = times.working_s
        counters.round(duration_s)
        closed = replace(
            record,
            closed_at=now_text(),
            duration_s=duration_s,
            participants=[replace(part, cosine=cosine) for part, cosine in parts],
            drift=aligned.drift,
            model_digest=digest_of_model(following),
        )
        changes: RunChanges = {
            "state": "EVALUATING" if r + 1 >= config.num_rounds else "OPEN",
            "rounds_done": r + 1,
            "checkpoint_digest": following.digest,
            "inference_scale": following.inference_scale,
            "detail": "",
        }
        already: Mapping[str, AcceptedUpdate] = {}
        if self._resumed:  # some of the next round's may be here
            self._resumed, already = False, await run.receiver.find_updates(r + 1, following)
        saving = asyncio.create_task(  # whatever may go wrong from here on
            self._commit(following, closed, changes, times)
        )
        run.begin_next(following, record, saving)
        run.receiver.restore(already)

    async def _commit(
        self, made: Checkpoint, closed: RoundRecord, changes: RunChanges, times: TimesOfRound
    ) -> None:
        """Make a closed round durable."""
        run, r = self._run, made.round_index - 1
        checkpoints, begun = run.folder / "checkpoints", run.clock()
        name = await self._behind(save_checkpoint, checkpoints, made)
        changes = {**changes, "checkpoint": name}
        await self._behind(
            lambda: run.store.commit_round(
                run.run_id, replace(closed, times=times.result()), changes
            )
        )
        if run.events.record is not None:
            await asyncio.to_thread(run.events.record.model, run.run_id, made)
        await asyncio.to_thread(rmtree, run.receiver.folder(r), True)
        run.events.counters.phase("committing", run.clock() - begun)
        run.participants.times.committed_before()
        loss, silos = closed.train_loss, counted(len(closed.participants), "silo")
        tail = f", train loss {loss:.4g}" if loss is not None else ""
        done = f"round {r + 1} of {run.config.num_rounds} committed with {silos}{tail}"
        run.say(kinds.ROUND_COMMITTED, done)

    def _refuse_outliers(self) -> bool:
        model, samples = self._run.model.current, self._run.roster.samples
        far = {} if model is None else self._run.participants.refuse_outliers(model, samples)
        for silo_id, why in far.items():
            self._run.say(kinds.REFUSED, f"refused an update of {silo_id}: {why}", silo_id)
            self._run.events.counters.refused(silo_id, "norm")
            session = self._run.sessions.of(silo_id)
            if session is not None:
                session.fails(f"update refused: {why}", OUTLIER)
            self._run.changes.assigned(silo_id)  # it may send another one
        return bool(far)

    async def _sum(self, record: RoundRecord) -> tuple[Checkpoint, Alignment]:
        """x_{r+1} and what else follows."""
        run, config = self._run, self._run.config
        spool = run.receiver.folder(run.state.round_index)
        share = config.share_of([p.silo_id for p in record.participants], run.roster.samples)
        where = (spool, run.folder / "checkpoints", share, config.update_dtype, run.model.layout)
        return await self._durably(sum_round, config.kernel, run.model.current, record, *where)

    def _set(self) -> RoundRecord:
        """The set that the open round is closed with."""
        run, now = self._run, self._run.participants
        which = (now.sampled, now.accepted, run.roster.samples, now.reasons_missing())
        made = make_record(run.config, run.state.round_index, *which, now.opened_text)
        closed_by, who = now.closed_by
        return replace(made, closed_by=closed_by, closed_by_silo=who)

    def _record(self, made: RoundRecord | None) -> RoundRecord:
        """Record a set, on a thread; or take the one that is recorded."""
        run = self._run
        record = run.store.round_at(run.run_id, run.state.round_index)
        if record is None:
            assert made is not None
            run.store.begin_close(run.run_id, made)
            record = made
        return record
