"""Every instant of a commit at which a coordinator can die, one by one (DESIGN section 6).

Two silos, two rounds. After the crash a new coordinator is given what survives; silos send again
what it asks for, as agents do. It must end with the bytes of an undisturbed run. Taking any one
sync out of the code must be noticed.
"""

import asyncio
import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch
import xxhash

from domo.api.schema import ENDED
from domo.errors import DomoError
from domo.metrics import Sum
from domo.model.flat import byte_view
from domo.model.layout import Section
from domo.model.model_file import load_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.storage import files
from domo.training.initial import save_initial
from domo.update_format import encode
from domo_proto import codec
from domo_proto.assignment import Assignment, Counted
from domo_proto.codec import VectorId, decode_frame
from domo_server.coordinator.coordinator import Coordinator
from domo_server.runs.run import Run
from domo_server.runs.wire_vector import WireVector
from domo_server.store.checkpoint import load_checkpoint
from domo_server.store.database import open_database
from domo_server.store.kept import best_checkpoint
from domo_server.store.rows import Enrolment, RunRow
from domo_server.store.store import Store
from tests.support.faults.power_loss import MODES, Crash, Crashes, Disk

pytestmark = pytest.mark.slow

SILOS = ("a", "b")
LIFE_S = 30.0
ALL = "CRASH_ALL" in os.environ
"""Every kind of death at every instant: minutes. Otherwise the kinds take turns."""
Accepted = set[tuple[int, str]]
Residuals = dict[tuple[str, Counted], torch.Tensor]
"""What rounding has left of each update of a silo; silos do not die here."""


SCORES = (0.3, 0.6, 0.5, 0.55, 0.9)
"""Of x_0, x_1, ...: x_1 is the best of those that a run with a patience of two tests sees."""


def config(folder: Path, update_dtype: str, **more: Any) -> RunConfig:
    settings = {
        "name": "r",
        "task": "own:Loop",
        "method": "DOMO",
        "num_rounds": 2,
        "local_steps": 2,
        "roster": SILOS,
        "initial_model": str(folder / "x0.safetensors"),
        "evaluate_every": 0,
        "update_dtype": update_dtype,
        **more,
    }
    return validate(RunConfig, settings, "the test")


def local_update(silo_id: str, x: torch.Tensor, r: int) -> torch.Tensor:
    """What a silo would compute: a function of silo, round and x_r."""
    return x * 0.1 + (1 + r) * (0.5 if silo_id == "a" else -0.25)


async def send(
    run: Run, silo_id: str, assignment: Assignment[WireVector], residuals: Residuals, durable: bool
) -> None:
    """What an agent does for the open round."""
    assert run.model.current is not None
    d = local_update(silo_id, run.model.current["x"], run.state.round_index)
    e = None if assignment.counted is None else residuals.get((silo_id, assignment.counted))
    q, left = encode(d, e, run.config.update_dtype)
    data = byte_view(q)
    digest = xxhash.xxh3_128_hexdigest(data)
    if left is not None:
        assert assignment.counted is None or e is not None, "no such update was ever made"
        residuals[silo_id, Counted(assignment.round_index, digest)] = left
    r, state = (
        run.state.round_index,
        run.receiver.upload_state(silo_id, run.state.round_index, digest),
    )
    if state[0] in ("accepted", "stale"):
        return
    upload = run.receiver.begin_upload(silo_id, [(VectorId.UPDATE, len(data))], digest, state[1], 2)
    try:
        upload.resume()
        for message in codec.encode(VectorId.UPDATE, data, state[1]):
            upload.write(decode_frame(message))
        norm = upload.finish(durable)
    finally:
        upload.close()
    await run.receiver.accept(silo_id, r, upload, norm, 2, {"loss": 1.0})


