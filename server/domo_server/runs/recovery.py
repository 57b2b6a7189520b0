"""A run as a coordinator finds it at its start: its files, and the phase that it was left in."""

import asyncio
from pathlib import Path
from shutil import copyfile, rmtree

from domo.algorithm import num_non_finite
from domo.errors import StateError
from domo.model.layout import Section
from domo.model.model_file import open_model, save_model, section_blocks
from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.storage import files
from domo.training.initial import about_initial, build_initial, given_initial, task_of
from domo_server.events import kinds
from domo_server.rounds.state import Phase, RoundState
from domo_server.runs.durable import Durable, set_state
from domo_server.runs.model import of_its_files
from domo_server.runs.run import QUEUE, Run
from domo_server.store.checkpoint import (
    Checkpoint,
    first_checkpoint,
    frozen_file,
    load_checkpoint,
    load_previous,
    prune_checkpoints,
)
from domo_server.store.kept import prune_best
from domo_server.store.rows import RunRow
from domo_server.store.store import now_text


async def load(run: Run, durably: Durable, row: RunRow) -> bool:
    """Make a run ready for its silos, from where the database left it.

    Args:
        run: The run; it is filled in.
        durably: Writes for it.
        row: Its row.

    Returns:
        Whether it goes on in a round that was begun before.

    Raises:
        StateError: What a new run is to begin with is no initial model.
        OSError, TransportError: The disk or the database; or a file of the run is missing or
            damaged, until it is mounted, or restored.
    """
    try:
        await _open_files(run, durably, row)
        run.roster.load(await asyncio.to_thread(run.store.enrolled, run.run_id), row.roster)
        run.hold_up(QUEUE, None)  # what an earlier try said
        run.waits_for("")
        resumed = await _restore(run, durably, row)
        sums = await asyncio.to_thread(run.store.summed_by, run.run_id)
        tables = await asyncio.to_thread(run.store.tables_of, run.run_id)
        run.evaluations.heard.recall(sums, {(t.silo_id, t.metric): t for t in tables}.values())
        tested = await asyncio.to_thread(run.store.tested_by, run.run_id)
        for index, silo_id in tested:
            run.evaluations.reported.setdefault(index, set()).add(silo_id)
    except StateError as error:
        if row.state == "QUEUED" and not isinstance(error.__cause__, OSError):
            raise
        raise of_its_files(error) from error
    now = run.receiver.folder(run.state.round_index)
    for old in now.parent.glob("*"):
        # the next round's are needed; `free` is of a version that wrote over its files
        if old.name < now.name or old.name == "free":
            await asyncio.to_thread(rmtree, old, True)
    run.loaded()
    return resumed


async def _open_files(run: Run, durably: Durable, row: RunRow) -> None:
    path, checkpoints = run.folder / "x0.safetensors", run.folder / "checkpoints"
    if row.roster is None and not path.exists():
        await durably(_make_x0, run.config, path)
    layout, _ = await asyncio.to_thread(open_model, path)
    if row.checkpoint is None:
        current = await durably(committed, run.folder, row)
    else:
        current = await asyncio.to_thread(committed, run.folder, row)
        prune_checkpoints(checkpoints, row.checkpoint)
    prune_best(checkpoints, row.best_checkpoint)
    previous = None
    if run.config.kernel.infers:
        previous = await asyncio.to_thread(load_previous, checkpoints, current, path)
    frozen, digest = await durably(frozen_file, run.folder, path), ""
    if frozen is not None:
        digest = await asyncio.to_thread(frozen.digest, Section.FROZEN.value)
    run.model.load(layout, current, previous, frozen, digest)
    run.receiver.expect(layout)
    await durably(lambda: run.store.update_run(run.run_id, num_params=layout.num_params))


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
        layout, file = open_model(given)
        layout = layout.with_private(config.private)
        if bad := sum(map(num_non_finite, section_blocks(layout, file, Section.TRAINABLE))):
            raise StateError(f"{bad} parameters in {given} are not finite: no run starts there")
        files.make_folder(path.parent)
        if config.private:
            save_model(path, *given_initial(given, config.private), dict(file.metadata))
            return
        temporary = path.with_name(path.name + ".tmp")
        copyfile(given, temporary)
        files.sync_path(temporary)
        temporary.replace(path)  # its name is synced with that of the checkpoints' folder
    else:
        layout, vectors = build_initial(task_of(config), config.seed, private=config.private)
        save_model(path, layout, vectors, about_initial(config.task, config.seed, config.images))


async def _restore(run: Run, durably: Durable, row: RunRow) -> bool:
    """Find the phase again: the database's, one step before what was not finished."""
    if row.roster is None:
        started_at = row.started_at or now_text()
        await set_state(run, durably, {"state": "WAITING", "started_at": started_at})
        return False
    r, opened_text = row.rounds_done, row.began_at
    for closed in await asyncio.to_thread(run.store.rounds_of, run.run_id):
        if closed.round_index < r:
            run.count(closed)
            opened_text = closed.closed_at
    run.left_at(RoundState(Phase.OPEN, r))
    run.open_round()
    run.participants.opened_text = opened_text or run.participants.opened_text
    run.participants.times.interrupted = True
    if r >= run.config.num_rounds:
        run.left_at(RoundState(Phase.EVALUATING, r))
        return False
    whole = await _restore_set(run, durably)
    paused = row.state == "PAUSED"
    if paused:
        run.left_at(RoundState(Phase.PAUSED, r))
    elif whole:
        run.left_at(RoundState(Phase.CLOSING, r))
    done = f"round {r + 1} of {run.config.num_rounds}"
    tail = "; it is still paused" if paused else ""
    here = f"{counted(len(run.participants.accepted), 'update')} already here"
    run.say(kinds.RESUMED, f"resumed at {done} with {here}{tail}")
    return True


async def _restore_set(run: Run, durably: Durable) -> bool:
    """Take back the round's updates; whether they are all of a set that it is closed with.

    Where one was lost with the power, nothing that is durable follows from the set: the round is
    collected anew.
    """
    r = run.state.round_index
    record = await asyncio.to_thread(run.store.round_at, run.run_id, r)
    found = await run.receiver.find_updates(r)
    if record is None:
        run.receiver.restore(found)
        return False
    wanted = {p.silo_id: p.digest for p in record.participants}
    whole = all(s in found and found[s].digest == d for s, d in wanted.items())
    if whole:
        run.participants.keep_to(list(wanted))
    run.receiver.restore(found)
    if not whole:
        await durably(run.store.reopen_round, run.run_id, r)
        run.say(kinds.REOPENED, f"round {r + 1} was being closed; it is collected anew")
    return whole
