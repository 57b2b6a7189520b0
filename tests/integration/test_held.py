"""Runs whose files or disk are at fault: held, not lost; and a stop is never forgotten."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from torch import nn

import domo_client
import domo_server.coordinator.queue
import domo_server.runs.durable
from domo.errors import CoordinatorUnavailableError
from domo.metrics import Sum
from domo.model.tensor_file import TensorFile
from domo.tasks.base import ArrayDataset
from tests.support.live.coordinator import coordinator, own_run
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, living, opened, play
from tests.support.played.raw import Raw

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
            assignment = lab.run.assignment_for(A, -1)
            assert assignment is not None
            assert (assignment.outcome, assignment.round_index) == ("STOPPED", 1)

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


def shorten(path: Path) -> bytes:
    """Cut the second half of a file off; returns the whole."""
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(len(whole) // 2)
    return whole


def test_silos_wait_for_a_model_that_became_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the coordinator's fault: no silo declines, and none is told where its files are."""
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.2)
    folder, troubles = tmp_path / "a", queue.Queue[str]()
    folder.mkdir()
    (folder / "instance-id").write_text("i")
    run = own_run(tmp_path, nn.Linear(2, 1), evaluate_every=0)
    data = ArrayDataset(torch.ones(4, 2), torch.ones(4, 1))

    def train() -> None:
        options = {"state_dir": folder, "on_trouble": troubles.put}
        with domo_client.connect(server.address, "site-a", **options) as silo:
            for rnd in silo.rounds(nn.Linear(2, 1), samples=4):
                for inputs, _ in rnd.batches(data):
                    rnd.model(inputs).sum().backward()
                    rnd.optimizer().step()

    with coordinator(tmp_path, run) as server:
        raw = Raw(server)
        raw.join()
        raw.enroll(num_samples=4, num_eval_samples=1)
        raw.fetch()
        raw.submit()
        raw.close()
        server.until("/events", lambda events: any(e["kind"] == "round-committed" for e in events))
        path = server.state_dir / "runs" / server.run_ids[0] / "checkpoints/x000001.safetensors"
        whole = shorten(path)
        thread = threading.Thread(target=train)
        thread.start()
        said = troubles.get(timeout=60)
        shown = server.until(
            f"/runs/{server.run_ids[0]}", lambda run: "shorter" in (run["stalled"] or "")
        )
        (told,) = server.get("/events?kind=disk")
        path.write_bytes(whole)
        thread.join(60)
        ended = server.ended()
        assert server.get("/events?kind=declined") == []
        while not troubles.empty():
            said += troubles.get()
    assert "the coordinator cannot read a file of the run; its admin is told" in said
    assert str(tmp_path) not in said
    assert told["text"] == (
        f"a model cannot be sent: {path} is shorter than it says; mount or restore the run's "
        "files, or stop it"
    )
    assert shown["state"] == "OPEN"
    assert str(path) in shown["stalled"]
    assert (ended["state"], ended["rounds_done"]) == ("FINISHED", 2)


def test_a_sum_waits_for_a_model_that_became_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.2)

    async def go() -> None:
        folder = await first_round(tmp_path)
        async with life(tmp_path, **SETTINGS) as lab:
            for name in (A, B):
                await lab.join(name)
            path = folder / "checkpoints" / "x000001.safetensors"
            await lab.send_all(A)
            whole = shorten(path)
            await lab.send_all(B)
            await lab.until(lambda: lab.run.stuck)
            path.write_bytes(whole)
            await lab.round_open(2)
            assert lab.run.stuck is None
            await lab.send_all(A, B)
            assert (await lab.ended()).state == "FINISHED"

    play(go())


def test_an_update_that_became_shorter_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.2)

    async def go() -> None:
        async with opened(tmp_path, **SETTINGS) as lab:
            await lab.send_all(A)
            (update,) = lab.run.receiver.folder(0).glob("*.update")
            shorten(update)
            first = lab.run
            await lab.send_all(B)
            await lab.until(lambda: lab.run is not first and lab.run.ready, "loaded again")
            await lab.round_open(0)
            assert set(lab.run.participants.accepted) == {B}
            await lab.send_all(A)
            await lab.round_open(1)

    play(go())


def test_a_run_is_stopped_without_the_model_that_became_shorter(tmp_path: Path) -> None:
    async def go() -> None:
        folder = await first_round(tmp_path)
        async with life(tmp_path, **SETTINGS) as lab:
            shorten(folder / "checkpoints" / "x000001.safetensors")
            await lab.view.stop(RUN_ID)
            result = await lab.ended()
            assert result.state == "STOPPED"
            assert result.detail.startswith(
                "stopped by the admin; its model could not be written: "
            )

    play(go())


def test_a_run_does_not_finish_without_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domo_server.coordinator.queue, "RETRY_S", 0.2)

    async def go() -> None:
        async with life(tmp_path, roster=[A, B], num_rounds=1, evaluate_every=1) as lab:
            for name, tests in ((A, 8), (B, 0)):
                await lab.enroll(name, num_tests=tests)
            await lab.round_open(0)
            await lab.send_all(A, B)
            await lab.until(lambda: lab.run.state.phase == "EVALUATING")
            await lab.until(lambda: lab.run.saving is None or lab.run.saving.done())
            path = lab.run.folder / "checkpoints" / "x000001.safetensors"
            whole = shorten(path)
            await lab.run.evaluations.add(A, 1, {"loss": Sum(1.0, 8)})
            await lab.until(lambda: lab.run.stuck)
            assert not lab.run.state.ended
            path.write_bytes(whole)
            assert (await lab.ended()).state == "FINISHED"

    play(go())
