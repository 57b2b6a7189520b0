"""Which process computes which silos, and how many processes pay."""

import multiprocessing
import os
from collections.abc import Mapping, Sequence

from domo.ops.words import counted
from domo.run_config import RunConfig
from domo.simulating.visit import SimulatedSilo

START_S = 4.0
"""What it takes to begin processes: most of it is the import of torch."""
BACKWARD = 3
"""A training step costs so many forward passes."""


def work(config: RunConfig, silo: SimulatedSilo, num_steps: int, tests: bool) -> int:
    """What a round is at a silo, in samples that pass through the model."""
    evaluation = silo.evaluation if tests else None
    num_tests = 0 if evaluation is None else len(evaluation)
    return BACKWARD * num_steps * config.batch_size + num_tests


def balanced(config: RunConfig, silos: Sequence[SimulatedSilo], num: int) -> list[list[int]]:
    """Places of silos for each process: the one with the most work goes to whom has the least."""
    costs = {}
    for place, silo in enumerate(silos):
        n = len(silo.train) if silo.train is not None else 0
        steps = config.most_steps(silo.silo_id, n) if n else 0
        costs[place] = work(config, silo, steps, bool(config.evaluate_every))
    shares: list[list[int]] = [[] for _ in range(min(num, len(silos)))]
    loads = [0] * len(shares)
    for place in sorted(costs, key=lambda p: (-costs[p], p)):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += costs[place] or 1
    return [sorted(share) for share in shares]


def cores(config: RunConfig) -> int:
    """How many processes of a run's threads have a core each."""
    ours = getattr(os, "sched_getaffinity", None)  # not everywhere
    here = len(ours(0)) if ours else os.cpu_count() or 1
    return max(1, here // config.threads)


def most_here(config: RunConfig, device_type: str, num_silos: int) -> tuple[int, str]:
    """How many processes can pay here, and why no more."""
    if device_type != "cpu":
        return 1, f"all silos are computed on {device_type}"
    if multiprocessing.current_process().daemon:
        return 1, "this process may start no others"
    if num_silos == 1:
        return 1, "there is one silo"
    if cores(config) == 1:
        return 1, "there is one core for them"
    return min(cores(config), num_silos), ""


def pays(seconds: float, num: int) -> bool:
    """Whether processes save more than it takes to begin them.

    Args:
        seconds: What the run would still take in one process.
        num: How many there would be.
    """
    return seconds * (1 - 1 / num) > 2 * START_S


def told(num: int, why: str) -> str:
    """The mode in one line."""
    how = "one process" if num == 1 else f"{num} processes"
    return f"silos in {how}: {why}"


def seconds_in_words(seconds: float) -> str:
    """A duration as people say it."""
    return counted(round(seconds / 60), "minute") if seconds >= 120 else f"{seconds:.0f} s"


def total_work(
    config: RunConfig, silos: Sequence[SimulatedSilo], steps: Mapping[str, int], r: int
) -> int:
    """What a round is at all silos, in samples that pass through the model."""
    tests = config.evaluates_at(r)
    return sum(work(config, s, steps.get(s.silo_id, 0), tests) for s in silos)
