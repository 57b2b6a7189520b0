"""A day of a federation in short: all that goes wrong at sites, one fault after the other.

A coordinator and four silos with loader processes, each a real process behind a link and on a disk
of its own. What fails, whom it strikes and in which round come from a seed. Of each fault it is
noted what the page said, and after how long; the end of the run is compared with `domo simulate`.
"""

import contextlib
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from domo.model.flat import digest
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulation import SimulatedSilo, simulate
from domo.tasks import load_task
from domo.training.batches import BatchLoader
from tests.support.faults.proxy import Proxy, proxy
from tests.support.faults.small_disk import small_disk
from tests.support.live.day_faults import FAULTS, Fault, Scene
from tests.support.live.federation import Process
from tests.support.live.growth import usage
from tests.support.live.killable import (
    COORDINATOR,
    RUN_ID,
    SILOS,
    Federation,
    logs,
    table,
    until,
)
from tests.support.live.page import Page

SAID_S, PATIENCE_S = 10.0, 20.0
"""Until when a fault has to be named; until when it is waited for in any case, seconds."""
LEFT_S = 10.0
"""Until when every process has to be gone, once all were stopped."""
BACK_S = 120.0
"""Until when the run has to get on after a fault."""
QUICK_S, WALK_S, SLOW_S = 0.0, 0.25, 1.0
"""How long a step sleeps: rounds are behind the faults, a fault strikes, they are ahead."""
ENDED = ("FINISHED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Plan:
    """What is run, and how it is disturbed.

    Attributes:
        num_rounds: R.
        num_faults: How many faults strike.
        seed: Of what strikes whom and when.
        method: The run's.
        workers: Loader processes of each silo.
        proceed: Go on without a silo (3 of 4), instead of waiting for it.
        num_steps: Local steps of a round.
        only: Names of faults; empty: all of the table.
        limit_s: When to give up.
    """

    num_rounds: int
    num_faults: int
    seed: int = 1
    method: str = "DOMO"
    workers: int = 1
    proceed: bool = False
    num_steps: int = 4
    only: Sequence[str] = ()
    limit_s: float = 7200.0

    @property
    def run(self) -> dict[str, Any]:
        """The run's configuration."""
        policy = {"on_missing": "proceed", "min_silos": 3, "grace_s": 0.3} if self.proceed else {}
        return table(
            "tests.support.tasks.day:DayTask",
            self.num_rounds,
            method=self.method,
            local_steps=self.num_steps,
            seed=self.seed,
            **policy,
        )

    def faults(self) -> list[tuple[int, Fault, str, float]]:
        """What strikes in which round, whom, and a number of its own: each fault equally often."""
        source = random.Random(self.seed)
        kinds = [f for f in FAULTS if not self.only or f.name in self.only]
        drawn: list[Fault] = []
        while len(drawn) < self.num_faults:
            drawn += source.sample(kinds, len(kinds))
        first, last = 1, max(self.num_rounds - 3, 2)
        at = sorted(source.choices(range(first, last), k=self.num_faults))
        return [
            (r, f, COORDINATOR if f.on == COORDINATOR else source.choice(SILOS), source.random())
            for r, f in zip(at, drawn, strict=False)
        ]


@dataclass
class Struck:
    """A fault that has struck.

    Attributes:
        at_s: Seconds since the first round.
        round: Rounds that were committed.
        fault: Its name.
        on: Whom.
        said: What the page said; empty: nothing.
        after_s: How long after it began.
        locally: Whether the silo's terminal named it; None: it need not.
        back_s: How long after it was mended the run got on.
        terminal: The last lines of whom it struck.
        page: All that the page said meanwhile.
    """

    at_s: float
    round: int
    fault: str
    on: str
    said: str = ""
    after_s: float | None = None
    locally: bool | None = None
    back_s: float = 0.0
    terminal: list[str] = field(default_factory=list)
    page: list[str] = field(default_factory=list)

    @property
    def named(self) -> bool:
        return self.after_s is not None and self.after_s <= SAID_S


@dataclass
class Report:
    """What happened.

    Attributes:
        plan: What was asked for.
        struck: Each fault.
        seconds: From the first round to the end of the run.
        digests: Of x_R and m_R.
        undisturbed: The same of the simulation.
        left: Processes that are left `LEFT_S` after all have stopped: command lines.
        rss_mb: Of each process, after the first rounds and at the end.
    """

    plan: Plan
    struck: list[Struck] = field(default_factory=list)
    seconds: float = 0.0
    digests: dict[str, str] = field(default_factory=dict)
    undisturbed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    rss_mb: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def same_bytes(self) -> bool:
        return bool(self.digests) and self.digests == self.undisturbed

    @property
    def unnamed(self) -> list[Struck]:
        return [one for one in self.struck if not one.named]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def day(
    folder: Path, plan: Plan, on_struck: Callable[[Struck], None] = lambda struck: None
) -> Report:
    """Run it, disturb it, and compare the end.

    Args:
        folder: An empty folder.
        plan: What to do.
        on_struck: Told of each fault once it is over.
    """
    report = Report(plan)
    with scene(folder, plan) as on_stage, Page(on_stage.fed) as page:
        fed, begun = on_stage.fed, time.monotonic()
        end = begun + plan.limit_s
        until(fed, lambda run: run["rounds_done"] >= 1, end)
        before = memory(fed)
        plan_faults = plan.faults()
        for i, (r, fault, on, chance) in enumerate(plan_faults):
            run = until(fed, lambda run, r=r: run["rounds_done"] >= r or run["state"] in ENDED, end)
            assert run["state"] not in ENDED, f"it {run['detail']} after {i} faults"
            on_stage.chance = chance
            pace(fed, WALK_S)
            struck = Struck(round(time.monotonic() - begun, 1), run["rounds_done"], fault.name, on)
            strike(on_stage, page, fault, struck)
            report.struck.append(struck)
            on_struck(struck)
            r_next = plan_faults[i + 1][0] if i + 1 < len(plan_faults) else plan.num_rounds
            done = until(fed, lambda run: True, end)["rounds_done"]
            pace(fed, SLOW_S if done >= r_next else QUICK_S)
        pace(fed, QUICK_S)
        run = until(fed, lambda run: run["state"] in ENDED, end)
        report.seconds = round(time.monotonic() - begun, 1)
        assert (run["state"], run["rounds_done"]) == ("FINISHED", plan.num_rounds), run
        history = fed.get(f"/runs/{RUN_ID}/history.json", timeout_s=60)
        after = memory(fed)
        report.rss_mb = {name: (before[name], after[name]) for name in before}
        fed.stop()
        stopped = time.monotonic()
        while fed.all_processes() and time.monotonic() < stopped + LEFT_S:
            time.sleep(0.1)
        report.left = sorted(fed.all_processes().values())
        (folder / "history.json").write_text(json.dumps(history))
        checkpoints = fed.state_dir / "runs" / RUN_ID / "checkpoints"
        final = load_file(max(checkpoints.glob("x*.safetensors")))
        report.digests = {name: digest(final[name]) for name in ("x", "m")}
    for data in fed.data.values():
        (data / "step_s.txt").unlink()
    report.undisturbed = replayed(fed, plan) if plan.proceed else undisturbed(fed, plan)
    return report


@contextlib.contextmanager
def scene(folder: Path, plan: Plan) -> Iterator[Scene]:
    """A federation in its first round, each silo behind a link and each state on a small disk."""
    with contextlib.ExitStack() as stack:
        disks = {COORDINATOR: stack.enter_context(small_disk("96m"))}
        disks |= {name: stack.enter_context(small_disk("24m")) for name in SILOS}
        fed = Federation(
            folder, plan.run, QUICK_S, workers=plan.workers, disks=disks, report_interval_s=1.0
        )
        stack.callback(fed.close)
        links: dict[str, Proxy] = {}
        for name in SILOS:
            links[name] = stack.enter_context(proxy(fed.address))
            fed.via[name] = links[name].address
        for name in (COORDINATOR, *SILOS):
            fed.start(name)
        until(fed, lambda run: run["state"] == "OPEN", time.monotonic() + 120)
        yield Scene(fed, links, disks)


def strike(on_stage: Scene, page: Page, fault: Fault, struck: Struck) -> None:
    """One fault: begin it, wait until it is named, mend it, wait until the run gets on."""
    fed, on = on_stage.fed, struck.on
    begun, logged = time.monotonic(), len(fed.processes[on].output)
    log = fed.processes[on]
    on_stage.since = begun
    with fault.strike(on_stage, on):
        line, since = None, on_stage.since
        while line is None and time.monotonic() < since + PATIENCE_S:
            line = page.first(fault.page.format(silo=on), begun - fault.once_s)
            time.sleep(0.05)
        if line is not None:
            struck.said, struck.after_s = line.text, round(max(line.at - since, 0), 1)
    mended = time.monotonic()
    gets_on(fed, mended)
    struck.back_s = round(time.monotonic() - mended, 1)
    own = log.output[logged:] + ("" if log is fed.processes[on] else fed.processes[on].output)
    struck.terminal = own.splitlines()[-40:]
    struck.page = [text for at, text in page.lines if at >= begun]
    if fault.silo:
        struck.locally = re.search(fault.silo.format(silo=on), own) is not None


def gets_on(fed: Federation, since: float, silos: Sequence[str] = SILOS) -> None:
    """Wait until these silos are there, and the run has committed another round."""
    first = None
    while True:
        run, status = fed.get(f"/runs/{RUN_ID}"), fed.get("/status")
        if run is not None and status is not None:
            if run["state"] in ENDED:
                return
            first = run["rounds_done"] if first is None else first
            there = all(s["away"] is None for s in status["silos"] if s["silo_id"] in silos)
            if there and run["rounds_done"] > first:
                return
        said = f"no round in {BACK_S:.0f} s: {run and (run['detail'], run['stalled'])}"
        assert time.monotonic() < since + BACK_S, f"{said}\n{logs(fed)}"
        time.sleep(0.1)


def pace(fed: Federation, step_s: float) -> None:
    """How long a local step sleeps from now on."""
    for data in fed.data.values():
        (data / "step_s.txt").write_text(str(step_s))


def memory(fed: Federation) -> dict[str, float]:
    """Resident memory of each process, MB."""
    return {name: usage(process.pid).rss_mb for name, process in fed.processes.items()}


def undisturbed(fed: Federation, plan: Plan) -> dict[str, str]:
    """Digests of x_R and m_R of the simulation of the same configuration."""
    torch.set_num_threads(1)
    config = validate(RunConfig, plan.run, "chaos")
    config = config.model_copy(update={"initial_model": str(fed.folder / "x0.safetensors")})
    task = load_task(config.task)
    silos = [SimulatedSilo(n, BatchLoader(task.train_data(d, None))) for n, d in fed.data.items()]
    result = simulate(config, task, silos)
    return {"x": digest(result.x), "m": digest(result.m)}


def replayed(fed: Federation, plan: Plan) -> dict[str, str]:
    """The same, that `domo simulate --replay` prints of the recorded run."""
    command = ["domo", "simulate", "--replay", str(fed.folder / "history.json")]
    command += ["--out", str(fed.folder / "replay")]
    for name, data in fed.data.items():
        command += ["--silo-data", f"{name}={data}"]
    process = Process(command, fed.folder / "replay.log", fed.folder)
    assert process.wait(plan.limit_s) == 0, process.output
    assert "same bytes: " in process.output, process.output
    names = {"x": "model", "m": "momentum"}
    return {
        key: process.wait_for(rf"digest of the {name} +\S +(\w+)").group(1)
        for key, name in names.items()
    }
