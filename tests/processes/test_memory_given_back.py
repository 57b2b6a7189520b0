"""An agent that waits for the next run holds nothing of the last one."""

import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import domo
from tests.support.live.coordinator import coordinator, own_run
from tests.support.live.federation import Federation

TASK = """
import torch
from torch import nn
from domo.tasks.base import ArrayDataset


class Large:
    def build_model(self):
        return nn.Sequential(nn.Linear(2000, 2000), nn.Linear(2000, 1))

    def train_data(self, root, shard):
        return ArrayDataset(torch.rand(20_000, 2000), torch.rand(20_000))

    def loss(self, model, batch):
        return (model(batch[0])[:, 0] - batch[1]).square().mean()

    def evaluate(self, model, batch):
        return {}
"""
DATASET_MB = 160


def rss_mb(pid: int) -> float:
    """Of a process with its loaders."""
    process = psutil.Process(pid)
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            total += one.memory_info().rss
    return total / 1e6


def loaders(pid: int) -> list[str]:
    """Command lines of its processes, without the one that tidies up Python's shared memory."""
    found = list[str]()
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found.append(" ".join(process.cmdline()))
    return [line for line in found if "resource_tracker" not in line]


@pytest.mark.alone
@pytest.mark.parametrize("workers", [0, 1])
def test_dataset_model_and_loaders_of_a_run_that_is_over(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large_task.py").write_text(TASK)
    monkeypatch.syspath_prepend(tmp_path)
    model = domo.load_task("large_task:Large").build_model()
    run = own_run(tmp_path, model, task="large_task:Large", num_rounds=1, local_lr=1e-5)
    federation = Federation(tmp_path)
    with coordinator(tmp_path, run, run) as server:  # the first one imports what training needs
        flags = ("--task", "large_task:Large", "--data", str(tmp_path), "--workers", str(workers))
        silo = federation.start_silo("site-a", *flags, address=server.address)
        try:
            silo.wait_for(r"run 2-\S+: 20000 training")
            peak = rss_mb(silo.pid)
            silo.wait_for(r"run 2-\S+: finished after 1 round")
            end = time.monotonic() + 20
            while (idle := rss_mb(silo.pid)) > peak - DATASET_MB or loaders(silo.pid):
                told = f"{idle:.0f} MB while idle, {peak:.0f} MB in the run, {loaders(silo.pid)}"
                assert time.monotonic() < end, told
                time.sleep(0.1)
        finally:
            silo.kill()
