"""What never returns: the doctor ends, an agent can be stopped, and no process is left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from domo.stages import processes, workers
from domo.training.batches import BatchLoader
from domo.training.task_errors import LoadError
from tests.support.live.coordinator import coordinator, own_run
from tests.support.tasks.hanging import HangingData, HangingTask

TASK = "tests.support.tasks.hanging:HangingTask"
ROOT = Path(__file__).parents[2]
CLIENT = Path(sys.executable).parent / "domo-client"
LIMIT_S = 20.0
"""Generous: it takes one to six."""


def data(folder: Path, *where: str) -> Path:
    made = folder / "data"
    made.mkdir()
    os.mkfifo(made / "pipe")
    (made / "hang").write_text(" ".join(where))
    return made


def started(*args: str | Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [CLIENT, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def flags(folder: Path, address: str = "127.0.0.1:1") -> list[str]:
    common = ["--server", address, "--name", "site-a", "--state-dir", str(folder / "state")]
    return [*common, "--data", str(folder / "data"), "--task", TASK]


def descendants(pid: int) -> list[int]:
    found, left = list[int](), [pid]
    while left:
        for told in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            children = list(map(int, told.read_text().split()))
            found, left = found + children, left + children
    return found


def is_there(pid: int) -> bool:
    """Whether a process is there, and not only its name in the table."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what: Callable[[], object], limit_s: float = 200.0) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_the_doctor_names_what_did_not_end_and_goes_on(tmp_path: Path) -> None:
    data(tmp_path, "item", "stubborn")
    with started("doctor", *flags(tmp_path), "--limit", "4") as process:
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 1
    (line,) = [x for x in output.splitlines() if "did not end" in x and x.startswith("problem")]
    words = r"did not end in \d+ s: .*, in HangingData.__getitem__ > hang, hanging\.py:\d+$"
    assert re.search(words, line), line
    after = output[output.index(line) :]
    assert "not checked  dummy round            what did not end must be mended first" in after
    assert "Traceback" not in output


def test_a_loader_process_says_where_it_is(tmp_path: Path) -> None:
    root = data(tmp_path, "item", "stubborn")
    ended: list[BaseException] = []

    def load() -> None:
        try:
            list(BatchLoader(HangingData(root), num_workers=2).sequential(2))
        except LoadError as error:
            ended.append(error)

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    wait_for((root / "hangs").exists)
    wait_for(workers.where)
    assert re.fullmatch(r"__getitem__ > hang, hanging\.py:\d+", str(workers.where()))
    processes.kill(workers.pids())
    thread.join(60)
    assert "a loader process was killed" in str(ended[0])


def test_ctrl_c_ends_the_doctor_at_once(tmp_path: Path) -> None:
    data(tmp_path, "train_data", "stubborn")
    with started("doctor", *flags(tmp_path), "--limit", "300") as process:
        wait_for((tmp_path / "data/hangs").exists)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=200)
    assert process.returncode == 130
    assert output.endswith("\nstopped\n")
    assert time.monotonic() - began < LIMIT_S


@pytest.mark.parametrize(
    ("where", "number", "code"),
    [
        (("item", "stubborn"), signal.SIGTERM, 0),
        (("train_data", "stubborn"), signal.SIGINT, 130),
    ],
)
def test_an_agent_that_hangs_is_stopped_by_one_signal_and_leaves_nothing(
    tmp_path: Path, where: tuple[str, ...], number: signal.Signals, code: int
) -> None:
    data(tmp_path, *where)
    run = own_run(tmp_path, HangingTask().build_model(), task=TASK, num_rounds=1)
    with coordinator(tmp_path, run) as server:
        with started(*flags(tmp_path, server.address), "--workers", "1") as process:
            wait_for((tmp_path / "data/hangs").exists)
            children, began = descendants(process.pid), time.monotonic()
            process.send_signal(number)
            output, _ = process.communicate(timeout=200)
        assert time.monotonic() - began < LIMIT_S
        assert process.returncode == code, output
        assert "site-a: stopped" in output
        assert "Traceback" not in output
        if code:
            assert "site-a: ended by force, in HangingTask.train_data > hang, hanging.py:" in output
        else:
            assert len(children) >= 2
        wait_for(lambda: not [c for c in children if is_there(c)])
        left = [e["text"] for e in server.get("/events") if e["kind"] == "left"]
        assert left == ["site-a left: stopped by its operator"]
