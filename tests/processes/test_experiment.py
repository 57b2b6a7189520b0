"""`domo experiment run`, killed: what is done stays as it is, and the rest is run."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from domo.commands.experiment.cells import Job, run_all
from domo.errors import TransportError
from domo.experiments.recipe import load_recipe
from domo.sweeps.cells import Setting
from tests.support.tasks.killed import MARKER

RUN = "from domo.commands.main import main; main()"
PATIENCE_S = 300.0


def start(out: Path, jobs: int) -> subprocess.Popen[str]:
    words = ["experiment", "run", "alpha-beta", "--scale", "tiny", "--seeds", "0,1", "--out", out]
    words += ["--jobs", jobs, "--set", "num_rounds=6"]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, words)], stdout=subprocess.PIPE, text=True
    )


def records(out: Path) -> dict[str, tuple[int, int]]:
    found = sorted((out / "tiny" / "cells").glob("*.json"))
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_in_the_middle_it_repeats_nothing(tmp_path: Path, jobs: int) -> None:
    with start(tmp_path, jobs) as process:
        end = time.monotonic() + PATIENCE_S
        while len(records(tmp_path)) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = records(tmp_path)
    assert 3 <= len(before) < 22

    with start(tmp_path, jobs) as again:
        text, _ = again.communicate()
    assert again.returncode == 0
    after = records(tmp_path)
    assert {name: after[name] for name in before} == before, "a record was written again"
    assert len(after) == 22
    assert f"24 runs, {22 - len(before)} runs to do" in text
    for path in (tmp_path / "tiny" / "cells").glob("*.json"):
        assert len(json.loads(path.read_text())["model_indices"]) == 7
    assert not list((tmp_path / "tiny" / "cells").glob("*.part*"))


def jobs_of(folder: Path, task: str) -> list[Job]:
    cells = load_recipe("svhn").cells("tiny", (0,), {"task": task, "num_rounds": 1})[:3]
    return [Job(cell, Setting(cell.config, folder), folder) for cell in cells]


@pytest.mark.slow
def test_a_cell_whose_process_was_killed_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKER, str(tmp_path / "marker"))
    asked = jobs_of(tmp_path, "tests.support.tasks.killed:KilledOnce")
    done = dict(run_all(asked, 2))
    assert (tmp_path / "marker").exists()
    assert set(done) == set(asked)
    assert all(not record.failed for record in done.values())


@pytest.mark.slow
def test_processes_that_are_killed_again_and_again_are_said(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="its worker was lost 3 times"):
        list(run_all(jobs_of(tmp_path, "tests.support.tasks.killed:AlwaysKilled"), 2))
