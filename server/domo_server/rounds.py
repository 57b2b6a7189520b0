"""The life of one run: prepare x_0, freeze the roster, collect, close, commit, evaluate, finish.

A round is closed in three steps (DESIGN section 6): the set that closes it is recorded; it is
summed, and the next round opens at once; the checkpoint is made durable and one transaction with
its digest advances r, while silos fetch the new model and train. Whatever dies in between, the next
start finds which step was reached and goes on from there: the same set gives the same bytes. The
next round is not closed before this one is committed.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

from domo import disk
from domo.errors import DivergenceError, DomoError, RoundTimeoutError, TransportError
from domo.model_file import build_initial, open_model, save_model
from domo.tasks import load_task
from domo.tensor_file import TensorFile
from domo.vector import Section
from domo_proto.codec import VectorId
from domo_server.checkpoint import (
    FROZEN_FILE,
    Checkpoint,
    export_model,
    first_checkpoint,
    frozen_file,
    load_checkpoint,
    load_previous,
    prune_checkpoints,
    save_checkpoint,
)
from domo_server.closing import make_record, sum_round
from domo_server.durable import Durable
from domo_server.outgoing import WireVector
from domo_server.round_state import Phase, RoundState, Signal
from domo_server.run import NOBODY, Run
from domo_server.spool import recycle
from domo_server.store import now_text
from domo_server.turn import Enrolment

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""A waiting run looks at least this often, so that its text stays true."""

Row = Mapping[str, Any]


