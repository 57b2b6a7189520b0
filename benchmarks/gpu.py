"""What a GPU silo gains from page-locked memory; needs a GPU.

    python -m benchmarks.gpu [--out cuda.json]

- copies of a vector up and down, in ordinary and in page-locked memory;
- the parts of a round around its steps: vectors in memory -> model on the GPU, and last step ->
  update in memory;
- steps a second with batches that come from the CPU, sent either way;
- rounds of real agents that train on the GPU, and their memory on the host.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.data_plane.domo import agent_rounds, trainer_mb
from domo.methods import Hyperparameters, make_kernel
from domo.model.flat import FlatModel
from domo.tasks.models import vgg16
from domo.training.batches import to_device
from domo.training.local_round import LocalRound
from domo.training.round_data import RoundNumbers

CUDA = torch.device("cuda")
REPETITIONS = 7


def median_s(work: Callable[[], object]) -> float:
    """Seconds until the GPU is done with it; the first of the runs is not counted."""
    times = []
    for _ in range(REPETITIONS + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def copies(num_bytes: int) -> dict[str, float]:
    there = torch.zeros(num_bytes // 4, device=CUDA)
    out = {}
    for kind, pinned in (("ordinary", False), ("page-locked", True)):
        here = torch.zeros(num_bytes // 4, pin_memory=pinned)
        up = median_s(lambda here=here: there.copy_(here, non_blocking=True))
        down = median_s(lambda here=here: here.copy_(there, non_blocking=True))
        out |= {f"{kind} up GB/s": num_bytes / up / 1e9}
        out |= {f"{kind} down GB/s": num_bytes / down / 1e9}
    return out


def around_the_steps(page_locked: bool) -> dict[str, float]:
    """Seconds before the first and after the last step of a DOMO round of VGG-16."""
    flat = FlatModel(vgg16().to(CUDA))
    n = flat.vector.numel()
    x, before = (torch.zeros(n, pin_memory=page_locked) for _ in range(2))
    kernel = make_kernel("DOMO", Hyperparameters())
    numbers = RoundNumbers("a", 1, 9, 1, 1e-4, 64, 0, kernel, inference_scale=1e-3)
    begins, ends = [], []
    images, labels = torch.randn(64, 3, 32, 32, device=CUDA), torch.zeros(64).long().to(CUDA)
    for _ in range(REPETITIONS + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        rnd = LocalRound(flat, numbers, x, before)
        opt = rnd.optimizer()
        with torch.no_grad():
            opt.begin()
        rnd._begun = True
        torch.cuda.synchronize()
        begins.append(time.perf_counter() - begun)
        functional.cross_entropy(flat.module(images), labels).backward()
        opt.step()
        opt.zero_grad()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        rnd.finish()
        ends.append(time.perf_counter() - begun)
    return {"before_s": statistics.median(begins[1:]), "after_s": statistics.median(ends[1:])}


def steps_a_second(send: Callable[[Any], Any], steps: int = 60, batch: int = 256) -> float:
    """Training VGG-16 with images that are made on the CPU."""
    torch.manual_seed(0)
    module = vgg16().to(CUDA)
    opt = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9, fused=True)
    pool = torch.randn(8 * batch, 3, 32, 32)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for i in range(steps + 10):
            rows = torch.randint(len(pool), (batch,), generator=torch.Generator().manual_seed(i))
            yield pool[rows].flip(-1), rows % 10

    begun = 0.0
    for i, pair in enumerate(batches()):
        if i == 10:
            torch.cuda.synchronize()
            begun = time.perf_counter()
        images, labels = send(pair)
        functional.cross_entropy(module(images), labels).backward()
        opt.step()
        opt.zero_grad()
    torch.cuda.synchronize()
    return steps / (time.perf_counter() - begun)


def plainly(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    return tuple(t.to(CUDA, non_blocking=True) for t in pair)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the figures to this file")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU here: nothing to measure")
    found: dict[str, Any] = {"torch": torch.__version__, "chip": torch.cuda.get_device_name()}

    def keep(name: str, value: Any) -> None:
        found[name] = value
        print(f"{name}: {value}", flush=True)
        if args.out:
            args.out.write_text(json.dumps(found, indent=2) + "\n")

    for num_bytes in (59_000_000, 1_000_000_000):
        keep(f"copies of {num_bytes / 1e6:g} MB", copies(num_bytes))
    for kind, pinned in (("ordinary", False), ("page-locked", True)):
        keep(f"around the steps, {kind}", around_the_steps(pinned))
    keep("steps/s, batches sent plainly", steps_a_second(plainly))
    keep("steps/s, batches page-locked", steps_a_second(lambda pair: to_device(pair, CUDA)))
    for num_bytes, silos in ((59_000_000, 4), (1_000_000_000, 2)):
        rounds = agent_rounds("agents on a GPU", num_bytes, silos, args.rounds, "DOMO")
        bare = trainer_mb(num_bytes, 0.9, "cuda")
        keep(
            f"{silos} agents, {num_bytes / 1e6:g} MB, DOMO",
            {
                "round_s": rounds.seconds,
                "right": rounds.correct,
                "coordinator_mb": [rounds.bare_mb, rounds.server_mb],
                "silo_mb": rounds.silo_mb,
                "bare_mb": bare,
                "silo_models_above_bare": (rounds.silo_mb - bare) / (num_bytes / 1e6),
            },
        )


if __name__ == "__main__":
    main()
