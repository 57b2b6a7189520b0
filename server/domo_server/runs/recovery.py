"""A run as a coordinator finds it at its start: its files, and the phase that it was left in."""

import asyncio
from pathlib import Path
from shutil import copyfile, rmtree

from domo.errors import StateError
from domo.model.layout import Section
from domo.model.model_file import open_model, save_model
from domo.model.tensor_file import TensorFile
from domo.run_config import RunConfig
from domo.storage import files
from domo.tasks import load_task
from domo.training.initial import build_initial
from domo_proto.codec import VectorId
from domo_server.events import kinds
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.durable import Durable, set_state
from domo_server.runs.receiver import of_its_files
from domo_server.runs.run import Run
from domo_server.runs.wire_vector import WireVector
from domo_server.store.checkpoint import (
    Checkpoint,
    first_checkpoint,
    frozen_file,
    load_checkpoint,
    load_previous,
    prune_checkpoints,
)
from domo_server.store.rows import RunRow
from domo_server.store.store import now_text


async def load(run: Run, durably: Durable, row: RunRow) -> tuple[TensorFile | None, bool]:
    """Make a run ready for its silos, from where the database left it.

    Args:
        run: The run; it is filled in.
        durably: Writes for it.
        row: Its row.

    Returns:
        Its frozen parameters, if any, and whether it goes on in a round that was begun before.

    Raises:
        StateError: What a new run is to begin with is no initial model.
        OSError, TransportError: The disk or the database; or a file of the run is missing or
            damaged, until it is mounted, or restored.
    """
    try:
        return await _load(run, durably, row)
    except StateError as error:
        if row.state == "QUEUED" and not isinstance(error.__cause__, OSError):
            raise
        raise of_its_files(error) from error


async def _load(run: Run, durably: Durable, row: RunRow) -> tuple[TensorFile | None, bool]:
    path, checkpoints = run.folder / "x0.safetensors", run.folder / "checkpoints"
    if row.roster is None and not path.exists():
        await durably(_make_x0, run.config, path)
    layout, _ = await asyncio.to_thread(open_model, path)
    if row.checkpoint is None:
        run.server = await durably(committed, run.folder, row)
    else:
        run.server = await asyncio.to_thread(committed, run.folder, row)
        prune_checkpoints(checkpoints, row.checkpoint)
    if run.kernel.fusion != "none":
        run.previous = await asyncio.to_thread(load_previous, checkpoints, run.server, path)
    frozen = await durably(frozen_file, run.folder, path)
    if frozen is not None:
        name = Section.FROZEN.value
        content = bytes.fromhex(await asyncio.to_thread(frozen.digest, name))
        run.frozen_wire = WireVector(frozen, name, VectorId.FROZEN, content, False)
    run.enrolments |= await asyncio.to_thread(run.store.enrolled, run.run_id)
    for e in await asyncio.to_thread(run.store.evaluations_of, run.run_id):
        run.reported.setdefault(e.model_index, set()).add(e.silo_id)
    await durably(lambda: run.store.update_run(run.run_id, num_params=layout.num_params))
    run.detail, run.stuck = "", None  # of an earlier try
    resumed = await _restore(run, durably, row)
    for old in (run.folder / "spool").glob("*"):
        if old.name < run.spool.name or old == run.free:  # the next round's are needed
            await asyncio.to_thread(rmtree, old, True)
    run.layout, run.ready = layout, True
    run.broadcast.notify()
    return frozen, resumed


def committed(folder: Path, row: RunRow) -> Checkpoint:
    """The checkpoint that the database names; before the first, that of x_0.

    Args:
        folder: The run's.
        row: Its row.

    Raises:
        StateError: It is missing or damaged.
    """
    checkpoints = folder / "checkpoints"
    if row.checkpoint is None:
        return first_checkpoint(checkpoints, folder / "x0.safetensors")
    assert row.checkpoint_digest is not None
    named = row.checkpoint, row.checkpoint_digest
    return load_checkpoint(checkpoints, *named, row.rounds_done, row.inference_scale)


def _make_x0(config: RunConfig, path: Path) -> None:
    if config.initial_model:
        given = Path(config.initial_model)
        open_model(given)
        files.make_folder(path.parent)
        temporary = path.with_name(path.name + ".tmp")
        copyfile(given, temporary)
        files.sync_path(temporary)
        temporary.replace(path)  # its name is synced with that of the checkpoints' folder
    else:
        layout, vectors = build_initial(load_task(config.task), config.seed)
        save_model(path, layout, vectors, {"task": config.task, "seed": str(config.seed)})


async def _restore(run: Run, durably: Durable, row: RunRow) -> bool:
    """Find the phase again: the database's, one step before what was not finished."""
    run.roster = None if row.roster is None else list(row.roster)
    if run.roster is None:
        started_at = row.started_at or now_text()
        await set_state(run, durably, {"state": "WAITING", "started_at": started_at})
        return False
    r = row.rounds_done
    for closed in await asyncio.to_thread(run.store.rounds_of, run.run_id):
        if closed.round_index < r:
            run.count(closed)
    run.state = RoundState(Phase.OPEN, r, row.attempt)
    run.open_round()
    if r >= run.config.num_rounds:
        run.state = RoundState(Phase.EVALUATING, r)
        return False
    whole = await _restore_set(run, durably)
    if row.state == "PAUSED":
        run.state = RoundState(Phase.PAUSED, r, row.attempt)
        run.pause_wanted = True
    elif whole:
        run.state = RoundState(Phase.CLOSING, r, row.attempt)
    done = f"round {r + 1} of {run.config.num_rounds}"
    tail = "; it is still paused" if run.pause_wanted else ""
    run.say(kinds.RESUMED, f"resumed at {done} with {len(run.accepted)} updates already here{tail}")
    return True


async def _restore_set(run: Run, durably: Durable) -> bool:
    """Take back the round's updates; whether they are all of a set that it is closed with.

    Where one was lost with the power, nothing that is durable follows from the set: the round is
    collected anew.
    """
    r = run.state.round_index
    record = await asyncio.to_thread(run.store.round_at, run.run_id, r)
    found = await run.find_updates(r)
    if record is None:
        run.restore(found)
        return False
    wanted = {p.silo_id: p.digest for p in record.participants}
    whole = all(s in found and found[s].digest == d for s, d in wanted.items())
    if whole:
        run.sampled = list(wanted)
    run.restore(found)
    if not whole:
        await durably(run.store.reopen_round, run.run_id, r)
        run.say(kinds.REOPENED, f"round {r + 1} was being closed; it is collected anew")
    return whole
