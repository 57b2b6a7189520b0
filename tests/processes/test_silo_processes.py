"""Silos in several processes: the bytes of one, its errors, and nothing that is left behind."""

import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from domo.errors import ConfigError, DomoError
from domo.methods import PAPER_METHODS
from domo.run_config import RunConfig
from domo.simulated import SimulationResult
from domo.simulating import share
from domo.simulating.shared import pack, unpack
from domo.simulation import simulate
from domo.training.batches import BatchLoader
from tests.support.tasks.split_work import SplitWorkTask, silos_of_split_work

TASK = "tests.support.tasks.split_work:SplitWorkTask"
SETTINGS = {
    "task": TASK,
    "num_rounds": 3,
    "num_silos": 5,
    "batch_size": 4,
    "local_lr": 0.05,
    "local_epochs": 1.5,
    "weight_decay": 0.01,
    "drop_last": True,
}


def config(**changes: Any) -> RunConfig:
    return RunConfig(**(SETTINGS | changes))


def run(c: RunConfig, processes: int | None, **more: Any) -> SimulationResult:
    return simulate(c, SplitWorkTask(), silos_of_split_work(), processes=processes, **more)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    def shared() -> set[str]:
        return {p.name for p in Path("/dev/shm").iterdir() if p.name.startswith("torch_")}

    files, before = set(Path("/proc/self/fd").iterdir()), shared()
    yield
    assert multiprocessing.active_children() == []
    assert shared() <= before
    left = set(Path("/proc/self/fd").iterdir()) - files
    assert len(left) <= 8, left  # of the helper, and of who answers where a process is


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_method_has_the_bytes_of_one_process(method: str) -> None:
    c = config(method=method, participation=3, update_dtype="bfloat16")
    here, there = run(c, 1), run(c, 2)
    assert there.checkpoint_digest == here.checkpoint_digest
    assert there.history == here.history
    assert {s: b.tobytes() for s, b in _arrays(there)} == {s: b.tobytes() for s, b in _arrays(here)}


def _arrays(result: SimulationResult) -> Iterator[tuple[str, Any]]:
    yield from ((s.value, v.numpy()) for s, v in result.vectors.items())


def test_residuals_and_a_run_that_is_gone_on_with() -> None:
    c, held = config(method="FedAvgSLM", update_dtype="float16"), []
    whole = run(c, 1, on_round=lambda h, _: held.append(h))
    kept = []
    again = run(c, 3, begin=held[0], on_round=lambda h, _: kept.append(h))
    assert again.checkpoint_digest == whole.checkpoint_digest
    for r, h in enumerate(kept, 1):  # what a later round writes is not in what was kept before
        for silo, left in h.kept.items():
            assert torch.equal(left["residual"], held[r].kept[silo]["residual"])


@pytest.mark.parametrize("fault", ["late-raise", "late-nan"])
def test_a_fault_is_said_in_the_same_words(fault: str) -> None:
    said = []
    for processes in (1, 2, 5):
        task = SplitWorkTask(fault, mark=2.0)
        with pytest.raises(DomoError) as error:
            simulate(config(), task, silos_of_split_work(), processes=processes)
        said.append((type(error.value), str(error.value), error.value.elsewhere, error.value.code))
    assert said[0][1].startswith("round 1, c: ")
    assert said[0] == said[1] == said[2]


@pytest.mark.parametrize(("fault", "words"), [("kill", "was killed"), ("exit", "exit code 3")])
def test_a_process_that_dies_is_named_with_its_silo(fault: str, words: str) -> None:
    task = SplitWorkTask(fault, mark=3.0)
    with pytest.raises(DomoError, match=rf"round 1, d: its process .*{words}"):
        simulate(config(), task, silos_of_split_work(), processes=2)


def test_ctrl_c_ends_all_at_once(tmp_path: Path) -> None:
    task = SplitWorkTask("sleep", mark=1.0, folder=tmp_path)

    def interrupt() -> None:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        simulate(config(), task, silos_of_split_work(), processes=2)
    assert not any(Path(f"/proc/{p.name}").exists() for p in tmp_path.iterdir())


def test_no_more_processes_than_silos_and_one_on_request() -> None:
    told: list[str] = []
    run(config(num_rounds=1), 9, tell=told.append)
    run(config(num_rounds=1), 1, tell=told.append)
    assert told == ["silos in 6 processes: one for each", "silos in one process: as asked for"]
    with pytest.raises(ConfigError, match="from 1 up"):
        run(config(), 0)


def test_what_pays_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(share, "cores", lambda c: 2)
    quick = run(config(), None, tell=told.append)
    monkeypatch.setattr(share, "START_S", 0.0)
    assert run(config(), None, tell=told.append).checkpoint_digest == quick.checkpoint_digest
    monkeypatch.setattr(share, "cores", lambda c: 1)
    run(config(), None, tell=told.append)
    assert re.match(r"silos in one process: about \d s in all, and others take", told[0])
    assert re.fullmatch(r"silos in 2 processes: about \d s in one", told[1])
    assert told[2] == "silos in one process: there is one core for them"


def test_what_cannot_be_sent_is_refused_or_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    silos = silos_of_split_work()
    dataset = silos[0].train.dataset
    dataset.handle = lambda: None
    with pytest.raises(ConfigError, match=r"cannot be sent there .*take one process"):
        simulate(config(), SplitWorkTask(), silos, processes=2)
    monkeypatch.setattr(share, "cores", lambda c: 2)
    monkeypatch.setattr(share, "START_S", 0.0)
    told: list[str] = []
    simulate(config(), SplitWorkTask(), silos, processes=None, tell=told.append)
    assert "silos in one process: the silos cannot be" in told[0]


def test_arrays_are_packed_once_and_shared() -> None:
    whole = torch.arange(1000.0)
    cut = (whole[10:20], whole[::2], whole.view(10, 100).t(), torch.empty(0), [whole.numpy()])
    packed = pack(cut)
    assert packed.sizes[0] == 4000
    assert len(packed.sizes) == 2  # numpy's view is of the same bytes, and is packed by itself
    for a, b in zip(unpack(packed)[:4], cut[:4], strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
    one, two = unpack(packed), unpack(packed)
    one[0][0] = -1
    assert two[0][0] == -1
    assert one[4][0].flags.writeable


def test_loaders_of_a_process_may_have_processes_of_their_own() -> None:
    silos = [
        replace(s, train=None if s.train is None else BatchLoader(s.train.dataset, 1))
        for s in silos_of_split_work()
    ]
    c = config(num_rounds=2)
    there = simulate(c, SplitWorkTask(), silos, processes=2)
    assert there.checkpoint_digest == run(c, 1).checkpoint_digest
