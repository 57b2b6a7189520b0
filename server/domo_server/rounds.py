"""The life of one run: prepare x_0, freeze the roster, collect, close, commit, evaluate, finish.

A round is committed in three steps (DESIGN section 6): the set that closes it is recorded; the
checkpoint is written and fsynced; one transaction with its digest advances r. Whatever dies in
between, the next start finds which step was reached and goes on from there.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch
from torch import Tensor

from domo.errors import DivergenceError, DomoError, RoundTimeoutError, TransportError
from domo.model_file import build_initial, load_model, save_model
from domo.tasks import load_task
from domo.vector import Layout, Section, byte_view, digest
from domo_server.checkpoint import (
    ServerState,
    export_model,
    initial_state,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from domo_server.closing import make_record, sum_round
from domo_server.durable import Durable
from domo_server.round_state import Phase, RoundState, Signal
from domo_server.run import NOBODY, Run
from domo_server.store import now_text
from domo_server.turn import Enrolment, WireVector

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
        self._paused_at = run.clock()
        self._frozen = torch.empty(0, dtype=torch.uint8)

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

    # start

    async def _prepare(self, row: Row) -> None:
        run = self._run
        path = run.folder / "x0.safetensors"
        if row["roster"] is None and not path.exists():
            await self._durably(self._make_x0, path)
        layout, vectors, _ = await asyncio.to_thread(load_model, path)
        self._frozen = vectors[Section.FROZEN]
        run.frozen_wire = None
        if len(self._frozen):
            run.frozen_wire = WireVector(
                byte_view(self._frozen), bytes.fromhex(digest(self._frozen))
            )
        for e in await asyncio.to_thread(run.store.enrolled, run.run_id):
            run.enrolments[e["silo_id"]] = Enrolment(
                e["role"], e["num_samples"], e["num_eval_samples"]
            )
        if row["checkpoint"] is None:
            run.server = initial_state(vectors)
        else:
            run.server = await asyncio.to_thread(
                load_checkpoint,
                run.folder / "checkpoints",
                row["checkpoint"],
                row["checkpoint_digest"],
                row["rounds_done"],
                row["inference_scale"],
            )
            prune_checkpoints(run.folder / "checkpoints", row["checkpoint"])
        for e in await asyncio.to_thread(run.store.evaluations_of, run.run_id):
            run.reported.setdefault(e["model_index"], set()).add(e["silo_id"])
        run.layout = layout
        await self._durably(lambda: run.store.update_run(run.run_id, num_params=layout.num_params))
        await self._restore(row)
        for old in (run.folder / "spool").glob("*"):
            if old != run.spool:
                await asyncio.to_thread(rmtree, old, True)
        run.ready = True
        run.broadcast.notify()

    def _make_x0(self, path: Path) -> None:
        config = self._run.config
        if config.initial_model:
            layout, vectors, _ = load_model(Path(config.initial_model))
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
        run.state = RoundState(Phase.OPEN, r, row["attempt"])
        run.open_round()
        if r >= run.config.num_rounds:
            run.state = RoundState(Phase.EVALUATING, r)
            return
        records = await asyncio.to_thread(run.store.rounds_of, run.run_id)
        if records and records[-1]["round_index"] == r:
            run.recorded = {p["silo_id"]: p["digest"] for p in records[-1]["participants"]}
            run.sampled = list(run.recorded)  # an update lost with the power is sent again
        await run.restore_updates()
        if row["state"] == "PAUSED":
            run.state = RoundState(Phase.PAUSED, r, row["attempt"])
            run.pause_wanted = True
        elif run.recorded is not None and len(run.accepted) == len(run.recorded):
            run.state = RoundState(Phase.CLOSING, r, row["attempt"])
        done = f"round {r + 1} of {run.config.num_rounds}"
        tail = "; it is still paused" if run.pause_wanted else ""
        run.say("resumed", f"resumed at {done} with {len(run.accepted)} updates already here{tail}")

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
        config, checkpoints = run.config, run.folder / "checkpoints"
        assert run.server is not None
        if run.state.phase is Phase.OPEN:
            run.move(Signal.QUORUM)
            for silo_id, why in run.outliers().items() if config.norm_check == "warn" else ():
                run.say("unusual", f"{silo_id}: {why}", silo_id)
        record = await self._durably(self._record)
        run.detail = f"summing {len(record['participants'])} updates"
        following = await self._sum(record)
        name, checkpoint_digest = await self._durably(save_checkpoint, checkpoints, following)
        last = r + 1 >= config.num_rounds
        run_values = {
            "state": "EVALUATING" if last else "OPEN",
            "rounds_done": r + 1,
            "attempt": 0,
            "checkpoint": name,
            "checkpoint_digest": checkpoint_digest,
            "inference_scale": following.inference_scale,
            "detail": "",
        }
        round_values = {"closed_at": now_text(), "duration_s": run.clock() - run.opened_at}
        await self._durably(run.store.commit_round, run.run_id, r, round_values, run_values)
        spool = run.spool
        run.server, run.detail = following, ""
        run.revision += 1
        run.move(Signal.LAST_COMMITTED if last else Signal.COMMITTED)
        run.open_round()
        await asyncio.to_thread(prune_checkpoints, checkpoints, name)
        await asyncio.to_thread(rmtree, spool, True)
        done = f"round {r + 1} of {config.num_rounds} committed"
        loss = record["train_loss"]
        tail = f", train loss {loss:.4f}" if loss is not None else ""
        run.say("round-committed", f"{done} with {len(record['participants'])} silos{tail}")

    def _refuse_outliers(self) -> bool:
        far = self._run.refuse_outliers()
        for silo_id, why in far.items():
            self._run.say("refused", f"refused an update of {silo_id}: {why}", silo_id)
            session = self._run.sessions.of(silo_id)
            if session is not None:
                session.error = f"update refused: {why}"
        return bool(far)

    async def _sum(self, record: Row) -> ServerState:
        """x_{r+1} and what else follows.

        Raises:
            DivergenceError: It is not finite; names the largest update.
        """
        run = self._run
        try:
            return await self._durably(sum_round, run.kernel, run.server, record, run.spool)
        except DivergenceError as error:
            largest = max(record["participants"], key=lambda p: float(p["update_norm"]))
            silo_id, norm = largest["silo_id"], largest["update_norm"]
            text = f"{error}; the largest update is that of {silo_id}, of norm {norm:.3g}"
            raise DivergenceError(text, error.count) from error

    def _record(self) -> dict[str, Any]:
        """The set that the round is closed with: the database's, or made and recorded now."""
        run, r = self._run, self._run.state.round_index
        records = run.store.rounds_of(run.run_id)
        if records and records[-1]["round_index"] == r:
            return records[-1]
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
        run.detail = text
        if run.server is not None and run.layout is not None:
            await self._durably(self._export)
        run.move(signal)
        state = run.state.phase.value
        await self._set_state(state, finished_at=now_text())
        run.say(state.lower(), f"{run.config.title}: {state.lower()}: {text}")

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


def layout_of(folder: Path) -> tuple[Layout, Tensor]:
    """Layout and frozen bytes of a run, from its x_0."""
    layout, vectors, _ = load_model(folder / "x0.safetensors")
    return layout, vectors[Section.FROZEN]
