"""A comparison on workers, one of which is killed in the middle: the numbers of one process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from domo.commands.compare import compare, to_json
from domo.errors import ConfigError
from domo.run_config import RunConfig
from domo.sweeps.cells import Setting
from domo.sweeps.engines import elsewhere, jobs

CONFIG = RunConfig(task="digits", num_rounds=4, num_silos=3, local_epochs=4)
METHODS, SEEDS = ("FedAvg", "DOMO", "DOMO-S"), (0, 1)
WAIT_S = 200.0


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setting, str]:
    setting = Setting(CONFIG, tmp_path_factory.mktemp("data"))
    return setting, to_json(compare(setting, METHODS, SEEDS))


def until(good: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_S
    while not (found := good()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def once(act: Callable[[], Any]) -> Callable[..., None]:
    """Called with the first run that is done."""
    left = [act]

    def told(*_: Any) -> None:
        if left:
            left.pop()()

    return told


@contextmanager
def dask(folder: Path) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """A scheduler and two workers, and its address."""
    from distributed import Client

    where = folder / "scheduler.json"
    flags = ["--scheduler-file", str(where), "--no-dashboard"]
    begin = [sys.executable, "-m", "distributed.cli.dask_worker", *flags[:2], "--nthreads", "1"]
    begin += ["--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--local-directory"]
    began: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:
        try:
            to = {"stdout": log, "stderr": log}
            scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", *flags]
            scheduler += ["--host", "127.0.0.1", "--port", "0"]
            began.append(subprocess.Popen(scheduler, **to))
            began += [subprocess.Popen([*begin, str(folder / n)], **to) for n in "ab"]
            until(where.exists)
            address = until(lambda: where.read_text("ascii")).partition("tcp://")[2].split('"')[0]
            with Client(f"tcp://{address}", set_as_default=False) as client:
                client.wait_for_workers(2, timeout=WAIT_S)
            yield address, began[1:]
        finally:
            for process in began:
                process.kill()
                process.wait()


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_in_the_middle_changes_nothing(
    one: tuple[Setting, str], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    setting, numbers = one
    with dask(tmp_path) as (address, workers), elsewhere(f"dask://{address}", tmp_path, 1) as pool:
        client = pool._client
        kept = []

        def kill() -> None:
            busy = until(lambda: [w for w, keys in client.processing().items() if keys])
            pid = client.run(os.getpid, workers=busy[:1])[busy[0]]
            assert pid in [w.pid for w in workers]
            os.kill(pid, signal.SIGKILL)

        made = compare(
            setting,
            METHODS,
            SEEDS,
            executor=pool,
            on_done=once(kill),
            on_run=lambda m, s, _: kept.append((m, s)),
        )
        assert [w.poll() for w in workers].count(None) == 1
    assert to_json(made) == numbers
    assert sorted(kept) == sorted((m, s) for m in METHODS for s in SEEDS)


def test_a_dask_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("domo.sweeps.engines.CONNECT_S", 0.5)
    with (
        pytest.raises(ConfigError, match="no Dask scheduler answers"),
        elsewhere("dask://127.0.0.1:9", tmp_path, 1),
    ):
        pass


@pytest.mark.slow
def test_a_process_of_jobs_that_is_killed_in_the_middle_changes_nothing(
    one: tuple[Setting, str],
) -> None:
    setting, numbers = one

    def kill() -> None:
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    made = compare(setting, METHODS, SEEDS, jobs=2, on_done=once(kill))
    assert to_json(made) == numbers
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_jobs_of_submitit_one_of_which_is_killed_have_the_same_numbers(
    one: tuple[Setting, str], tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    setting, _ = one
    with jobs(tmp_path, 1, cluster="local") as pool:
        began: list[str] = []

        def kill() -> None:
            (job,) = until(lambda: list(pool._jobs.values()))[:1]
            began.append(job.job_id)
            os.kill(int(job.job_id), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()
        methods = METHODS[:2]
        made = compare(setting, methods, (0,), executor=pool)
    assert to_json(made) == to_json(compare(setting, methods, (0,)))
    jobs_made = {path.name.partition("_")[0] for path in tmp_path.iterdir()}
    assert len(jobs_made) == len(methods) + len(began) == 3
