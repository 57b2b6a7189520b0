"""Silos that are killed or stopped, as processes: what REST says of it, and how soon."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from torch import nn

from tests.support.live.coordinator import coordinator, own_run
from tests.support.live.federation import ROOT, Process

SOON_S = 5.0


@pytest.mark.alone
def test_a_killed_and_a_stopped_silo_are_told_apart_within_seconds(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(4, 2, bias=False), num_silos=2, num_rounds=50)
    with coordinator(tmp_path, run, report_interval_s=2.0) as server:
        silos = {
            name: Process(
                [sys.executable, "-m", "tests.support.live.loop_silo", server.address, name,
                 str(tmp_path / f"state-{name}"), "--shape", "4", "2", "--pause-s", "60"],
                tmp_path / f"{name}.log",
                ROOT,
            )
            for name in ("killed", "stopped")
        }  # fmt: skip
        try:
            server.until("/silos", lambda them: [s["phase"] for s in them] == ["training"] * 2)
            os.kill(silos["stopped"].pid, signal.SIGSTOP)
            silos["killed"].kill()
            begun = time.monotonic()
            server.until("/silos", lambda them: them[0]["phase"] == "offline", 1.0)
            assert server.silo("killed")["away"].startswith("its connection broke: its process")
            assert server.silo("stopped")["phase"] != "offline"
            path = f"/runs/{server.run_ids[0]}"
            stalled = server.until(path, lambda run: run["stalled"], SOON_S)["stalled"]
            assert stalled.startswith("round 1 cannot close without killed. killed: its connection")
            left = begun + SOON_S - time.monotonic()
            server.until("/silos", lambda them: them[1]["phase"] == "offline", left)
            assert "no heartbeat: its process hangs or is stopped" in server.silo("stopped")["away"]
            lost = server.until("/events?kind=silo-lost", lambda told: len(told) == 2, 1.0)
            assert {e["silo_id"] for e in lost} == {"killed", "stopped"}
            assert len(server.get("/events?kind=run-stalled")) == 1
            status = server.get("/status")
            assert (status["num_silos_online"], status["current_run"]["state"]) == (0, "OPEN")
        finally:
            for silo in silos.values():
                silo.kill()
