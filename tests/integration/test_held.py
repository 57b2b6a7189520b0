"""Runs whose files or disk are at fault: held, not lost; and a stop is never forgotten."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import domo_server.coordinator.queue
import domo_server.runs.durable
from domo.errors import CoordinatorUnavailableError
from domo.model.tensor_file import TensorFile
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, living, opened, play

A, B = SILOS[:2]
SETTINGS = {"roster": [A, B], "num_rounds": 3}


async def first_round(folder: Path) -> Path:
    """A run with one round committed; its folder."""
    async with opened(folder, **SETTINGS) as lab:
        await lab.send_all(A, B)
        await lab.round_open(1)
        await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
        return lab.c.queue.folder(RUN_ID)


@contextlib.asynccontextmanager
async def held(folder: Path) -> AsyncIterator[Lab]:
    """The next life of its coordinator, which cannot load it."""
    async with living(Lab(folder)) as lab:
        lab.c.start()
        await lab.until(lambda: lab.c.queue.find(RUN_ID) is not None and lab.run.stuck)
        yield lab


def test_a_run_whose_files_are_not_there_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.2)

    async def go() -> None:
        files = await first_round(tmp_path) / "checkpoints"
        files.rename(tmp_path / "not-mounted")
        async with held(tmp_path) as lab:
            await lab.until(lambda: lab.watch.stalled)
            shown = await lab.view.run(RUN_ID)
            assert shown is not None
            assert shown.state == "OPEN"
            newest = files / "x000001.safetensors"
            assert shown.detail == shown.stalled
            assert shown.detail == (
                f"the committed checkpoint {newest} cannot be read: cannot read the model file "
                f"{newest}: No such file or directory; mount or restore the run's files, or stop "
                "it; the coordinator tries again"
            )
            (tmp_path / "not-mounted").rename(files)
            await lab.until(lambda: lab.run.ready)
            assert lab.run.stuck is None
            for name in (A, B):
                await lab.join(name)
            await lab.round_open(1)
            await lab.send_all(A, B)
            await lab.round_open(2)

    play(go())


def test_a_held_run_can_be_stopped_and_is_not_loaded_again(tmp_path: Path) -> None:
    async def go() -> None:
        newest = await first_round(tmp_path) / "checkpoints" / "x000001.safetensors"
        newest.with_name("x000000.safetensors").replace(newest)
        async with held(tmp_path) as lab:
            assert "is not the one that the database names; mount" in lab.run.detail
            await lab.view.stop(RUN_ID)
            async with asyncio.timeout(5):  # not after the pause of 10 s
                result = await lab.ended()
            assert (result.state, result.rounds_done) == ("STOPPED", 1)
            assert result.detail.startswith("stopped by the admin; it could not be loaded: the ")
            turn = lab.run.turn_for(A, -1)
            assert turn is not None
            assert (turn.outcome, turn.round_index) == ("STOPPED", 1)

    play(go())


def test_a_stop_ends_what_a_disk_holds_up(tmp_path: Path) -> None:
    async def go() -> None:
        folder = await first_round(tmp_path)
        async with life(tmp_path, **SETTINGS) as lab:
            for name in (A, B):
                await lab.join(name)
            (folder / "checkpoints").rename(folder / "elsewhere")
            (folder / "checkpoints").write_text("a file where a folder should be")
            await lab.send_all(A, B)
            await lab.until(lambda: lab.run.stuck)
            await lab.view.stop(RUN_ID)
            result = await lab.ended()
            assert (result.state, result.detail) == ("STOPPED", "stopped by the admin")
            assert (folder / "model.safetensors").exists()

    play(go())


def test_a_stop_does_not_wait_for_a_round_that_cannot_be_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise CoordinatorUnavailableError("the coordinator's database says: gone")

    async def go() -> None:
        async with opened(tmp_path, **SETTINGS) as lab:
            await lab.send_all(A, B)
            await lab.round_open(1)
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            monkeypatch.setattr(lab.store, "commit_round", lost)
            await lab.send_all(A, B)
            await lab.round_open(2)
            await lab.until(lambda: lab.run.stuck)
            await lab.view.stop(RUN_ID)
            result = await lab.ended()
            assert (result.state, result.rounds_done) == ("STOPPED", 1)
            model = TensorFile.open(lab.c.queue.folder(RUN_ID) / "model.safetensors")
            assert model.metadata["round_index"] == "1"

    play(go())


def test_a_stop_that_waits_for_the_disk_outlives_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.runs.durable, "DISK_S", 0.05)

    async def go() -> None:
        folder = await first_round(tmp_path)
        blocked = folder / "model.safetensors.tmp"
        blocked.mkdir()
        async with life(tmp_path, **SETTINGS) as lab:
            await lab.view.stop(RUN_ID)
            await lab.until(lambda: lab.run.detail.startswith("stopped by the admin; the coord"))
            assert not lab.run.state.ended
        blocked.rmdir()
        lab = Lab(tmp_path)
        lab.c.start()
        await lab.until(lambda: lab.c.queue.find(RUN_ID) is not None)
        result = await lab.ended()
        assert (result.state, result.rounds_done) == ("STOPPED", 1)
        assert (folder / "model.safetensors").exists()
        await lab.c.shutdown()
        await lab.c.events.close()
        lab.store.close()

    play(go())
