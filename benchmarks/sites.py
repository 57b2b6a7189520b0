"""What a site's troubles cost: processes and memory left, and seconds until somebody is told.

    PYTHONPATH=. python -m benchmarks.sites [--only CASE] [--json F] [--against F]

Each case is a small federation of real processes. With `--against`, the figures of another version
of domo, written by `--json` there, stand beside these; the script runs with the packages of any
version that the interpreter has. About five minutes on two CPU cores.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import domo
from tests.support.faults.proxy import proxy
from tests.support.live.day import Plan, gets_on
from tests.support.live.day_faults import HTTP, below, loaders
from tests.support.live.federation import Process
from tests.support.live.growth import settled, usage
from tests.support.live.killable import COORDINATOR, RUN_ID, SILOS, Federation, table, until
from tests.support.live.page import Page
from tests.support.live.silos import copy_state
from tests.support.tasks.day import HANG, MODEL_MEMORY

SILO = SILOS[0]
START_S, WAIT_S = 90.0, 45.0
Figures = dict[str, Any]
CASES: dict[str, Callable[[Path], Figures]] = {}


def case(measure: Callable[[Path], Figures]) -> Callable[[Path], Figures]:
    CASES[measure.__name__] = measure
    return measure


@contextlib.contextmanager
def one_silo(
    folder: Path, num_rounds: int = 500, workers: int = 2, start: bool = True, **server: Any
) -> Iterator[tuple[Federation, Page]]:
    """A run of one silo, in its first rounds."""
    run = Plan(num_rounds, 0).run | {"roster": [SILO]}
    with contextlib.ExitStack() as stack:
        fed = Federation(folder, run, 0.05, workers=workers, report_interval_s=1.0, **server)
        stack.callback(fed.close)
        fed.start(COORDINATOR)
        fed.processes[COORDINATOR].wait_for("silos at")
        if start:
            fed.start(SILO)
            until(fed, lambda run: run["rounds_done"] >= 2, time.monotonic() + START_S)
        yield fed, stack.enter_context(Page(fed))


def seconds_until(good: Callable[[], Any], limit_s: float = WAIT_S) -> float | str:
    """How long until it is so; in words where it takes too long."""
    begun = time.monotonic()
    while time.monotonic() < begun + limit_s:
        if good():
            return round(time.monotonic() - begun, 1)
        time.sleep(0.05)
    return f"not in {limit_s:.0f}"


def said(page: Page, pattern: str, since: float) -> Callable[[], Any]:
    return lambda: page.first(pattern, since)


@case
def agent_killed(folder: Path) -> Figures:
    """An agent with two loader processes is killed (kill -9)."""
    with one_silo(folder) as (fed, page):
        pid, begun = fed.processes[SILO].pid, time.monotonic()
        of_it = [pid, *below(pid)]
        os.kill(pid, signal.SIGKILL)
        fed.processes[SILO].wait(10)
        seen = seconds_until(said(page, f"event silo-lost {SILO}", begun))
        time.sleep(max(0.0, begun + 5 - time.monotonic()))
        left = [p for p in of_it if p in fed.all_processes()]
        return {
            "processes before": len(of_it),
            "processes left after 5 s": len(left),
            "MB left after 5 s": round(sum(usage(p).rss_mb for p in left)),
            "s until the page has it": seen,
        }


@case
def agent_idle(folder: Path) -> Figures:
    """What an agent holds before its run of a 10 MB model, in it, and after it."""
    run = table("tests.support.tasks.chaos:LargeChaosTask", 8, roster=[SILO])
    fed = Federation(folder, run, 0.05, queued=False, workers=2, report_interval_s=1.0)
    config = folder / "federation.toml"
    try:
        fed.start(COORDINATOR)
        fed.start(SILO)
        silo = fed.processes[SILO]
        silo.wait_for("waiting for a run")
        before = settled(silo.pid, 2.0).rss_mb
        fed.processes[COORDINATOR].stop()
        lines = (f"{key} = {json.dumps(value)}" for key, value in run.items())
        config.write_text("\n".join([config.read_text(), "[[runs]]", *lines, ""]))
        fed.start(COORDINATOR)
        until(fed, lambda run: run["rounds_done"] >= 4, time.monotonic() + START_S)
        busy = usage(silo.pid).rss_mb
        until(fed, lambda run: run["state"] == "FINISHED", time.monotonic() + START_S)
        silo.wait_for("finished after")
        time.sleep(8)
        return {
            "MB before its run": round(before),
            "MB in its run": round(busy),
            "MB idle after it": round(settled(silo.pid, 0.5).rss_mb),
            "its processes, idle after it": len(below(silo.pid)),
            "MB of these": round(sum(usage(p).rss_mb for p in below(silo.pid))),
        }
    finally:
        fed.close()


@case
def doctor_and_a_task_that_hangs(folder: Path) -> Figures:
    """The doctor where a step of the task never ends."""
    with one_silo(folder, start=False) as (fed, _):
        (fed.data[SILO] / HANG).touch()
        command = fed.command(SILO, workers=0)
        asked = [command[0], "doctor", *command[1:]]
        doctor, begun = Process(asked, folder / "doctor.log", folder), time.monotonic()
        with contextlib.suppress(AssertionError):
            doctor.wait(120)
        ended = doctor.poll() is not None
        doctor.kill()
        wrong = [s for s in doctor.output.splitlines() if re.search("did not end", s)]
        return {
            "s until it ends": round(time.monotonic() - begun, 1) if ended else "not in 120",
            "what it says": wrong[0].strip()[:120] if wrong else "nothing",
        }


@case
def step_that_hangs(folder: Path) -> Figures:
    """A step of the user's that does not end."""
    with one_silo(folder) as (fed, page):
        silo, begun = fed.processes[SILO], time.monotonic()
        logged = len(silo.output)
        (fed.data[SILO] / HANG).touch()
        at_page = seconds_until(said(page, f"stalled.*{SILO}", begun), 150)
        words = "no further|hangs|has not|still"
        at_silo = seconds_until(lambda: re.search(words, silo.output[logged:]), 30)
        line = page.first(f"run stalled.*{SILO}", begun)
        return {
            "s until the page has it": at_page,
            "s more until the silo's terminal has it": at_silo,
            "where, on the page": line.text[:160] if line else "nowhere",
        }


