"""A disk that is full in the middle of a run: said in words, nothing damaged, and it goes on.

The disk is a small tmpfs, so mounting it needs root; elsewhere these tests are skipped.
"""

import asyncio
import errno
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import domo_server.events.event_log
import domo_server.runs.durable
from domo.api.edit import RunEdit
from domo.errors import CoordinatorUnavailableError
from domo.model.model_file import save_model
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.training.batches import BatchLoader
from domo.training.initial import build_initial, save_initial
from domo_proto.v1 import federation_pb2 as pb
from domo_server.events.kinds import EventKind
from tests.support.faults.small_disk import small_disk
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import Agent, agents, options
from tests.support.played.lab import RUN_ID, SILOS, Lab, life, play
from tests.support.played.raw import Raw, fault
from tests.support.tasks.failing import WideTask

A, B = SILOS[:2]
TASK = "tests.support.tasks.failing:WideTask"
FULL = os.strerror(errno.ENOSPC)
SIZE = "16m"


class Disk:
    """A small file system of its own."""

    def __init__(self, folder: Path):
        self.folder, self._ballast = folder, folder / "ballast"

    def fill(self, spare: int = 0) -> None:
        """Leave no room but `spare` bytes."""
        with self._ballast.open("ab", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            f.truncate(f.tell() - spare)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with small_disk(SIZE) as folder:
        yield Disk(folder)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domo_server.runs.durable, "DISK_S", 0.05)
    monkeypatch.setattr(domo_server.events.event_log, "RETRY_S", 0.05)


# the coordinator's


