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

from domo.algorithm import inference_scale, reference_steps, server_round
from domo.errors import DomoError, RoundTimeoutError
from domo.fold import average
from domo.model_file import build_initial, load_model, save_model
from domo.tasks import load_task
from domo.vector import Layout, Section, byte_view, digest
from domo_proto.codec import VectorId
from domo_server.checkpoint import (
    ServerState,
    export_model,
    initial_state,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from domo_server.round_state import Phase, RoundState, Signal, judge
from domo_server.run import Enrolment, Run, WireVector
from domo_server.spool import SpooledUpdate, update_path
from domo_server.store import now_text

log = logging.getLogger(__name__)

Row = Mapping[str, Any]


class RunLoop:
    """Drives a `Run` from where the database left it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written; a shutdown waits for it.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._writing = run, writing
        self._frozen = torch.empty(0, dtype=torch.uint8)

    async def execute(self, row: Row) -> None:
        """Run to the end; faults become the state FAILED with the reason."""
        run = self._run
        try:
            await self._prepare(row)
            if run.state.phase is Phase.WAITING:
                await self._freeze_roster()
            while run.state.phase in (Phase.OPEN, Phase.CLOSING):
                if run.state.phase is Phase.OPEN and not await self._collect():
                    break
                await self._close()
            if run.state.phase is Phase.EVALUATING:
                await self._evaluate()
        except DomoError as error:
            await self._end(Signal.FAIL, str(error))
        except Exception as error:
            log.exception("[%s] internal error", run.run_id)
            await self._end(Signal.FAIL, f"internal error: {error!r}; the log has the details")

    # start

    async def _prepare(self, row: Row) -> None:
        run = self._run
        path = run.folder / "x0.safetensors"
        async with self._writing:
            if row["roster"] is None and not path.exists():
                await asyncio.to_thread(self._make_x0, path)
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
        await asyncio.to_thread(run.store.update_run, run.run_id, num_params=layout.num_params)
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
        await run.restore_updates()
        records = await asyncio.to_thread(run.store.rounds_of, run.run_id)
        if records and records[-1]["round_index"] == r:
            run.state = RoundState(Phase.CLOSING, r, row["attempt"])
        done = f"round {r + 1} of {run.config.num_rounds}"
        run.say("resumed", f"resumed at {done} with {len(run.accepted)} updates already here")

    async def _freeze_roster(self) -> None:
        run = self._run
        run.say("waiting", f"{run.config.title} is open for silos to enrol")
        while (roster := run.freeze_roster()) is None:
            if run.stop_text is not None:
                await self._end(Signal.STOP, run.stop_text)
                return
            await run.broadcast.changed(1.0)
        for silo_id in roster:  # wrong tables fail before the first round, not in it
            n = run.enrolments[silo_id].num_samples
            run.config.weight_of(silo_id, n)
            run.config.steps_at(0, silo_id, n)
        run.roster = roster
        await asyncio.to_thread(
            run.store.update_run, run.run_id, state="OPEN", roster=roster, detail=""
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
            now = run.clock()
            quorum_for = None if run.quorum_at is None else now - run.quorum_at
            verdict = judge(
                run.policy, run.sampled, run.accepted, run.failed, now - run.opened_at, quorum_for
            )
            run.detail = verdict.text
            if verdict.action == "close":
                return True
            if verdict.action == "fail":
                raise RoundTimeoutError(verdict.text, verdict.missing)
            await run.broadcast.changed(verdict.wait_s)

    async def _close(self) -> None:
        run, r = self._run, self._run.state.round_index
        config = run.config
        async with self._writing:
            if run.state.phase is Phase.OPEN:
                record = self._record(r)
                run.move(Signal.QUORUM)
                await asyncio.to_thread(run.store.begin_close, run.run_id, record)
            else:
                record = (await asyncio.to_thread(run.store.rounds_of, run.run_id))[-1]
            run.detail = f"summing {len(record['participants'])} updates"
            following = await asyncio.to_thread(self._sum, record)
            name, checkpoint_digest = await asyncio.to_thread(
                save_checkpoint, run.folder / "checkpoints", following
            )
            last = r + 1 >= config.num_rounds
            await asyncio.to_thread(
                run.store.commit_round,
                run.run_id,
                r,
                {"closed_at": now_text(), "duration_s": run.clock() - run.opened_at},
                {
                    "state": "EVALUATING" if last else "OPEN",
                    "rounds_done": r + 1,
                    "attempt": 0,
                    "checkpoint": name,
                    "checkpoint_digest": checkpoint_digest,
                    "inference_scale": following.inference_scale,
                    "detail": "",
                },
            )
            spool = run.spool
            run.server = following
            run.detail = ""
            next_phase = Signal.LAST_COMMITTED if last else Signal.COMMITTED
            run.revision += 1
            run.move(next_phase)
            run.open_round()
            await asyncio.to_thread(prune_checkpoints, run.folder / "checkpoints", name)
            await asyncio.to_thread(rmtree, spool, True)
        done = f"round {r + 1} of {config.num_rounds} committed"
        loss = record["train_loss"]
        tail = f", train loss {loss:.4f}" if loss is not None else ""
        run.say("round-committed", f"{done} with {len(record['participants'])} silos{tail}")

    def _record(self, r: int) -> dict[str, Any]:
        """The row that fixes what round r is closed with."""
        run = self._run
        present = [s for s in run.sampled if s in run.accepted]
        left_out = {
            s: run.failed.get(s, "no update in time") for s in run.sampled if s not in present
        }
        participants = []
        for silo_id in present:
            row = run.accepted[silo_id]
            omega = run.config.weight_of(silo_id, run.enrolments[silo_id].num_samples)
            participants.append(
                {
                    "silo_id": silo_id,
                    "weight": omega,
                    "num_steps": row["num_steps"],
                    "update_norm": row["update_norm"],
                    "train_loss": row["metrics"].get("loss"),
                    "digest": row["digest"],
                    "vectors": row["vectors"],
                }
            )
        omegas = [p["weight"] for p in participants]
        losses = [p["train_loss"] for p in participants]
        mean = None
        if all(v is not None for v in losses):
            mean = sum(w * v for w, v in zip(omegas, losses, strict=True)) / sum(omegas)
        return {
            "round_index": r,
            "opened_at": run.opened_text,
            "local_lr": run.config.lr_at(r),
            "reference_steps": reference_steps(omegas, [p["num_steps"] for p in participants]),
            "participants": participants,
            "left_out": left_out,
            "train_loss": mean,
        }

    def _sum(self, record: Row) -> ServerState:
        """x_{r+1}, m_{r+1} and what else follows, from the recorded set. Runs on a thread."""
        run, state = self._run, self._run.server
        assert state is not None
        members = record["participants"]
        omegas = [p["weight"] for p in members]
        steps = [p["num_steps"] for p in members]
        h, r = record["local_lr"], state.round_index
        files = [
            SpooledUpdate(
                update_path(run.spool, p["silo_id"], p["digest"]),
                [(v, n) for v, n in p["vectors"]],
            )
            for p in members
        ]
        try:
            x, m = server_round(
                run.kernel,
                state.x,
                state.m,
                [f.reader(VectorId.UPDATE) for f in files],
                omegas,
                steps,
                h,
            )

            def mean(vector_id: VectorId, n: int) -> Tensor:
                return average([f.reader(vector_id) for f in files], omegas, n)

            mbar = mean(VectorId.LOCAL_MOMENTUM, len(x)) if run.kernel.average else None
            buffers = dict(state.buffers)
            if n := len(buffers[Section.FLOAT_BUFFER]):
                buffers[Section.FLOAT_BUFFER] = mean(VectorId.FLOAT_BUFFERS, n)
            if len(buffers[Section.INTEGER_BUFFER]):
                buffers[Section.INTEGER_BUFFER] = files[0].whole(VectorId.INTEGER_BUFFERS)
        finally:
            for f in files:
                f.close()
        p_ref = reference_steps(omegas, steps)
        scale = inference_scale(run.kernel, h, p_ref)
        return ServerState(r + 1, x, m, state.x, mbar, scale, buffers)

    # end

    async def _evaluate(self) -> None:
        """Wait for the numbers of x_R from all silos that have test data and are there."""
        run, r = self._run, self._run.state.round_index
        tests = sorted(s for s, e in run.enrolments.items() if e.num_eval_samples)
        end = run.clock() + run.config.evaluation_deadline_s

        def pending() -> list[str]:
            missing = [s for s in tests if s not in run.reported.get(r, ())]
            return [s for s in missing if run.sessions.of(s) is None or run.sessions.is_online(s)]

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
            async with self._writing:
                await asyncio.to_thread(self._export)
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
        await asyncio.to_thread(
            run.store.update_run, run.run_id, state=state, detail=run.detail, **values
        )
        run.broadcast.notify()


def layout_of(folder: Path) -> tuple[Layout, Tensor]:
    """Layout and frozen bytes of a run, from its x_0."""
    layout, vectors, _ = load_model(folder / "x0.safetensors")
    return layout, vectors[Section.FROZEN]