@case
def memory_fails_when_made_ready(folder: Path) -> Figures:
    """No memory for the model, for ten seconds."""
    with one_silo(folder, start=False) as (fed, page):
        flag, begun = fed.data[SILO] / MODEL_MEMORY, time.monotonic()
        flag.touch()
        fed.start(SILO)
        silo = fed.processes[SILO]
        at_silo = seconds_until(lambda: re.search("[Mm]emory", silo.output))
        at_page = seconds_until(said(page, f"{SILO}.*[Mm]emory", begun), 10)
        time.sleep(10)
        alive = silo.poll() is None
        flag.unlink()
        again = seconds_until(lambda: (fed.get(f"/runs/{RUN_ID}") or {}).get("rounds_done"), 90)
        return {
            "s until the silo's terminal has it": at_silo,
            "s more until the page has it": at_page,
            "agent alive": alive,
            "s from there being memory to a round": again,
        }


@case
def data_that_come_late(folder: Path) -> Figures:
    """A data folder that is empty as the agent starts, and is mounted ten seconds later."""
    with one_silo(folder, start=False) as (fed, page):
        data, begun = fed.data[SILO], time.monotonic()
        away = data.with_name("away")
        data.rename(away)
        data.mkdir()
        fed.start(SILO)
        silo = fed.processes[SILO]
        at_page = seconds_until(said(page, f"{SILO}.*(samples|data)", begun))
        time.sleep(10)
        alive = silo.poll() is None
        for path in away.iterdir():
            path.rename(data / path.name)
        again = seconds_until(lambda: (fed.get(f"/runs/{RUN_ID}") or {}).get("rounds_done"), 90)
        return {
            "s until the page has it": at_page,
            "agent alive": alive,
            "s from the data to a round": again,
        }