async def life(
    state_dir: Path,
    database: Path,
    run_config: RunConfig,
    durable: bool,
    had: Accepted,
    residuals: Residuals,
) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """One life of a coordinator, to the end of the run."""
    store = Store(open_database(f"sqlite:///{database}"))
    coordinator = Coordinator(store, state_dir, durable_updates=durable)
    try:
        await coordinator.submissions.submit_once(run_config, "r")
        coordinator.start()
        assert coordinator.queue._task is not None
        for silo_id in SILOS:
            who = {"silo_id": silo_id, "instance_id": silo_id, "role": "trainer"}
            await coordinator.registry.join({**who, "device": "", "software_version": ""})
        async with asyncio.timeout(LIFE_S):
            while True:
                if coordinator.queue._task.done():
                    await coordinator.queue._task  # raises what ended it
                row = store.run("1-r")
                assert row is not None
                if row.state in ENDED:
                    assert row.state == "FINISHED", row.detail
                    x, m = left_over(coordinator.queue.folder("1-r"), row)
                    return x, m, numbers(store, coordinator.queue.folder("1-r"), row)
                run = coordinator.queue.find("1-r")
                assert run is None or run.ready or not run.stuck, run and run.stuck
                if run is not None and run.ready:
                    await take_part(coordinator, run, durable, had, residuals)
                await asyncio.sleep(0.001)
    finally:
        await coordinator.shutdown()
        with contextlib.suppress(Crash):
            await coordinator.events.close()
        store.close()


def numbers(store: Store, folder: Path, row: RunRow) -> list[Any]:
    """Of each round: its drift, and its silos' cosines; why it ended; the best model."""
    rows = store.rounds_of("1-r")
    rounds = [(row.drift, [p.cosine for p in row.participants]) for row in rows]
    if row.best_index is None:
        return rounds
    kept = sorted(path.name for path in (folder / "checkpoints").glob("best-*"))
    assert kept == [row.best_checkpoint]
    best = best_checkpoint(folder / "checkpoints", row)
    assert best is not None
    _, vectors, _ = load_model(folder / "best.safetensors")
    assert torch.equal(vectors[Section.TRAINABLE], best["x"])
    found = (row.best_index, row.best_value, row.best_digest, row.detail, row.rounds_done)
    judged = [(j.model_index, j.value) for j in store.judgements_of("1-r")]
    return [*rounds, found, judged]


def left_over(folder: Path, row: RunRow) -> tuple[torch.Tensor, torch.Tensor]:
    """x_R and m_R on disk; the exported model must be x_R."""
    where = (folder / "checkpoints", row.checkpoint, row.checkpoint_digest)
    state = load_checkpoint(*where, row.rounds_done, row.inference_scale)
    _, vectors, _ = load_model(folder / "model.safetensors")
    assert torch.equal(vectors[Section.TRAINABLE], state["x"])
    return state["x"], state["m"]


async def take_part(
    coordinator: Coordinator, run: Run, durable: bool, had: Accepted, residuals: Residuals
) -> None:
    assert run.model.layout is not None
    for silo_id in SILOS:
        session = coordinator.sessions.of(silo_id)
        assert session is not None
        if silo_id not in run.roster.enrolled:
            tests = 4 if run.config.evaluate_every else 0
            place = Enrolment("trainer", 8, tests)
            await run.enroll(session, bytes.fromhex(run.model.layout.digest), place)
        assignment = run.assignment_for(silo_id, -1)
        if assignment is not None and assignment.evaluate:
            i = assignment.round_index
            await run.evaluations.add(silo_id, i, {"accuracy": Sum(4 * SCORES[i], 4)})
        if assignment is not None and assignment.action == "TRAIN":
            lost = (assignment.round_index, silo_id) in had
            assert not (durable and lost), f"{silo_id} has to send an accepted update again"
            await send(run, silo_id, assignment, residuals, durable)


def accepted_rows(database: Path) -> Accepted:
    with contextlib.closing(sqlite3.connect(database)) as db:
        rows = db.execute("SELECT round_index, silo_id FROM updates").fetchall()
        done = db.execute("SELECT max(rounds_done) FROM runs").fetchone()[0] or 0
    return {(r, s) for r, s in rows if r >= done}


