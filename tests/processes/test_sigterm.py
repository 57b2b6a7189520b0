"""SIGTERM ends both ends with 0, and the run goes on."""

import json
import signal
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from domo.training.initial import save_initial
from tests.support.live.federation import ROOT, Process, federation
from tests.support.tasks.gated import GatedTask

TASK = "tests.support.tasks.gated:GatedTask"
RUN = f"""
name = "r"
task = "{TASK}"
num_rounds = 2
roster = ["site-a"]
local_steps = 3
batch_size = 8
initial_model = "x0.safetensors"
evaluate_every = 0
"""


@pytest.mark.e2e
def test_sigterm_ends_both_ends_with_0_and_the_run_goes_on(tmp_path: Path) -> None:
    save_initial(GatedTask().build_model(), tmp_path / "x0.safetensors")
    data = tmp_path / "data"
    data.mkdir()
    (data / "samples.txt").write_text("20")
    (data / "hold-1").touch()
    with federation(tmp_path) as fed:
        fed.start_server(f"[[runs]]\n{RUN}")
        fed.start_silo("site-a", "--data", str(data), "--task", TASK)
        fed.silos["site-a"].wait_for("round 1 of 2: 3 steps")
        end = time.monotonic() + 60
        while not (data / "training-1").exists():
            assert time.monotonic() < end, fed.silos["site-a"].output
            time.sleep(0.02)
        assert fed.silos["site-a"].stop(signal.SIGTERM) == 0, fed.silos["site-a"].output
        assert "site-a: stopped" in fed.silos["site-a"].output
        fed.start_silo("site-a", "--data", str(data), "--task", TASK)
        assert fed.server is not None
        assert fed.server.stop(signal.SIGTERM) == 0, fed.server.output
        assert "Traceback" not in fed.server.output
        fed.start_server(f"[[runs]]\n{RUN}", listen=fed.address)
        (data / "hold-1").unlink()
        fed.server.wait_for("all 2 rounds are committed")
        with urllib.request.urlopen(f"{fed.url}/api/v1/runs/1-r/rounds", timeout=30) as answer:
            assert [len(r["participants"]) for r in json.load(answer)] == [1, 1]
        for process in (fed.silos["site-a"], fed.server):
            assert process.stop(signal.SIGTERM) == 0, process.output
            assert "Traceback" not in process.output


DESTROYED = """
import time
from domo.stages.stopping import stops
from domo_client.cli import heed_sigterm

class Loader:
    def __del__(self):
        print("waiting for loader processes")
        try:
            time.sleep(60)
        finally:
            time.sleep(0.6)  # it ends them

heed_sigterm()
try:
    with stops(print):
        loader = Loader()
        del loader
        print("the next run")
        time.sleep(60)
except KeyboardInterrupt:
    print("stopped")
"""


def test_sigterm_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    """Such as in that of torch's loader, which waits there for its processes."""
    silo = Process([sys.executable, "-c", DESTROYED], tmp_path / "log", ROOT)
    try:
        silo.wait_for("waiting for loader processes")
        assert silo.stop(signal.SIGTERM) == 0
        assert silo.output.endswith("stopped\n")
        assert "Exception ignored" not in silo.output
    finally:
        silo.kill()
