"""The life of one run: prepare x_0, freeze the roster, collect, close, commit, evaluate, finish.

A round is committed in three steps (DESIGN section 6): the set that closes it is recorded; the
checkpoint is written and fsynced; one transaction with its digest advances r. Whatever dies in
between, the next start finds which step was reached and goes on from there.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

import torch
from sqlalchemy.exc import OperationalError
from torch import Tensor

from domo.errors import DomoError, RoundTimeoutError
from domo.model_file import build_initial, load_model, save_model
from domo.tasks import load_task
from domo.vector import Layout, Section, byte_view, digest
from domo_server.checkpoint import (
    export_model,
    initial_state,
    load_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from domo_server.closing import make_record, outliers, sum_round
from domo_server.round_state import Phase, Policy, RoundState, Signal, judge
from domo_server.run import Enrolment, Run, WireVector
from domo_server.store import now_text

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_S = 5.0
"""A waiting run looks at least this often, so that its text stays true."""
DISK_S = 2.0
"""Pause between attempts to write to a full disk."""
NOBODY = "every silo of this round is left out; re-admit one, or stop the run"

Row = Mapping[str, Any]


class RunLoop:
    """Drives a `Run` from where the database left it to its end.

    Args:
        run: The run.
        writing: Held while something durable is being written; a shutdown waits for it.
    """

    def __init__(self, run: Run, writing: asyncio.Lock):
        self._run, self._writing = run, writing
        self._paused_at = run.clock()
        self._frozen = torch.empty(0, dtype=torch.uint8)

    async def execute(self, row: Row) -> None:
        """Run to the end; faults become the state FAILED with the reason."""
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
            await self._on_disk(self._make_x0, path)
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
        records = await asyncio.to_thread(run.store.rounds_of, run.run_id)
        if records and records[-1]["round_index"] == r:
            run.recorded = {p["silo_id"]: p["digest"] for p in records[-1]["participants"]}
            run.sampled = list(run.recorded)  # an update lost with the power is sent again
        await run.restore_updates()
        if run.recorded is not None and len(run.accepted) == len(run.recorded):
            run.state = RoundState(Phase.CLOSING, r, row["attempt"])
        elif row["state"] == "PAUSED":
            run.state = RoundState(Phase.PAUSED, r, row["attempt"])
            run.pause_wanted = True
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
        await self._on_disk(
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
                run.detail = "paused by the admin" if run.sampled else NOBODY
                await run.broadcast.changed(LOOK_S)
                continue
            now = run.clock()
            quorum_for = None if run.quorum_at is None else now - run.quorum_at
            policy = run.policy if run.recorded is None else Policy()
            verdict = judge(
                policy, run.sampled, run.accepted, run.failed, now - run.opened_at, quorum_for
            )
            run.detail = verdict.text + run.notes_on(verdict.missing)
            if verdict.action == "close":
                return True
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
            away = run.clock() - self._paused_at
            run.opened_at += away  # deadline and grace do not run while a run is paused
            run.quorum_at = None if run.quorum_at is None else run.quorum_at + away
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
        record = await self._on_disk(self._record)
        run.detail = f"summing {len(record['participants'])} updates"
        following = await self._on_disk(sum_round, run.kernel, run.server, record, run.spool)
        name, checkpoint_digest = await self._on_disk(save_checkpoint, checkpoints, following)
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
        await self._on_disk(run.store.commit_round, run.run_id, r, round_values, run_values)
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

    def _record(self) -> dict[str, Any]:
        """The set that the round is closed with: the database's, or made and recorded now."""
        run, r = self._run, self._run.state.round_index
        records = run.store.rounds_of(run.run_id)
        if records and records[-1]["round_index"] == r:
            return records[-1]
        accepted, left_out = dict(run.accepted), run.reasons_missing()
        if run.config.norm_check != "off":
            norms = {s: row["update_norm"] for s, row in accepted.items()}
            for silo_id, why in outliers(norms, run.config.norm_factor).items():
                if run.config.norm_check == "reject":
                    left_out[silo_id] = why
                    del accepted[silo_id]
                kind = "refused" if run.config.norm_check == "reject" else "unusual"
                run.store.add_event(kind, f"{silo_id}: {why}", run.run_id, silo_id)
        samples = {s: run.enrolments[s].num_samples for s in accepted}
        record = make_record(run.config, r, run.sampled, accepted, samples, left_out)
        run.store.begin_close(run.run_id, {**record, "opened_at": run.opened_text})
        return record

    async def _on_disk(self, work: Callable[..., T], *args: Any) -> T:
        """Durable work on a thread; a full disk is waited out, a shutdown waits for the work."""
        run, said = self._run, False
        while True:
            try:
                async with self._writing:
                    return await asyncio.to_thread(work, *args)
            except (OSError, OperationalError) as error:
                reason = getattr(error, "strerror", None) or str(getattr(error, "orig", error))
                where = getattr(error, "filename", None)
                at = f" ({where})" if where else ""
                run.detail = f"the coordinator cannot go on: {reason}{at}; it tries again"
                if not said:
                    run.say("disk", run.detail)
                said = True
            await asyncio.sleep(DISK_S)

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
            try:
                await asyncio.to_thread(self._export)
            except OSError as error:  # it can be made again from the checkpoint
                log.warning("[%s] the model was not exported: %s", run.run_id, error)
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
        await self._on_disk(lambda: run.store.update_run(run.run_id, **values))
        run.broadcast.notify()


def layout_of(folder: Path) -> tuple[Layout, Tensor]:
    """Layout and frozen bytes of a run, from its x_0."""
    layout, vectors, _ = load_model(folder / "x0.safetensors")
    return layout, vectors[Section.FROZEN]