class Lab:
    """Lives of coordinators in folders of their own."""

    def __init__(self, folder: Path, update_dtype: str = "float32", **more: Any):
        self.folder, self.number = folder, 0
        torch.manual_seed(1)
        save_initial(torch.nn.Linear(3, 2), folder / "x0.safetensors")
        self.config = config(folder, update_dtype, **more)
        open_database(f"sqlite:///{folder / 'empty.db'}").dispose()

    def live(
        self,
        monkeypatch: pytest.MonkeyPatch,
        durable: bool,
        at: int | None = None,
        mode: str = "kill",
        without: str | None = None,
    ) -> tuple[Any, Crashes]:
        """A life that dies at an instant, and the next one; final (x, m), numbers of rounds."""
        self.number += 1
        here = self.folder / str(self.number)
        (here / "state").mkdir(parents=True)
        database = here / "state.db"
        residuals: Residuals = {}
        shutil.copy(self.folder / "empty.db", database)

        def save(disk: Disk) -> None:
            disk.survivors(here / "after", mode)
            for file in here.glob("state.db*"):
                shutil.copy(file, here / f"after-{file.name}")

        async def go(state: Path, db: Path, had: Accepted) -> Any:
            return await life(state, db, self.config, durable, had, residuals)

        with monkeypatch.context() as patched:
            crashes = Crashes(patched, here / "state", at, save, without)
            try:
                result = asyncio.run(go(here / "state", database, set()))
            except Crash:
                pass
            finally:
                crashes.disk.close()
        if crashes.dead:
            shutil.rmtree(here / "state")
            (here / "after").rename(here / "state")
            for file in here.glob("after-state.db*"):
                file.replace(here / file.name.removeprefix("after-"))
            had = accepted_rows(database) if database.exists() else set()
            result = asyncio.run(go(here / "state", database, had))
        shutil.rmtree(here)
        return result, crashes


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def same(a: Any, b: Any) -> bool:
    return torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) and bool(a[2] == b[2])


@pytest.mark.timeout(3000 if ALL else 600)
@pytest.mark.parametrize(
    ("durable", "update_dtype"), [(False, "bfloat16"), (True, "float32")], ids=["process", "power"]
)
def test_dying_at_any_instant_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, update_dtype: str
) -> None:
    lab = Lab(tmp_path, update_dtype)
    undisturbed, crashes = lab.live(monkeypatch, durable)
    assert crashes.count > 60, "the instants are not seen"
    (drift, first), (_, second) = undisturbed[2]
    assert (drift > 0, first, None in second) == (True, [None, None], False)
    for at in range(crashes.count):
        for mode in MODES if ALL else [MODES[at % len(MODES)]]:
            result, died = lab.live(monkeypatch, durable, at, mode)
            # commits run beside the next round, so one life may have an instant more than another
            assert died.dead or at >= died.count, f"instant {at} was never reached"
            assert same(result, undisturbed), f"other bytes after {mode} at instant {at}"


@pytest.mark.timeout(3000 if ALL else 600)
def test_the_best_model_and_an_early_stop_are_the_same_after_dying_at_any_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path, evaluate_every=1, num_rounds=4, stop_after=2)
    undisturbed, crashes = lab.live(monkeypatch, durable=False)
    *_, found, judged = undisturbed[2]
    assert found[:2] == (1, 0.6)
    assert found[3:] == (
        "stopped early after round 3: accuracy did not improve for 2 tests; best was round 1",
        3,
    )
    assert [index for index, _ in judged] == [0, 1, 2, 3]
    for at in range(0, crashes.count, 1 if ALL else 5):
        result, died = lab.live(monkeypatch, False, at, MODES[at % len(MODES)])
        assert died.dead or at >= died.count, f"instant {at} was never reached"
        assert same(result, undisturbed), f"another best model after instant {at}"


@pytest.mark.timeout(3000 if ALL else 600)
def test_every_sync_is_needed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking any one out loses something that the database says is there."""
    undisturbed, crashes = lab.live(monkeypatch, durable=True)
    assert len(crashes.sites) >= 6, crashes.sites
    assert files.sync.__module__ == "domo.storage.files"
    for where in sorted(crashes.sites):
        # commits run beside the next round: an instant that tells may be met in one search only
        searches = 3 * (True, False)
        missed = (noticed(lab, monkeypatch, undisturbed, where, d) for d in searches)
        assert any(missed), f"nobody misses the sync at {where}"


def noticed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, undisturbed: Any, where: str, durable: bool
) -> bool:
    _, whole = lab.live(monkeypatch, durable, without=where)
    # what tells is soon after one that was left out; a life may have some instants more
    after = [[abs(at - left) for left in whole.left_out] for at in range(whole.count + 6)]
    for at in sorted(range(whole.count + 6), key=lambda at: min(after[at], default=at)):
        for mode in MODES[1:]:
            try:
                result, _ = lab.live(monkeypatch, durable, at, mode, where)
            except (AssertionError, DomoError, OSError):
                return True
            if not same(result, undisturbed):
                return True
    return False
