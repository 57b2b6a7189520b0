"""A federation of real processes that are killed with SIGKILL at seeded random instants.

Each victim is started again at once, on the same port and state folder; nobody else intervenes. The
end of the run is compared with `domo simulate`: by the configuration alone where the run waits for
everybody, by the recorded participants where it goes on without some.
"""

import json
import random
import time
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
from tests.support.live.federation import Process
from tests.support.live.killable import (
    COORDINATOR,
    POLL_S,
    RUN_ID,
    SILOS,
    Federation,
    logs,
    started,
    until,
)

AIMED = 0.5
"""Share of the kills that wait until their victim is in one of the short phases."""
SHORT = {True: ("commit", "receiving"), False: ("fetch", "saving", "upload")}
"""Those of the coordinator and of a silo."""
ENDED = ("FINISHED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Plan:
    """What is run, and how it is disturbed.

    Attributes:
        method: The run's.
        num_rounds: R.
        num_kills: How many processes are killed.
        mean_wait_s: Mean of the exponential waiting time from one kill to the next.
        seed: Of the instants and the victims.
        step_s: How long a local step sleeps.
        num_steps: Local steps of a round.
        aim_s: How long an aimed kill waits for its victim to be in a short phase.
        proceed: Go on without a silo (3 of 4), instead of waiting for it.
        large: Train 10 MB instead of 5 MB.
        limit_s: When to give up.
    """

    method: str
    num_rounds: int
    num_kills: int
    mean_wait_s: float
    seed: int = 0
    step_s: float = 0.1
    num_steps: int = 10
    aim_s: float = 15.0
    proceed: bool = False
    large: bool = False
    limit_s: float = 3600.0

    @property
    def task(self) -> str:
        """The task's name."""
        return f"tests.support.tasks.chaos:{'Large' if self.large else ''}ChaosTask"

    @property
    def run(self) -> dict[str, Any]:
        """The run's configuration."""
        values: dict[str, Any] = {
            "name": "chaos",
            "task": self.task,
            "method": self.method,
            "num_rounds": self.num_rounds,
            "roster": list(SILOS),
            "local_steps": self.num_steps,
            "batch_size": 8,
            "local_lr": 0.02,
            "initial_model": "x0.safetensors",
            "seed": self.seed,
        }
        if self.proceed:
            values |= {"on_missing": "proceed", "min_silos": 3, "grace_s": 0.3}
        return values


@dataclass
class Report:
    """What happened.

    Attributes:
        plan: What was asked for.
        seconds: From the first open round to the end of the run.
        kills: Who was hit in which phase -> how often.
        incomplete_rounds: Rounds without all four silos.
        digests: Of x_R and m_R.
        same_bytes: Whether the simulation ended with the same ones.
    """

    plan: Plan
    seconds: float = 0.0
    kills: dict[str, int] = field(default_factory=dict)
    incomplete_rounds: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    same_bytes: bool = False

    @property
    def num_kills(self) -> int:
        return sum(self.kills.values())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "num_kills": self.num_kills}


def chaos(folder: Path, plan: Plan) -> Report:
    """Run it, kill, and compare the end.

    Args:
        folder: An empty folder.
        plan: What to do.
    """
    report = Report(plan)
    with started(folder, plan.run, plan.step_s, plan.limit_s) as fed:
        began = time.monotonic()
        end = began + plan.limit_s
        disturb(fed, plan, report, end)
        run = until(fed, lambda run: run["state"] in ENDED, end)
        report.seconds = round(time.monotonic() - began, 1)
        assert (run["state"], run["rounds_done"]) == ("FINISHED", plan.num_rounds), run
        until_all_are_back(fed, end)
        history = fed.get(f"/runs/{RUN_ID}/history.json", timeout_s=60)
        fed.stop()
    (folder / "history.json").write_text(json.dumps(history))
    report.incomplete_rounds = sum(len(r["participants"]) < len(SILOS) for r in history["rounds"])
    checkpoints = fed.state_dir / "runs" / RUN_ID / "checkpoints"
    final = load_file(max(checkpoints.glob("x*.safetensors")))
    report.digests = {name: digest(final[name]) for name in ("x", "m")}
    for data in fed.data.values():
        (data / "step_s.txt").unlink()
    compare = replayed if plan.proceed else undisturbed
    report.same_bytes = compare(fed, plan) == report.digests and bool(final["x"].isfinite().all())
    return report


def disturb(fed: Federation, plan: Plan, report: Report, end: float) -> None:
    """Kill one process after another, until all kills are spent or the run has ended."""
    source = random.Random(plan.seed)
    for _ in range(plan.num_kills):
        at = time.monotonic() + source.expovariate(1 / plan.mean_wait_s)
        victim = source.choice((COORDINATOR, *SILOS))
        while (left := at - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            run = fed.get(f"/runs/{RUN_ID}") if left > POLL_S else None
            if run is not None and run["state"] in ENDED:
                return
            assert time.monotonic() < end, logs(fed)
        phase = fed.phase(victim)
        if source.random() < AIMED:
            wanted = source.choice(SHORT[victim == COORDINATOR])
            phase = aim(fed, victim, wanted, plan.aim_s) or phase
        fed.kill(victim)
        phase = fed.writing(victim) or phase
        fed.start(victim)
        hit = f"{COORDINATOR if victim == COORDINATOR else 'silo'}: {phase}"
        report.kills[hit] = report.kills.get(hit, 0) + 1


def aim(fed: Federation, victim: str, wanted: str, limit_s: float) -> str | None:
    """Wait until a process is in a short phase; None if it was not for a while."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if fed.writing(victim) == wanted:
            return wanted
        time.sleep(0.001)
    return None


def until_all_are_back(fed: Federation, end: float) -> None:
    """Wait for the last that were killed."""
    while (fed.get("/status") or {"num_silos_online": 0})["num_silos_online"] < len(SILOS):
        assert time.monotonic() < end, logs(fed)
        time.sleep(POLL_S)


def undisturbed(fed: Federation, plan: Plan) -> dict[str, str]:
    """Digests of x_R and m_R of the simulation of the same configuration."""
    torch.set_num_threads(1)
    config = validate(RunConfig, plan.run, "chaos")
    config = config.model_copy(update={"initial_model": str(fed.folder / "x0.safetensors")})
    task = load_task(plan.task)
    silos = [SimulatedSilo(n, BatchLoader(task.train_data(d, None))) for n, d in fed.data.items()]
    result = simulate(config, task, silos)
    return {"x": digest(result.x), "m": digest(result.m)}


def replayed(fed: Federation, plan: Plan) -> dict[str, str]:
    """Digests that `domo simulate --replay` prints of the recorded run."""
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