def final(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(max((folder / "checkpoints").glob("x*.safetensors")))


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def wide_x0(folder: Path) -> None:
    torch.manual_seed(1)
    save_initial(torch.nn.Linear(50_000, 1), folder / "x0.safetensors")


def lab_run(lab: Lab) -> dict[str, torch.Tensor]:
    return final(lab.c.queue.folder(RUN_ID))


async def held_up(lab: Lab, text: str) -> None:
    await lab.until(lambda: text in lab.run.detail, text)
    shown = await lab.view.run(RUN_ID)
    assert shown is not None
    assert text in shown.detail
    assert shown.detail.endswith("; it goes on by itself once it can")


async def begin(lab: Lab) -> None:
    for name in (A, B):
        await lab.enroll(name)
    await lab.round_open(0)


async def second_round(lab: Lab) -> None:
    """It is open, and what the first one leaves behind is gone."""
    await lab.round_open(1)
    await lab.until(lambda: not (lab.c.queue.folder(RUN_ID) / "spool" / "round-000000").exists())


@pytest.mark.parametrize("spare", [0, 100_000], ids=["database", "checkpoint"])
def test_a_disk_that_fills_up_while_a_round_is_closed(
    spare: int, disk: Disk, tmp_path: Path
) -> None:
    settings = {"roster": [A, B], "num_rounds": 2}
    text = (
        "the coordinator's database says: database or disk is full"
        if not spare
        else f"the coordinator's disk says: {FULL} ("
    )

    async def full() -> None:
        async with life(disk.folder, **settings) as lab:
            await begin(lab)
            await lab.view.pause(RUN_ID)
            await lab.until(lambda: lab.run.state.phase == "PAUSED")
            await lab.send_all(A, B)
            disk.fill(spare)
            await lab.view.resume(RUN_ID)
            await held_up(lab, text)
            assert lab.run.state.round_index == 0
            folder = lab.c.queue.folder(RUN_ID) / "checkpoints"
            assert not list(folder.glob("*.tmp")), "a part of a checkpoint was left"
        # it was shut down on its full disk; the next life finds it as full

    async def next_life() -> None:
        async with life(disk.folder, **settings) as lab:
            if not spare:  # that it was resumed could not be recorded
                await lab.until(lambda: lab.run.detail == "paused by the admin")
                await lab.view.resume(RUN_ID)
            await held_up(lab, text)
            disk.free()
            await second_round(lab)
            assert "there is room again: the run goes on" in await lab.events("disk")
            for name in (A, B):
                await lab.join(name)
            await lab.send_all(A)
            disk.fill(500_000)  # room for the last update, not for a checkpoint
            await lab.send_all(B)
            await held_up(lab, f"the coordinator's disk says: {FULL} (")
            disk.free()
            result = await lab.ended()
            assert (result.state, result.complete) == ("FINISHED", True)
            assert (lab.c.queue.folder(RUN_ID) / "model.safetensors").exists()
            results.append(lab_run(lab))

    async def undisturbed() -> None:
        async with life(tmp_path, **settings) as lab:
            await begin(lab)
            await lab.send_all(A, B)
            await lab.round_open(1)
            await lab.send_all(A, B)
            await lab.ended()
            results.append(lab_run(lab))

    results: list[dict[str, torch.Tensor]] = []
    for folder in (disk.folder, tmp_path):
        wide_x0(folder)
    play(full())
    play(next_life())
    play(undisturbed())
    assert same(*results)


@pytest.mark.parametrize("spare", [0, 50_000], ids=["database", "model"])
def test_the_model_of_a_run_that_ends_on_a_full_disk_is_written_once_there_is_room(
    spare: int, disk: Disk
) -> None:
    text = f"the coordinator's disk says: {FULL} (" if spare else "database or disk is full"

    async def go() -> None:
        async with life(disk.folder, roster=[A, B], num_rounds=2) as lab:
            await begin(lab)
            await lab.send_all(A, B)
            await second_round(lab)
            disk.fill(spare)
            await lab.view.stop(RUN_ID)
            await held_up(lab, text)
            assert lab.run.detail.startswith("stopped by the admin; ")
            disk.free()
            result = await lab.ended()
            assert (result.state, result.detail) == ("STOPPED", "stopped by the admin")
            assignment = lab.assignment(A)
            assert assignment is not None
            assert assignment.text == "stopped by the admin"
            assert (lab.c.queue.folder(RUN_ID) / "model.safetensors").exists()

    wide_x0(disk.folder)
    play(go())


def test_every_change_on_a_full_disk_is_refused_in_words_and_not_half_made(disk: Disk) -> None:
    async def go() -> None:
        async with life(disk.folder, roster=[A, B]) as lab:
            await begin(lab)
            disk.fill()
            config = {**lab.run.config.model_dump(mode="json"), "name": "another"}
            changes = [
                lambda: lab.view.submit(config),
                lambda: lab.view.drop(B, "mad"),
                lambda: lab.view.edit(RUN_ID, RunEdit(notes="kept")),
                lambda: lab.join("a-new-one"),
            ]
            for change in changes:
                with pytest.raises(
                    CoordinatorUnavailableError,
                    match="the coordinator's database says: database or disk is full",
                ):
                    await change()
            assert lab.c.registry.dropped == {}
            assert [(r.name, r.notes) for r in await lab.view.runs()] == [("r", "")]
            assert [s.silo_id for s in await lab.view.silos()] == [A, B]
            lab.run.say(EventKind("note"), "kept until there is room")
            disk.free()
            await lab.until(lambda: lab.store.events_after(0, 1)[-1].kind == "note")
            assert (await lab.view.drop(B, "mad")).dropped == "mad"
            await lab.send_all(A)
            await lab.round_open(1)

    wide_x0(disk.folder)
    play(go())


class Scene:
    """Two real silos and a run over them; rounds can be held."""

    def __init__(self, folder: Path):
        self.folder = folder
        save_model(folder / "x0.safetensors", *build_initial(WideTask(), 5))
        for i, name in enumerate((A, B)):
            self.data(name).mkdir()
            (self.data(name) / "samples.txt").write_text(str(20 + 5 * i))
        self.run = {
            "task": TASK,
            "num_rounds": 2,
            "roster": [A, B],
            "local_steps": 3,
            "batch_size": 8,
            "initial_model": str(folder / "x0.safetensors"),
            "evaluate_every": 0,
            "seed": 5,
        }

    def data(self, name: str) -> Path:
        return self.folder / f"data-{name}"

    def hold(self, name: str, r: int) -> None:
        (self.data(name) / f"hold-{r}").touch()

    def release(self, name: str, r: int) -> None:
        (self.data(name) / f"hold-{r}").unlink()

    def options(self, i: int) -> Any:
        return options(self.data((A, B)[i]), TASK)

    def same_bytes(self, server: Coordinator) -> bool:
        task = WideTask()
        silos = [SimulatedSilo(n, BatchLoader(task.train_data(self.data(n), None))) for n in (A, B)]
        expected = simulate(validate(RunConfig, self.run, "the test"), task, silos)
        ours = final(server.state_dir / "runs" / server.run_ids[0])
        return torch.equal(ours["x"], expected.x) and torch.equal(ours["m"], expected.m)


def test_uploads_to_a_full_disk_are_sent_again_until_there_is_room(
    disk: Disk, tmp_path: Path
) -> None:
    scene = Scene(tmp_path)
    scene.hold(A, 1)
    with (
        coordinator(disk.folder, scene.run) as server,
        agents(server.address, [A, B], tmp_path, scene.options),
    ):
        path = f"/runs/{server.run_ids[0]}"
        server.until(path, lambda run: (run["rounds_done"], run["waiting_for"]) == (1, [A]))
        disk.fill()
        scene.release(A, 1)
        run = server.until(path, lambda run: "updates cannot be kept" in run["detail"])
        assert run["detail"].startswith(
            "waiting for 1 more of 2 silos: site-a; updates cannot be kept: the coordinator's "
        )
        assert run["state"] == "OPEN"

        # REST and the rpcs answer in words
        with pytest.raises(urllib.error.HTTPError) as caught:
            server.post("/runs", {**scene.run, "name": "another"})
        with caught.value as answer:
            body = json.load(answer)["error"]
        assert (body["status"], body["code"]) == (503, "unavailable")
        assert body["message"] == (
            "the coordinator's database says: database or disk is full. Try again in a moment."
        )
        raw = Raw(server)
        error = fault(raw.join, silo_id="site-z")
        assert type(error) is CoordinatorUnavailableError
        assert error.retryable
        assert str(error) == "the coordinator's database says: database or disk is full"
        assert [s["silo_id"] for s in server.get("/silos")] == [A, B]

        disk.free()
        assert server.ended()["complete"] is True
        raw.join(silo_id="site-z")
        raw.close()
        texts = [e["text"] for e in server.get("/events?kind=disk")]
        assert texts[0].startswith("updates cannot be kept: ")
        assert "updates are kept again" in texts
        assert scene.same_bytes(server)


def test_a_full_disk_hides_nothing_and_keeps_nobody_from_stopping(
    disk: Disk, tmp_path: Path
) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1))
    hook = {"url": "http://127.0.0.1:9/nobody"}
    with coordinator(disk.folder, run, webhooks=[hook]) as server:
        raw = Raw(server)
        raw.join()
        raw.enroll(num_samples=8)
        server.until(f"/runs/{server.run_ids[0]}", lambda run: run["state"] == "OPEN")
        disk.fill()
        said = {"session": raw.session, "run_id": raw.run_id, "failure": "no " * 600}
        for _ in range(20):
            raw.stub.Report(pb.ReportRequest(**said), timeout=30)
        began = time.monotonic()
        assert "site-a joined" in [event["text"] for event in server.get("/events")]
        with urllib.request.urlopen(f"{server.url}/api/v1/stream", timeout=10) as stream:
            told = next(line for line in stream if line.startswith(b"data: {"))
        assert "site-a failed: no no" in json.loads(told[6:])["run"]["detail"]
        raw.close()
        server.close()
        assert time.monotonic() - began < 20


