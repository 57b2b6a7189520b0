"""The paper's VGG-16 run batched: equal to the exact loop, seconds a local step, share of the peak.

    python -m benchmarks.vgg16 --data DATA [--steps 20] [--device cuda] [--precision bf16]
        [--methods DOMO,FedAvgSLM-Z,FedAvgSM,FedAvg] [--peak-tflops 989] [--json out.json]

Takes so many local steps of the 16 silos (CIFAR-10, s = 5 %, batch 32) in both modes, from the same
initial model on the same batches, and says how far the batched model is from the exact one, by the
norm of the model and by that of its way from x_0, and what a local step costs in either. FLOPs of a
step are counted from the shapes of layers: twice the multiplications, three times the forward pass.

The 200 epochs themselves are a recipe, which a GPU takes with

    domo experiment run figure-2 --scale paper --mode batched --device cuda --data DATA
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import domo
from domo.experiments.recipe import load_recipe
from domo.model.layout import Section
from domo.tasks import load_task
from domo.tasks.models import vgg16
from domo.training.initial import build_initial

PANEL = "s = 5 %"


@dataclass(frozen=True)
class Row:
    """What a method's steps came to.

    Attributes:
        apart: Norm of (batched x - exact x) / norm of exact x.
        of_step: The same by the norm of (exact x - x_0).
        exact_s: Seconds of a silo's local step; those of start and data are not in it.
        batched_s: The same, batched.
        tflops: Batched, of training alone.
    """

    method: str
    steps: int
    apart: float
    of_step: float
    exact_s: float
    batched_s: float
    tflops: float


def flops_per_sample() -> float:
    """Of a training step of VGG-16 on a 32x32 image."""
    sizes = list[float]()

    def count(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        weight = module.weight
        sizes.append(weight.numel() * output[0].numel() / weight.shape[0])

    model = vgg16()
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        model(torch.zeros(1, 3, 32, 32))
    return 3 * 2 * sum(sizes)


def seconds_of(config: domo.RunConfig, args: argparse.Namespace, mode: str) -> tuple[float, Any]:
    """Seconds of the second of two equal rounds, and the result of both."""
    ends = list[float]()

    def done(record: object) -> None:
        if args.device.startswith("cuda"):
            torch.cuda.synchronize()
        ends.append(time.perf_counter())

    precision = args.precision if mode == "batched" else "float32"
    made = domo.simulate(
        config, args.data, device=args.device, mode=mode, precision=precision, on_model=done
    )
    return ends[-1] - ends[-2], made


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vgg16", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10, or where it is put")
    parser.add_argument("--steps", type=int, default=20, help="local steps of a silo, two rounds")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32", choices=["float32", "bf16"])
    parser.add_argument("--methods", default="DOMO,FedAvgSLM-Z,FedAvgSM,FedAvg")
    parser.add_argument("--silos", type=int, default=16, help="fewer, to try it out")
    parser.add_argument("--peak-tflops", type=float, help="of the card, dense, in this precision")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    cells = load_recipe("figure-2").cells("paper", [0])
    by_method = {c.config.method: c.config for c in cells if c.panel == PANEL}
    flops, rows = flops_per_sample(), list[Row]()
    print(
        f"{flops / 1e9:.2f} GFLOP a sample; {args.silos} silos on {args.device}, {args.precision}"
    )
    print(
        f"{'method':<12} {'apart':>9} {'of step':>9} {'exact':>9} {'batched':>9} "
        f"{'TFLOP/s':>8} {'of peak':>8}"
    )
    for method in args.methods.split(","):
        given = by_method[method].model_dump() | {
            "num_rounds": 2,
            "num_silos": args.silos,
            "local_epochs": None,
            "local_steps": args.steps // 2,
            "evaluate_every": 0,
        }
        config = domo.RunConfig(**given)
        (exact_s, exact), (batched_s, batched) = (
            seconds_of(config, args, mode) for mode in ("exact", "batched")
        )
        start = build_initial(load_task(config.task), config.seed)[1][Section.TRAINABLE]
        apart = (batched.x - exact.x).norm()
        of_x, of_step = (float(apart / by.norm()) for by in (exact.x, exact.x - start))
        steps = args.silos * (args.steps // 2)
        speed = steps * config.batch_size * flops / batched_s / 1e12
        rows.append(
            Row(method, args.steps, of_x, of_step, exact_s / steps, batched_s / steps, speed)
        )
        share = f"{speed / args.peak_tflops:8.1%}" if args.peak_tflops else f"{'-':>8}"
        print(
            f"{method:<12} {of_x:9.1e} {of_step:9.1e} {exact_s / steps:8.4f}s "
            f"{batched_s / steps:8.4f}s {speed:8.3f} {share}",
            flush=True,
        )
    if args.json:
        body = {"device": args.device, "precision": args.precision, "rows": list(map(asdict, rows))}
        args.json.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
