"""Kills at random of a coordinator and four silos, for methods whose silos keep something.

    PYTHONPATH=. python -m benchmarks.chaos --kills 40

runs, for each method, a federation of real processes, of which one is killed with SIGKILL again and
again and started anew at once, and compares the digest of the last checkpoint, and which model was
chosen, with an undisturbed simulation; and looks whether the audit chains of all five are whole,
and those of silos and coordinator fit. Silos have a policy from their first restart on. One line a
method: kills by process, rounds, seconds, and whether the bytes are the same. Exit code 1 where
not.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from domo.audit.chain import FOLDER
from domo.audit.looking import compare
from domo.audit.verify import verify
from domo.ops.config_file import validate
from domo.run_config import RunConfig
from domo.simulated import SimulationResult
from domo.simulation import SimulatedSilo, simulate
from domo.tasks import load_task
from domo.training.batches import BatchLoader
from tests.support.live.killable import COORDINATOR, RUN_ID, SILOS, Federation, started, table

TASK = "tests.support.tasks.chaos:ChaosTask"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "SCAFFOLD": {"method": "SCAFFOLD"},
    "SCAFFOLD, some silos": {"method": "SCAFFOLD", "participation": 3},
    "FedDyn, 16 bits": {"method": "FedDyn-LM-Z", "update_dtype": "bfloat16"},
    "AdamW inside, kept": {"method": "DiLoCo", "local_lr": 1e-3},
    "FedBN": {"method": "DOMO", "private": ["1.*"]},
    "Ditto": {"method": "DOMO", "personal": "ditto"},
    "best round, early stop": {"method": "DOMO", "evaluate_every": 1, "stop_after": 12},
}
PAUSE_S = (0.2, 2.5)
"""Between two kills, drawn evenly."""
LIMIT_S = 600.0
POLICY = "min_batch = 8\nmin_samples_per_update = 8\nmin_silos = 3\n"


def expected(fed: Federation, run: Mapping[str, Any]) -> SimulationResult:
    """The run without any kill."""
    torch.set_num_threads(1)
    config = validate(RunConfig, dict(run), "chaos")
    config = config.model_copy(update={"initial_model": str(fed.folder / "x0.safetensors")})
    task = load_task(config.task)
    silos = []
    for name, folder in fed.data.items():
        train, tests = task.train_data(folder, None), task.eval_data(folder, None)
        silos.append(SimulatedSilo(name, BatchLoader(train), BatchLoader(tests)))
    return simulate(config, task, silos)


def chains_of(fed: Federation) -> str:
    """What the audit chains of all processes come to, in words.

    Raises:
        BrokenChainError: One is not whole, or two do not fit.
    """
    theirs, lines, heads, updates = fed.state_dir / FOLDER, 0, 0, 0
    for ours in (theirs, *(fed.state_of(name) / FOLDER for name in SILOS)):
        head = verify(ours)
        lines += head.n
        if ours != theirs:
            found = compare(ours, theirs, head)
            heads, updates = heads + found.heads, updates + found.updates
    return f"5 chains of {lines} lines whole, {heads} heads and {updates} updates fit"


def strike(name: str, run: Mapping[str, Any], kills: int, seed: int) -> bool:
    """One method; whether its bytes are those of the simulation."""
    chance, struck, began = random.Random(seed), Counter[str](), time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder), run, 0.05, 120.0) as fed,
    ):
        policy = Path(folder) / "policy.toml"
        policy.write_text(POLICY)
        while sum(struck.values()) < kills:
            time.sleep(chance.uniform(*PAUSE_S))
            state = fed.get(f"/runs/{RUN_ID}")
            if state is not None and state["state"] == "FINISHED":
                break
            victim = chance.choice([COORDINATOR, *SILOS])
            fed.kill(victim)
            fed.start(victim, **({} if victim == COORDINATOR else {"policy": policy}))
            struck[victim] += 1
        while (state := fed.get(f"/runs/{RUN_ID}")) is None or state["state"] != "FINISHED":
            if time.monotonic() > began + LIMIT_S:
                sys.stdout.write(f"{name}: not finished: {state and state['detail']}\n")
                return False
            time.sleep(0.5)
        fed.stop()
        chains = chains_of(fed)
        made = expected(fed, run)
    wanted = (len(made.history) - 1, made.checkpoint_digest, made.best_index, made.best_digest)
    keys = ("rounds_done", "checkpoint_digest", "best_index", "best_digest")
    same = tuple(state[key] for key in keys) == wanted
    by_process = ", ".join(f"{victim} {n}" for victim, n in sorted(struck.items()))
    word = "the same bytes" if same else "OTHER BYTES"
    sys.stdout.write(
        f"{name}: {sum(struck.values())} kills ({by_process}), {wanted[0]} rounds, "
        f"best x_{made.best_index}, {time.monotonic() - began:.0f} s: {word}; {chains}\n"
    )
    sys.stdout.flush()
    return same


def main() -> None:
    """Each method in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--only", default="", help="methods, by the beginning of their names")
    given = parser.parse_args()
    good = True
    for name, settings in METHODS.items():
        if given.only and not any(name.startswith(o) for o in given.only.split(",")):
            continue
        run = table(TASK, given.rounds, **{"evaluate_every": 10, **settings})
        good &= strike(name, run, given.kills, given.seed)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