# a silo's


@pytest.mark.parametrize(
    "rules", ["open", "min_batch = 1\nmin_samples_per_update = 1\nmin_silos = 2"]
)
def test_a_silo_with_a_full_disk_says_so_and_goes_on(
    rules: str, disk: Disk, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(rules if rules != "open" else "")
    given = rules if rules == "open" else policy
    scene = Scene(tmp_path)
    scene.hold(A, 0)
    scene.hold(B, 0)
    failed = f"; site-a failed: OSError ({FULL})"
    with coordinator(tmp_path, scene.run) as server:
        path = f"/runs/{server.run_ids[0]}"
        a = Agent(server.address, A, disk.folder, scene.options(0), policy=given)
        b = Agent(server.address, B, tmp_path, scene.options(1), policy=given)
        try:
            # no room for the update, which waits in memory
            server.until(f"/silos/{A}", lambda silo: silo["num_samples"] == 20)
            trained = scene.data(A) / "training-0"
            server.until(path, lambda run: trained.exists())
            disk.fill()
            scene.release(A, 0)
            server.until(path, lambda run: failed in run["detail"])
            silo = server.silo(A)
            assert silo["error"] == f"OSError ({FULL})"
            trained.unlink()
            disk.free()
            server.until(path, lambda run: run["waiting_for"] == [B])
            assert not trained.exists(), "it trained again"
            assert server.silo(A)["error"] is None

            # no room for the next model
            disk.fill()
            scene.release(B, 0)
            server.until(path, lambda run: run["rounds_done"] == 1 and failed in run["detail"])
            server.until(
                f"/events?kind=silo-failed&silo_id={A}",
                lambda events: "site-a failed in round 2: OSError" in events[-1]["text"],
            )
            disk.free()
            assert server.ended()["complete"] is True
        finally:
            for name in (A, B):
                (scene.data(name) / "hold-0").unlink(missing_ok=True)
            a.close()
            b.close()
        assert scene.same_bytes(server)
    assert not list(disk.folder.rglob("*.tmp"))


def test_a_disk_that_is_not_full_but_gone_is_said_too(tmp_path: Path) -> None:
    async def go() -> None:
        async with life(tmp_path, roster=[A, B]) as lab:
            await begin(lab)
            folder = lab.c.queue.folder(RUN_ID)
            (folder / "checkpoints").rename(folder / "elsewhere")
            (folder / "checkpoints").write_text("a file where a folder should be")
            await lab.send_all(A, B)
            await held_up(lab, "the coordinator's disk says: ")
            (folder / "checkpoints").unlink()
            await lab.round_open(1)
            await asyncio.sleep(0)

    play(go())
