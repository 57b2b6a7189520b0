"""No process is left of one that has died, whatever it was doing and whatever it died of."""

import signal
import sys
from pathlib import Path

import pytest

from domo.training.initial import save_initial
from tests.support.live.coordinator import coordinator
from tests.support.live.left_over import GONE_S, Family
from tests.support.tasks.gated import GatedTask

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TASK = "tests.support.tasks.gated:GatedTask"
LOADS = ["python", "-m", "tests.support.tasks.slow_samples"]


@pytest.mark.parametrize("ending", ["killed", "crash"])
def test_loader_processes_end_with_the_process_that_has_them(tmp_path: Path, ending: str) -> None:
    """One computes and lets no other thread run, one rests; one that sleeps is a user's own."""
    with Family([*LOADS, str(tmp_path), ending], tmp_path / "log") as family:
        family.until(lambda _: (tmp_path / "ready").exists())
        if ending == "killed":
            assert len(family.pids()) >= 4
            family.die(signal.SIGKILL)
        assert family.first.wait(20) == (-9 if ending == "killed" else 3)
        family.until(lambda pids: not pids, GONE_S)


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """Data of a silo whose first round does not begin."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "samples.txt").write_text("20")
    (data / "hold-0").touch()
    return data


@pytest.mark.parametrize("command", [(), ("doctor",)], ids=["agent", "doctor"])
def test_a_silos_loader_processes_end_with_it(
    tmp_path: Path, held: Path, command: tuple[str, ...]
) -> None:
    save_initial(GatedTask().build_model(), tmp_path / "x0.safetensors")
    run = {"task": TASK, "num_rounds": 1, "num_silos": 1, "local_steps": 2, "evaluate_every": 1}
    with coordinator(tmp_path, run | {"initial_model": str(tmp_path / "x0.safetensors")}) as server:
        flags = ["--server", server.address, "--name", "site-a", "--task", TASK, "--workers", "1"]
        flags += ["--data", str(held), "--state-dir", str(tmp_path / "silo")]
        with Family(["domo-client", *command, *flags], tmp_path / "log") as family:
            family.until(lambda _: (held / "training-0").exists())
            assert len(family.pids()) >= 3
            family.die(signal.SIGKILL)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_the_processes_of_a_comparison_end_with_it(
    tmp_path: Path, held: Path, sig: signal.Signals
) -> None:
    command = ["domo", "simulate", "--compare", "FedAvg,DOMO", "--jobs", "2", "--task", TASK]
    command += ["--data", str(held), "--silos", "1", "--out", str(tmp_path / "out")]
    with Family(command, tmp_path / "log") as family:
        family.until(lambda _: (held / "training-0").exists())
        family.die(sig)


def test_what_the_demo_has_started_ends_with_it(tmp_path: Path) -> None:
    begin = (
        "import pathlib, time; from scripts import demo; demo.FOLDER = pathlib.Path('.');"
        "demo.BIN = pathlib.Path('/bin'); guard = demo.start_guard();"
        "demo.start(guard, 'a', 'sleep', '600'); demo.start(guard, 'b', 'sleep', '600');"
        "time.sleep(600)"
    )
    with Family(["python", "-c", begin], tmp_path / "log") as family:
        family.until(lambda pids: len(pids) == 4)
        family.die(signal.SIGKILL)
