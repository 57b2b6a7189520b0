"""What processes of a federation hold as time passes: memory, threads, file handles."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import domo_client
from tests.support.live.killable import (
    COORDINATOR,
    RUN_ID,
    SILOS,
    Federation,
    started,
    table,
    until,
)

TASK = "tests.support.tasks.chaos:ChaosTask"


class Usage(NamedTuple):
    """One process at one moment."""

    rss_mb: float
    threads: int
    handles: int


def usage(pid: int) -> Usage:
    """What a process holds now."""
    proc = Path(f"/proc/{pid}")
    status = dict(
        line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line
    )
    rss = int(status["VmRSS"].split()[0]) / 1024
    return Usage(round(rss, 1), int(status["Threads"]), len(list((proc / "fd").iterdir())))


def settled(pid: int, window_s: float) -> Usage:
    """The least that a process holds within a while: what is open for a moment does not count."""
    seen, end = [usage(pid)], time.monotonic() + window_s
    while time.monotonic() < end:
        time.sleep(0.02)
        seen.append(usage(pid))
    return least(seen)


def least(looks: Sequence[Usage]) -> Usage:
    """The least of each figure."""
    return Usage(*(min(column) for column in zip(*looks, strict=True)))


def over_rounds(folder: Path, at: Sequence[int], limit_s: float) -> dict[int, dict[str, Usage]]:
    """A run of four silos with 5 MB of model and one step a round.

    Args:
        folder: An empty folder.
        at: Numbers of committed rounds at which to look; after the last it stops.
        limit_s: When to give up.

    Returns:
        What each process held after so many rounds. The run is paused for a look.
    """
    run = table(TASK, at[-1] + 50, method="FedAvgSLM")
    found: dict[int, dict[str, Usage]] = {}
    with started(folder, run, 0.0, limit_s) as fed:
        end = time.monotonic() + limit_s
        for num_rounds in at:
            pause_after(fed, num_rounds, end)
            found[num_rounds] = {n: settled(p.pid, 0.2) for n, p in fed.processes.items()}
            fed.post(f"/runs/{RUN_ID}/resume")
        fed.stop()
    return found


def pause_after(fed: Federation, num_rounds: int, end: float) -> None:
    until(fed, lambda run: run["rounds_done"] >= num_rounds, end)
    fed.post(f"/runs/{RUN_ID}/pause")
    until(fed, lambda run: run["state"] == "PAUSED", end)


def idle(
    folder: Path, hours: float, on_look: Callable[[float, Usage, int], None]
) -> tuple[int, int]:
    """A coordinator without a run, and four silos that report and ask as in so many hours.

    Args:
        folder: An empty folder.
        hours: How long the night is, at the default intervals of 2 s and 20 s.
        on_look: Told (hours so far, what the coordinator holds, heartbeats so far) ten times.

    Returns:
        Heartbeats and questions of all silos.
    """
    num_reports, num_polls = int(hours * 3600 / 2), int(hours * 3600 / 20)
    run = table(TASK, 1)
    fed = Federation(folder, run, queued=False, long_poll_s=0.01)
    try:
        fed.start(COORDINATOR)
        fed.processes[COORDINATOR].wait_for("idle: no run is configured")
        silos = [domo_client.connect(fed.address, n, state_dir=folder / n) for n in SILOS]
        part = num_reports // 10

        def night(silo: domo_client.Silo) -> None:
            for i in range(part):
                silo.connection.control.report(phase="idle")
                if i % (num_reports // num_polls) == 0:
                    assert silo.connection.control.wait_for_run() is None

        for tenth in range(1, 11):
            threads = [threading.Thread(target=night, args=(s,)) for s in silos]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            held = settled(fed.processes[COORDINATOR].pid, 0.5)
            on_look(hours * tenth / 10, held, tenth * part * len(silos))
        for silo in silos:
            silo.close()
        assert fed.processes[COORDINATOR].stop() == 0
    finally:
        fed.close()
    return 10 * part * len(SILOS), 10 * len(range(0, part, num_reports // num_polls)) * len(SILOS)


def silent(folder: Path, seconds: float, limit_s: float) -> dict[str, tuple[Usage, Usage]]:
    """A run whose only step sleeps so long, with five heartbeats a second meanwhile.

    Returns:
        What each process held as the step began and as it was about to end.
    """
    run = table(TASK, 1)
    with started(folder, run, seconds, limit_s, report_interval_s=0.2) as fed:
        time.sleep(3.0)
        first = {n: settled(p.pid, 0.5) for n, p in fed.processes.items()}
        time.sleep(seconds - 8.0)
        last = {n: settled(p.pid, 0.5) for n, p in fed.processes.items()}
        run = until(
            fed, lambda run: run["state"] in ("FINISHED", "FAILED"), time.monotonic() + limit_s
        )
        assert (run["state"], run["complete"]) == ("FINISHED", True), run
        fed.stop()
    return {name: (first[name], last[name]) for name in first}
