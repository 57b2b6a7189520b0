"""A terminal that is closed, and output that nobody takes: both ends, and commands of `domo`."""

import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import domo
from tests.support.live.coordinator import coordinator
from tests.support.live.federation import BIN
from tests.support.live.killable import free_port
from tests.support.terminal import Terminal

PLAIN = {"OMP_NUM_THREADS": "1"}
SERVER = """
[server]
listen = "{silos}"
dashboard = "{page}"
state_dir = "{folder}/state"
report_interval_s = 0.2
"""


def test_an_agent_whose_terminal_is_closed_says_goodbye(tmp_path: Path) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 2, "name": "r"}
    with coordinator(tmp_path, run) as server:
        command = [str(BIN / "domo-client"), "--server", server.address, "--name", "site-a"]
        command += ["--shard", "0/4", "--state-dir", str(tmp_path / "silo")]
        with Terminal(command, 80, 24, PLAIN) as terminal:
            terminal.until("enrolling")
            terminal.close()
            said = server.until(
                "/events", lambda all_: any(e["text"].startswith("site-a left") for e in all_)
            )
            assert terminal.wait() == 0
    assert "site-a left: its terminal was closed" in [e["text"] for e in said]


def test_a_coordinator_whose_terminal_is_closed_stops_in_order(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:0"\ndashboard = "127.0.0.1:0"\nstate_dir = "{tmp_path}/s"\n'
    )
    command = [str(BIN / "domo-server"), "--config", str(tmp_path / "f.toml")]
    with Terminal(command, 80, 24, PLAIN) as terminal:
        terminal.until("idle: no run is configured")
        terminal.close()
        assert terminal.wait() == 0


def test_a_simulation_whose_terminal_is_closed_can_be_gone_on_with(tmp_path: Path) -> None:
    command = [str(BIN / "domo"), "simulate", "--rounds", "5000", "--out", str(tmp_path / "out")]
    with Terminal(command, 80, 24, PLAIN) as terminal:
        terminal.until("round +2/5000")
        terminal.close()
        assert terminal.wait() == 129
    assert (tmp_path / "out" / "interrupted.safetensors").exists()


def test_services_go_on_at_hangup_and_where_nothing_can_be_written(tmp_path: Path) -> None:
    """One of the two streams of each is on a full disk, the other was never given."""
    silos, page = (f"127.0.0.1:{free_port()}" for _ in range(2))
    (tmp_path / "f.toml").write_text(SERVER.format(silos=silos, page=page, folder=tmp_path))

    def start(command: str) -> subprocess.Popen[bytes]:
        shell = ["sh", "-c", f"exec {BIN}/{command}"]
        return subprocess.Popen(shell, cwd=tmp_path, start_new_session=True)

    flags = f"--server {silos} --name site-a --shard 0/4 --state-dir site-a --once"
    server = start("domo-server --config f.toml <&- >/dev/full 2>&-")
    silo = start(f"domo-client {flags} <&- >&- 2>/dev/full")
    try:
        until(f"http://{page}/api/v1/silos", lambda all_: any(s["phase"] == "idle" for s in all_))
        for process in (server, silo):
            process.send_signal(signal.SIGHUP)
        token = (tmp_path / "state" / "admin-token").read_text().strip()
        with domo.Coordinator(f"http://{page}", token) as rest:
            run = {"name": "r", "task": "digits", "num_rounds": 2, "num_silos": 1, "local_steps": 2}
            ended = rest.wait(rest.submit(run).run_id, 60)
        assert ended.state == "FINISHED"
        assert silo.wait(60) == 0
        server.terminate()
        assert server.wait(60) == 0
    finally:
        for process in (server, silo):
            process.kill()
            process.wait()


def until(url: str, good: Callable[[Any], bool], timeout_s: float = 60.0) -> None:
    """Until an answer of REST is good."""
    end = time.monotonic() + timeout_s
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if good(json.load(answer)):
                return
        assert time.monotonic() < end, url
        time.sleep(0.05)
