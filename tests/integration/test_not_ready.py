"""A silo that cannot take part yet says so at both ends, looks again by itself, and comes."""

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import domo_client
from domo.errors import CoordinatorUnavailableError
from domo_client import not_yet
from domo_client.agent import run_agent
from domo_client.observe.messages import Ui
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.tasks.bad import Linear
from tests.support.tasks.odd import ODD

PLACE = re.compile(r", in [\w.]+, line \d+ \(\w+\)")
RUN = {"task": "digits", "num_rounds": 1, "num_silos": 1, "local_steps": 1}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(not_yet, "FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr(not_yet, "LONGEST_PAUSE_S", 0.2)


def fill(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("train", "test"):
        images, labels = np.zeros((4, 1, 8, 8), np.float32), np.arange(4)
        made = folder.parent / f"{name}.npz"
        np.savez(made, inputs=images, labels=labels)
        made.replace(folder / made.name)  # whole at once: half a file has a text of its own


def absent(folder: Path) -> None:
    """A disk that is mounted later, without its mount point."""


def empty(folder: Path) -> None:
    """The same, with its mount point."""
    folder.mkdir()


def half(folder: Path) -> None:
    """Files that are still being copied."""
    fill(folder)
    whole = (folder / "train.npz").read_bytes()
    (folder / "train.npz").write_bytes(whole[: len(whole) // 2])


def told(server: Coordinator, kind: str = "not-ready") -> list[str]:
    return [e["text"] for e in server.get("/events") if e["kind"] == kind]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (absent, "the data folder: No such file or directory"),
        (empty, "the data folder is empty. It should hold train.npz"),
        (half, "the data are not what the task reads; the silo's own text says more"),
    ],
)
def test_data_that_come_late(
    state: Callable[[Path], None],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = tmp_path / "data"
    state(data)
    with (
        coordinator(tmp_path, RUN) as server,
        agents(server.address, ["site-a"], tmp_path, lambda _: options(data)),
    ):
        run_id = server.run_ids[0]
        waiting = server.until(f"/runs/{run_id}", lambda run: "not ready" in run["detail"])
        silo = server.silo("site-a")
        (said,) = told(server)  # while files come, others may be missing
        fill(data)
        assert server.ended()["state"] == "FINISHED"
        after = server.silo("site-a")
    assert said.startswith(f"site-a is not ready for {run_id}: {why}")
    assert "; site-a not ready: " in waiting["detail"]
    assert re.search(r"\(it looks again by itself, within \d+ s\)$", waiting["detail"])
    assert (silo["phase"], silo["error"][:10]) == ("failed", "not ready:")
    assert str(tmp_path) not in said + waiting["detail"]
    assert (after["error"], after["error_code"]) == (None, None)
    printed = capsys.readouterr().err
    assert f"not ready for {run_id}: " in printed
    assert re.search(r"\(looking again every \d+ s; Ctrl-C stops this silo\)", printed)
    assert "Traceback" not in printed


def test_a_folder_that_cannot_be_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    fill(data)
    faults, scandir = [errno.EIO, errno.EIO, errno.ESTALE, errno.EACCES], os.scandir

    def of(path: Any = ".") -> Any:
        if path == data and faults:
            code = faults.pop(0)
            raise OSError(code, os.strerror(code), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", of)
    with (
        coordinator(tmp_path, RUN) as server,
        agents(server.address, ["site-a"], tmp_path, lambda _: options(data)),
    ):
        assert server.ended()["state"] == "FINISHED"
        said = [text.split(": ", 1)[1] for text in told(server)]
    which = "the data folder: "
    assert said == [which + os.strerror(c) for c in (errno.EIO, errno.ESTALE, errno.EACCES)]


class Passing(Linear):
    """What fails once, in each of the ways of `faults`."""

    faults: ClassVar[list[tuple[str, BaseException]]] = []

    class Model(nn.Linear):
        def _apply(self, *args: Any, **given: Any) -> nn.Module:
            Passing.may_fail("to")
            return super()._apply(*args, **given)

    class Data(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            Passing.may_fail("item")
            return torch.ones(2), torch.tensor(index % 3)

    @classmethod
    def may_fail(cls, where: str) -> None:
        if cls.faults and cls.faults[0][0] == where:
            raise cls.faults.pop(0)[1]

    def __init__(self) -> None:
        self.may_fail("made")

    def build_model(self) -> nn.Module:
        self.may_fail("model")
        return self.Model(2, 3)

    def train_data(self, root: Path, shard: Any) -> Any:
        self.may_fail("data")
        return self.Data()

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:  # type: ignore[override]
        self.may_fail("loss")
        return nn.functional.cross_entropy(model(batch[0]), batch[1])


def test_what_passes_by_itself_costs_no_run(tmp_path: Path) -> None:
    """Memory on the device and beside it, a loader process, a file that goes between two looks."""
    gone = "/data/MRN0123.dcm"
    room = "CUDA out of memory. Tried to allocate {} GiB.\nGPU 0"
    Passing.faults[:] = [
        ("made", MemoryError()),
        ("data", FileNotFoundError(errno.ENOENT, "No such file or directory", gone)),
        ("model", RuntimeError("DefaultCPUAllocator: can't allocate memory")),
        ("model", CoordinatorUnavailableError("the store of weights does not answer")),
        ("to", torch.OutOfMemoryError(room.format(90))),
        ("to", torch.OutOfMemoryError(room.format(80.5))),
        *(("item", RuntimeError(f"DataLoader worker (pid {n}) is killed")) for n in (1, 2)),
        ("loss", RuntimeError("CUDA error: out of memory")),
    ]
    task = f"{__name__}:Passing"
    with (
        coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 3), task=task)) as server,
        agents(server.address, ["site-a"], tmp_path, lambda _: options(tmp_path, task)),
    ):
        assert server.ended()["state"] == "FINISHED"
        said = [PLACE.sub("", text.split(": ", 1)[1]) for text in told(server)]
        assert told(server, "declined") == []
    assert said == [
        f"'{task}' could not be made by Passing(): memory is short",
        "train_data(root, shard) fails: FileNotFoundError (No such file or directory)",
        "build_model() fails: memory is short",
        "the model cannot be made ready here: the store of weights does not answer",
        "the model cannot be put on cpu: out of memory",
        "samples of train_data cannot be put into a batch: RuntimeError; the silo's own text "
        "says more",
        "loss(model, batch) fails: memory is short",
    ], said
    assert "MRN0123" not in str(said)


def test_a_run_that_ends_meanwhile_and_the_next(tmp_path: Path) -> None:
    """A long pause ends with the run; the next one is taken."""
    task = "tests.support.tasks.bad:TooLarge"
    late = own_run(tmp_path, nn.Linear(2, 3), task=task)
    not_yet.FIRST_PAUSE_S = 600.0
    with (
        coordinator(tmp_path, late, RUN) as server,
        agents(
            server.address,
            ["site-a"],
            tmp_path,
            lambda _: options(None, task, "digits", shard=(0, 4)),
        ),
    ):
        server.until("/events", lambda events: any(e["kind"] == "not-ready" for e in events))
        server.post(f"/runs/{server.run_ids[0]}/stop")
        assert server.ended(1)["state"] == "FINISHED"
        assert server.silo("site-a")["error"] is None


def test_the_run_goes_on_without_it_once_it_is_dropped(tmp_path: Path) -> None:
    fill(tmp_path / "b")
    run = {k: v for k, v in RUN.items() if k != "num_silos"} | {"roster": ["site-a", "site-b"]}
    folders = [tmp_path / "a", tmp_path / "b"]
    with (
        coordinator(tmp_path, run) as server,
        agents(server.address, ["site-a", "site-b"], tmp_path, lambda i: options(folders[i])),
    ):
        server.until("/events", lambda events: any(e["kind"] == "not-ready" for e in events))
        server.post("/silos/site-a/drop", {"reason": "its disk is away"})
        assert server.ended()["state"] == "FINISHED"
        server.until("/silos", lambda silos: silos[0]["error"] is None)


@pytest.mark.parametrize("ends", [True, False])
def test_once(ends: bool, tmp_path: Path) -> None:
    """It waits for memory too; data that are not there are a reason to decline."""
    task = "tests.support.tasks.bad:TooLarge"
    run = own_run(tmp_path, nn.Linear(2, 3), task=task) if ends else RUN
    opts = options(tmp_path if ends else tmp_path / "absent", task, "digits")
    with (
        coordinator(tmp_path, run) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
    ):
        outcome: list[Any] = []
        ui = Ui(["domo-client"])
        agent = threading.Thread(
            target=lambda: outcome.append(run_agent(silo, opts, ui, once=True)), daemon=True
        )
        agent.start()
        kind = "not-ready" if ends else "declined"
        server.until("/events", lambda events: any(e["kind"] == kind for e in events))
        if ends:
            server.post(f"/runs/{server.run_ids[0]}/stop")
        agent.join(60)
    assert outcome == [None]


def test_once_and_the_run_ends_between_two_looks(tmp_path: Path) -> None:
    """It was waited for another run, which may never come."""
    task = "tests.support.tasks.bad:TooLarge"
    run = own_run(tmp_path, nn.Linear(2, 3), task=task)
    with (
        coordinator(tmp_path, run, long_poll_s=0.5) as server,
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "s") as silo,
    ):
        waits = silo.not_yet

        def ends(*given: Any) -> bool:
            still = waits(*given)
            server.post(f"/runs/{server.run_ids[0]}/stop")
            server.ended()
            return still

        silo.not_yet = ends  # type: ignore[method-assign]
        outcome: list[Any] = []
        opts, ui = options(tmp_path, task), Ui(["domo-client"])
        agent = threading.Thread(
            target=lambda: outcome.append(run_agent(silo, opts, ui, once=True)), daemon=True
        )
        agent.start()
        agent.join(30)
    assert outcome == [None]


def test_whatever_a_task_raises_is_a_reason_to_decline_and_the_agent_stays(tmp_path: Path) -> None:
    tasks = [f"tests.support.tasks.odd:{name}" for name in ODD]
    runs = [own_run(tmp_path, nn.Linear(2, 3), task=task) for task in tasks]
    opts = options(None, *tasks, "digits", shard=(0, 4))
    with (
        coordinator(tmp_path, *runs, RUN) as server,
        agents(server.address, ["site-a"], tmp_path, lambda _: opts),
    ):
        for i, run_id in enumerate(server.run_ids[:-1], 1):
            server.until("/events", lambda _, n=i: len(told(server, "declined")) == n)
            server.post(f"/runs/{run_id}/stop")
        assert server.ended(len(tasks))["state"] == "FINISHED"
        said = [PLACE.sub("", text.split(": ", 1)[1]) for text in told(server, "declined")]
    map_style = "is no map-style dataset: it has to have a length, and items by index"
    assert said == [
        "build_model() fails: OfItsOwn",
        "build_model() fails: RecursionError; the silo's own text says more",
        "the dataset of train_data cannot be read: OfItsOwn",
        "the model cannot be made ready here: ValueError; the silo's own text says more",
        "what the data mean cannot be found out: OfItsOwn",
        f"None {map_style}",
        f"generator {map_style}",
        "the task has raised GeneratorExit",
    ]
