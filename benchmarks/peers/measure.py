"""One measurement of a peer: started, followed to its last round, ended."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from .bench import Bench, Trouble
from .install import Package, environment, installed
from .plan import PLAN, Plan
from .processes import Processes

VGG = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
"""Channels of the convolutions of VGG-16."""
CONVOLUTIONS = [
    shape
    for inner, outer in zip((3, *VGG[:-1]), VGG, strict=True)
    for shape in ([outer, inner, 3, 3], [outer])
]
SHAPES: dict[str, list[list[int]]] = {
    "tiny": [[16, 16]] * 4,
    "59mb": [*CONVOLUTIONS, [10, 512], [10]],
    "1gb": [[2500, 2500]] * 40,
}
SLOWEST_MB_S = 6.0
"""How fast a round must at least be, in MB of model and silos; peers had 17 and more."""
PLAN_FILE = "plan.json"
STAMPS_FILE = "stamps.jsonl"


@dataclass(frozen=True)
class PeerResult:
    """What rounds of a peer have cost."""

    peer: str
    version: str
    shape: str
    num_silos: int
    round_s: list[float] = field(default_factory=list)
    """Each round, from its start to that of the next; without the first one, which warms up."""
    cpu_s_per_round: float = 0.0
    """Of all its processes, the server's and the silos'."""
    server_peak_mb: float = 0.0
    """The most that any process on the server's side has held at any time."""
    server_sum_mb: float = 0.0
    """The most that all processes on the server's side have held at one time."""
    correct: bool = False
    """Whether the final model is the initial one plus what the constants add up to."""
    note: str = ""
    """Why it did not complete, if so, or else what is unusual about it."""


def measured(
    package: Package,
    shape: str,
    num_silos: int,
    rounds: int,
    folder: Path,
    limit_s: float | None,
    variables: dict[str, str],
    start: Callable[[Bench], None],
) -> PeerResult:
    """Measure a peer.

    Args:
        package: What to install.
        shape: One of `SHAPES`.
        num_silos: How many silos take part in each round.
        rounds: How many rounds are timed, after one that warms up.
        folder: Where everything is written; it must not hold an earlier measurement.
        limit_s: After how many seconds to give up; None for one that goes with shape and rounds.
        variables: More environment variables.
        start: Starts the peer's processes and its job.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    limit_s = limit_s or longest_s(shape, num_silos, rounds)
    try:
        bin_folder, version = installed(package)
    except subprocess.CalledProcessError as error:
        return PeerResult(package.peer, "", shape, num_silos, note=f"not installed: {error}")
    plan = Plan(
        shapes=SHAPES[shape],
        constants=[(silo + 1) / 1024 for silo in range(num_silos)],
        num_rounds=rounds + 1,
        timeout_s=limit_s,
        stamps=str(folder / STAMPS_FILE),
    )
    plan.write(folder / PLAN_FILE)
    note, cpu_s = "", 0.0
    env = environment(bin_folder, folder) | variables | {PLAN: str(folder / PLAN_FILE)}
    with Processes(env, folder) as processes:
        bench = Bench(processes, bin_folder, folder, num_silos, time.monotonic() + limit_s)
        try:
            start(bench)
            follow(bench)
        except Trouble as trouble:
            note = str(trouble)
        times, checked = read_stamps(folder)
        if len(times) > 2:
            cpu_s = processes.cpu_s(times[1], times[-1]) / (len(times) - 2)
    return PeerResult(
        peer=package.peer,
        version=version,
        shape=shape,
        num_silos=num_silos,
        round_s=[round(b - a, 4) for a, b in pairwise(times[1:])],
        cpu_s_per_round=round(cpu_s, 3),
        server_peak_mb=round(processes.server_peak_mb, 1),
        server_sum_mb=round(processes.server_sum_mb, 1),
        correct=bool(checked.get("correct")),
        note=note or unusual(checked),
    )


def longest_s(shape: str, num_silos: int, rounds: int) -> float:
    """After how many seconds to give up."""
    model_mb = 4e-6 * sum(prod(array) for array in SHAPES[shape])
    round_s = 20.0 + num_silos * model_mb / SLOWEST_MB_S
    return 120.0 + 5.0 * num_silos + (rounds + 1) * round_s


def follow(bench: Bench) -> None:
    """Wait for the last stamp, or for trouble."""
    while True:
        for stamp in stamps(bench.folder):
            if stamp["event"] == "failed":
                raise Trouble(stamp["why"])
            if stamp["event"] == "checked":
                return
        bench.check()
        time.sleep(0.2)


def stamps(folder: Path) -> list[dict[str, Any]]:
    """What the server has said so far."""
    file = folder / STAMPS_FILE
    if not file.exists():
        return []
    whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def read_stamps(folder: Path) -> tuple[list[float], dict[str, Any]]:
    """The starts of the rounds and the end of the last one, and what is said of the final model."""
    said = stamps(folder)
    times = [stamp["t"] for stamp in said if stamp["event"] in ("round", "end")]
    checked = [stamp for stamp in said if stamp["event"] == "checked"]
    return times, checked[0] if checked else {}


def unusual(checked: dict[str, Any]) -> str:
    """What the final model shows that a reader of the result should know."""
    notes = []
    if not checked["correct"]:
        notes.append(f"the final model is off by {checked['error']:.3g}")
    if checked["dtypes"] != ["float32"]:
        notes.append(f"the final model is of {', '.join(checked['dtypes'])}")
    return "; ".join(notes)