class RunLoop:
    """Drives a `Run` from where the database left it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written; a shutdown waits for it.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._durably = run, Durable(run, writing)
        self._behind = Durable(run, writing, behind=True)
        self._paused_at = run.clock()
        self._frozen: TensorFile | None = None
        self._resumed = False

    async def execute(self, row: Row) -> None:
        """Run to the end; faults become the state FAILED with the reason.

        Raises:
            OSError, TransportError: The disk or the database; it may be tried again.
        """
        run = self._run
        try:
            await self._prepare(row)
            if run.state.phase is Phase.WAITING:
                await self._freeze_roster()
            while run.state.phase in (Phase.OPEN, Phase.PAUSED, Phase.CLOSING):
                if run.state.phase is not Phase.CLOSING and not await self._collect():
                    break
                await self._close()
            if run.state.phase is Phase.EVALUATING:
                await self._evaluate()
        except (OSError, TransportError):
            raise  # not the run's fault: it is loaded again
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

    async def _prepare(self, row: Row) -> None:
        run = self._run
        path = run.folder / "x0.safetensors"
        if row["roster"] is None and not path.exists():
            await self._durably(self._make_x0, path)
        layout, _ = await asyncio.to_thread(open_model, path)
        checkpoints = run.folder / "checkpoints"
        if row["checkpoint"] is None:
            run.server = await self._durably(first_checkpoint, checkpoints, path)
        else:
            at = row["rounds_done"], row["inference_scale"]
            named = row["checkpoint"], row["checkpoint_digest"]
            run.server = await asyncio.to_thread(load_checkpoint, checkpoints, *named, *at)
            prune_checkpoints(checkpoints, row["checkpoint"])
        if run.kernel.fusion != "none":
            run.previous = await asyncio.to_thread(load_previous, checkpoints, run.server, path)
        self._frozen = await self._durably(frozen_file, run.folder, path)
        if self._frozen is not None:
            name = Section.FROZEN.value
            content = await asyncio.to_thread(self._frozen.digest, name)
            run.frozen_wire = WireVector(
                self._frozen, name, VectorId.FROZEN, bytes.fromhex(content), False
            )
        for e in await asyncio.to_thread(run.store.enrolled, run.run_id):
            run.enrolments[e["silo_id"]] = Enrolment(
                e["role"], e["num_samples"], e["num_eval_samples"]
            )
        for e in await asyncio.to_thread(run.store.evaluations_of, run.run_id):
            run.reported.setdefault(e["model_index"], set()).add(e["silo_id"])
        run.layout = layout
        await self._durably(lambda: run.store.update_run(run.run_id, num_params=layout.num_params))
        await self._restore(row)
        for old in (run.folder / "spool").glob("*"):
            if old.name < run.spool.name or old == run.free:  # not the next round.s
                await asyncio.to_thread(rmtree, old, True)
        run.ready = True
        run.broadcast.notify()

    def _make_x0(self, path: Path) -> None:
        config = self._run.config
        if config.initial_model:
            given = Path(config.initial_model)
            open_model(given)
            disk.make_folder(path.parent)
            temporary = path.with_name(path.name + ".tmp")
            copyfile(given, temporary)
            disk.sync_path(temporary)
            temporary.replace(path)  # its name is synced with that of the checkpoints' folder
        else:
            layout, vectors = build_initial(load_task(config.task), config.seed)
            save_model(path, layout, vectors, {"task": config.task, "seed": str(config.seed)})

    async def _restore(self, row: Row) -> None:
        """Find the phase again: the database's, one step before what was not finished."""
        run = self._run
        run.roster = row["roster"]
        if run.roster is None:
            await self._set_state("WAITING", started_at=row["started_at"] or now_text())
            return
        r = row["rounds_done"]
        for closed in await asyncio.to_thread(run.store.rounds_of, run.run_id):
            if closed["round_index"] < r:
                run.count(closed)
        run.state = RoundState(Phase.OPEN, r, row["attempt"])
        run.open_round()
        if r >= run.config.num_rounds:
            run.state = RoundState(Phase.EVALUATING, r)
            return
        record = await asyncio.to_thread(run.store.round_at, run.run_id, r)
        whole = await self._restore_set(record)
        if row["state"] == "PAUSED":
            run.state = RoundState(Phase.PAUSED, r, row["attempt"])
            run.pause_wanted = True
        elif whole:
            run.state = RoundState(Phase.CLOSING, r, row["attempt"])
        done = f"round {r + 1} of {run.config.num_rounds}"
        tail = "; it is still paused" if run.pause_wanted else ""
        self._resumed = True
        run.say("resumed", f"resumed at {done} with {len(run.accepted)} updates already here{tail}")

    async def _restore_set(self, record: Row | None) -> bool:
        """Take back the round's updates; whether they are all of a set that it is closed with.

        Where one was lost with the power, nothing that is durable follows from the set: the round
        is collected anew.
        """
        run = self._run
        r = run.state.round_index
        found = await run.find_updates(r)
        if record is None:
            run.restore(found)
            return False
        wanted = {p["silo_id"]: p["digest"] for p in record["participants"]}
        whole = all(s in found and found[s]["digest"] == d for s, d in wanted.items())
        if whole:
            run.sampled = list(wanted)
        run.restore(found)
        if whole:
            return True
        await self._durably(run.store.reopen_round, run.run_id, r)
        run.say("reopened", f"round {r + 1} was being closed; it is collected anew")
        return False

    async def _freeze_roster(self) -> None:
        run = self._run
        run.say("waiting", f"{run.config.title} is open for silos to enrol")
        while (roster := run.freeze_roster()) is None:
            if run.stop_text is not None:
                await self._end(Signal.STOP, run.stop_text)
                return
            await run.broadcast.changed(1.0)
        for silo_id in [s for s in roster if s in run.enrolments]:  # wrong tables fail at once
            n = run.enrolments[silo_id].num_samples
            run.config.weight_of(silo_id, n)
            run.config.steps_at(0, silo_id, n)
        run.roster = roster
        await self._durably(
            lambda: run.store.update_run(run.run_id, state="OPEN", roster=roster, detail="")
        )
        run.open_round()
        run.move(Signal.ROSTER_FROZEN)
        run.say("started", f"{run.config.title} started with {len(roster)} silos")

    # rounds

    async def _collect(self) -> bool:
        """Wait until the round may close; False if the run ended instead."""
        run = self._run
        while True:
            if run.saving is not None and run.saving.done():
                await self._settle()  # raises why it could not be done
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
            verdict = run.judge()
            run.detail = verdict.text + run.notes_on(verdict.missing)
            if verdict.action == "close":
                if not self._refuse_outliers():
                    return True
                continue
            if verdict.action == "fail":
                raise RoundTimeoutError(verdict.text, verdict.missing)
            await run.broadcast.changed(min(verdict.wait_s or LOOK_S, LOOK_S))

    async def _pause_or_resume(self) -> None:
        run = self._run
        if run.pause_wanted:
            self._paused_at = run.clock()
            await self._settle()
            run.move(Signal.PAUSE)
            run.say("paused", f"paused in round {run.state.round_index + 1}")
        else:
            run.hold(self._paused_at)
            run.move(Signal.RESUME)
            run.say("resumed", f"goes on in round {run.state.round_index + 1}")
        await self._set_state(run.state.phase.value)

    async def _close(self) -> None:
        """Record the set, sum it, write the checkpoint, commit."""
        run, r = self._run, self._run.state.round_index
        config = run.config
        assert run.server is not None
        if run.state.phase is Phase.OPEN:
            run.move(Signal.QUORUM)
            for silo_id, why in run.outliers().items() if config.norm_check == "warn" else ():
                run.say("unusual", f"{silo_id}: {why}", silo_id)
        await self._settle()
        record = await self._durably(self._record)
        run.detail = f"summing {len(record['participants'])} updates"
        before, following = run.server, await self._sum(record)
        last = r + 1 >= config.num_rounds
        round_values = {"closed_at": now_text(), "duration_s": run.clock() - run.opened_at}
        run_values = {
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
        run.count(record)
        run.move(Signal.LAST_COMMITTED if last else Signal.COMMITTED)
        run.open_round()
        run.restore(already)
        run.saving = asyncio.create_task(
            self._commit(following, record, round_values, run_values, spool)
        )
        run.saving.add_done_callback(lambda _: run.broadcast.notify())

    async def _commit(
        self, made: Checkpoint, record: Row, round_values: Row, run_values: Row, spool: Path
    ) -> None:
        """Make a closed round durable."""
        run, r = self._run, made.round_index - 1
        checkpoints = run.folder / "checkpoints"

        name = await self._behind(save_checkpoint, checkpoints, made)
        values = {**run_values, "checkpoint": name}
        await self._behind(run.store.commit_round, run.run_id, r, round_values, values)
        await asyncio.to_thread(recycle, spool, run.free)
        run.revision += 1
        done = f"round {r + 1} of {run.config.num_rounds} committed"
        loss = record["train_loss"]
        tail = f", train loss {loss:.4f}" if loss is not None else ""
        run.say("round-committed", f"{done} with {len(record['participants'])} silos{tail}")

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
            self._run.say("refused", f"refused an update of {silo_id}: {why}", silo_id)
            session = self._run.sessions.of(silo_id)
            if session is not None:
                session.error = f"update refused: {why}"
        return bool(far)

    async def _sum(self, record: Row) -> Checkpoint:
        """x_{r+1} and what else follows.

        Raises:
            DivergenceError: It is not finite; names the largest update.
        """
        run = self._run
        where = (run.spool, run.folder / "checkpoints", run.config.update_dtype)
        try:
            return await self._durably(sum_round, run.kernel, run.server, record, *where)
        except DivergenceError as error:
            largest = max(record["participants"], key=lambda p: float(p["update_norm"]))
            silo_id, norm = largest["silo_id"], largest["update_norm"]
            text = f"{error}; the largest update is that of {silo_id}, of norm {norm:.3g}"
            raise DivergenceError(text, error.count) from error

    def _record(self) -> dict[str, Any]:
        """The set that the round is closed with: the database's, or made and recorded now."""
        run, r = self._run, self._run.state.round_index
        record = run.store.round_at(run.run_id, r)
        if record is not None:
            return record
        samples = {s: run.enrolments[s].num_samples for s in run.accepted}
        left_out = run.reasons_missing()
        record = make_record(run.config, r, run.sampled, run.accepted, samples, left_out)
        run.store.begin_close(run.run_id, {**record, "opened_at": run.opened_text})
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
            run.detail = f"testing the final model at {', '.join(waiting)}"
            await run.broadcast.changed(min(left, 1.0))
        await self._end(Signal.EVALUATED, f"all {r} rounds are committed")

    async def _end(self, signal: Signal, text: str) -> None:
        run = self._run
        await self._settle()
        run.detail = text
        if run.server is not None and run.layout is not None:
            await self._durably(self._export)
            await asyncio.to_thread(self._tidy)
        run.move(signal)
        state = run.state.phase.value
        await self._set_state(state, finished_at=now_text())
        run.say(state.lower(), f"{run.config.title}: {state.lower()}: {text}")

    def _tidy(self) -> None:
        """Delete what only a run under way needs."""
        folder = self._run.folder
        (folder / FROZEN_FILE).unlink(missing_ok=True)
        rmtree(folder / "spool", True)
        newest = max((f.name for f in (folder / "checkpoints").glob("x*.safetensors")), default="")
        prune_checkpoints(folder / "checkpoints", newest)

    def _export(self) -> None:
        run = self._run
        assert run.server is not None
        assert run.layout is not None
        about = {
            "run_id": run.run_id,
            "method": run.config.method,
            "task": run.config.task,
            "round_index": str(run.server.round_index),
            "config": json.dumps(run.config.model_dump(mode="json")),
        }
        path = run.folder / "model.safetensors"
        export_model(path, run.layout, run.server, self._frozen, about)

    async def _set_state(self, state: str, **values: Any) -> None:
        run = self._run
        values |= {"state": state, "detail": run.detail}
        await self._durably(lambda: run.store.update_run(run.run_id, **values))
        run.broadcast.notify()