@case
def loader_killed(folder: Path) -> Figures:
    """The loader processes are killed (kill -9)."""
    with one_silo(folder) as (fed, page):
        begun = time.monotonic()
        for pid in loaders(fed.processes[SILO].pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        at_page = seconds_until(said(page, f"event silo-failed {SILO}", begun))
        line = page.first(f"event silo-failed {SILO}", begun)
        gets_on(fed, time.monotonic(), [SILO])
        return {
            "s until the page has it": at_page,
            "what it says": line.text[:160] if line else "nothing",
            "s until the next round is there": round(time.monotonic() - begun, 1),
        }


@case
def middle_box(folder: Path) -> Figures:
    """A box that answers 403 for ten seconds."""
    with contextlib.ExitStack() as stack:
        fed, page = stack.enter_context(one_silo(folder, start=False))
        link = stack.enter_context(proxy(fed.address))
        fed.via[SILO] = link.address
        fed.start(SILO)
        until(fed, lambda run: run["rounds_done"] >= 2, time.monotonic() + START_S)
        silo, begun = fed.processes[SILO], time.monotonic()
        logged = len(silo.output)
        link.answer(HTTP.format("403 Forbidden").encode())
        at_page = seconds_until(said(page, f"{SILO}.*connection broke", begun), 15)
        time.sleep(10)
        link.answer(None)
        alive = silo.poll() is None
        line = next((s for s in silo.output[logged:].splitlines() if "network" in s), "nothing")
        done = (fed.get(f"/runs/{RUN_ID}") or {}).get("rounds_done")
        back = seconds_until(lambda: (fed.get(f"/runs/{RUN_ID}") or {})["rounds_done"] > done)
        return {
            "s until the page has it": at_page,
            "agent alive": alive,
            "what it says": line[:160],
            "s from the box's end to a round": back if alive else "never",
        }


@case
def copy_of_an_identity(folder: Path) -> Figures:
    """The state folder of a running silo, copied and started in a second place, for 30 s."""
    with one_silo(folder) as (fed, page):
        copied = folder / "copied"
        copy_state(fed.state_of(SILO), copied)
        begun, before = time.monotonic(), len(page.lines)
        other = fed.process(SILO, state_dir=copied)
        other.wait_for("connected to|error: ", START_S)
        time.sleep(30)
        events = [line.text for line in page.lines[before:] if line.text.startswith("event")]
        joins = sum(text.startswith(f"event joined {SILO}") for text in events)
        named = page.first(f"{SILO}.*(copy|twice|second|another)", begun)
        exits = other.poll()
        last = [s for s in other.output.splitlines() if s.strip()][-1]
        return {
            "joins in 30 s": joins,
            "the copy": "runs" if exits is None else f"ended with {exits}",
            "its last line": last[:120],
            "what the page says": named.text[:160] if named else "nothing",
        }


@case
def twenty_runs(folder: Path) -> Figures:
    """A coordinator's memory after 2 runs and after 20."""
    run = Plan(3, 0).run | {"roster": [SILO], "evaluate_every": 0}
    fed = Federation(folder, run, workers=0, report_interval_s=0.5)
    text = (folder / "federation.toml").read_text()
    head, _, table = text.partition("[[runs]]")
    named = (table.replace('"chaos"', f'"chaos-{i}"') for i in range(20))
    (folder / "federation.toml").write_text(head + "".join(f"[[runs]]{one}" for one in named))
    try:
        fed.start(COORDINATOR)
        fed.start(SILO)
        held = {}
        for count in (2, 20):
            end = time.monotonic() + 300
            while True:
                runs = fed.get("/runs") or []
                if sum(r["state"] == "FINISHED" for r in runs) >= count:
                    break
                assert time.monotonic() < end, runs
                time.sleep(0.2)
            held[count] = {n: settled(p.pid, 0.3) for n, p in fed.processes.items()}
        return {
            f"{name}: MB after 2, after 20 runs": (held[2][name].rss_mb, held[20][name].rss_mb)
            for name in held[2]
        }
    finally:
        fed.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a site's troubles cost.")
    parser.add_argument("--only", action="append", default=[], choices=list(CASES))
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--against", type=Path, help="figures of another version, from --json")
    args = parser.parse_args()
    before = json.loads(args.against.read_text()) if args.against else {}
    print(f"domo of {Path(domo.__file__).parents[2]}")
    found: dict[str, Figures] = {}
    for name in args.only or CASES:
        with tempfile.TemporaryDirectory(prefix="domo-sites-") as folder:
            try:
                found[name] = CASES[name](Path(folder))
            except AssertionError as error:
                found[name] = {"failed": str(error).splitlines()[0][:160]}
        print(f"{name}: {CASES[name].__doc__}")
        for key, value in found[name].items():
            old = f"{before[name].get(key, '')!s:24}  " if name in before else ""
            print(f"    {key:42} {old}{value}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
