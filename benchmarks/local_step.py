"""What a local step of each method costs beside stock torch: momentum SGD, AdamW, Muon.

    python benchmarks/local_step.py [--json out.json] [--device cuda] [--repetitions 40]

Each repetition takes one step of every optimizer, in rotating order, on its own copy of the model,
so that whatever else the machine does meets all of them alike. A step is zero_grad, forward,
backward and opt.step(); the optimizer's part is timed inside it. A ratio is the median over the
repetitions of (this optimizer / stock of the same repetition). Stock SGD's fused form, which
`LocalSGD` builds on, is shown too: what DOMO costs beyond it is the cost of momentum fusion. What
has AdamW or Muon inside is beside stock AdamW (fused) and stock Muon (SGD for what is no matrix).

The aim: a whole step of DOMO costs at most 1.02 of stock, and of all others at most 1.05.
"""

import argparse
import copy
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from domo.algorithm import local_steps
from domo.methods import Hyperparameters, make_kernel
from domo.model.flat import FlatModel
from domo.tasks.models import resnet20, vgg16

MODELS: dict[str, Callable[[], nn.Module]] = {"VGG-16": vgg16, "ResNet-20": resnet20}
STOCK, FUSED = "SGD(momentum, foreach)", "SGD(momentum, fused)"
ADAMW, MUON = "AdamW(fused)", "Muon and SGD"
METHODS = (
    *((m, m, "SGD", STOCK) for m in ("DOMO", "DOMO-S", "FedProx", "SCAFFOLD-LM-Z", "FedDyn-LM-Z")),
    *((f"{m}, AdamW", m, "AdamW", ADAMW) for m in ("FedAvg", "DOMO", "FedProx")),
    *((f"{m}, Muon", m, "Muon", MUON) for m in ("FedAvg", "DOMO")),
)
"""Name, method, what is inside, and what it is beside."""
LOCAL_LR, WEIGHT_DECAY, NUM_CLASSES = 1e-4, 5e-4, 10


@dataclass
class Row:
    """One optimizer on one model; medians in ms, and ratios to its stock."""

    model: str
    optimizer: str
    step_ms: float
    optimizer_ms: float
    step_ratio: float
    optimizer_ratio: float


@dataclass
class Contender:
    """A model, its optimizer, what it is beside, and the times measured so far in seconds."""

    module: nn.Module
    opt: torch.optim.Optimizer
    beside: str
    steps: list[float]
    optimizer_parts: list[float]


def contenders(module: nn.Module, num_steps: int) -> dict[str, Contender]:
    hp = Hyperparameters(weight_decay=WEIGHT_DECAY)
    out = {}
    for name in (STOCK, FUSED):
        plain = copy.deepcopy(module)
        stock = torch.optim.SGD(
            plain.parameters(),
            lr=LOCAL_LR,
            momentum=hp.local_momentum,
            weight_decay=WEIGHT_DECAY,
            foreach=name == STOCK,
            fused=name == FUSED,
        )
        out[name] = Contender(plain, stock, STOCK, [], [])
    plain = copy.deepcopy(module)
    adamw = torch.optim.AdamW(plain.parameters(), lr=LOCAL_LR, fused=True)
    out[ADAMW] = Contender(plain, adamw, ADAMW, [], [])
    plain = copy.deepcopy(module)
    out[MUON] = Contender(plain, Muon(plain), MUON, [], [])
    for name, method, inside, beside in METHODS:
        flat = FlatModel(copy.deepcopy(module))
        some = torch.randn_like(flat.vector) * 1e-3
        decay = WEIGHT_DECAY if inside == "SGD" else 0.0
        kernel = make_kernel(method, replace(hp, local_optimizer=inside, weight_decay=decay))
        opt = local_steps(
            kernel,
            flat.vector,
            flat.params,
            state={},
            h=LOCAL_LR,
            num_steps=num_steps,
            m_r=some if kernel.fusion != "none" else None,
            correction=some if kernel.control != "none" else None,
        )
        with torch.no_grad():
            opt.begin()
        out[name] = Contender(flat.module, opt, beside, [], [])
    return out


class Muon(torch.optim.Optimizer):
    """Stock Muon for what is a matrix, or can be seen as one, and stock SGD for the rest."""

    def __init__(self, module: nn.Module):
        params = list(module.parameters())
        super().__init__(params, {"lr": LOCAL_LR})
        self._pairs = [(p, p.detach().flatten(1) if p.ndim > 2 else p.detach()) for p in params]
        matrices = [m for _, m in self._pairs if m.ndim == 2]
        rest = [m for _, m in self._pairs if m.ndim != 2]
        self._inner = [torch.optim.Muon(matrices, lr=LOCAL_LR), torch.optim.SGD(rest, lr=LOCAL_LR)]

    def step(self) -> None:  # type: ignore[override]
        """As stock."""
        for p, m in self._pairs:
            m.grad = None if p.grad is None else p.grad.view_as(m)
        for inner in self._inner:
            inner.step()


def one_step(c: Contender, images: Tensor, labels: Tensor, wait: Callable[[], None]) -> None:
    wait()
    start = time.perf_counter()
    c.opt.zero_grad()
    functional.cross_entropy(c.module(images), labels).backward()
    wait()
    middle = time.perf_counter()
    c.opt.step()
    wait()
    end = time.perf_counter()
    c.steps.append(end - start)
    c.optimizer_parts.append(end - middle)


def measure(name: str, device: torch.device, batch_size: int, repetitions: int) -> list[Row]:
    torch.manual_seed(0)
    warm_up = max(3, repetitions // 10)
    competing = contenders(MODELS[name]().to(device), warm_up + repetitions)
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    order = list(competing)
    for i in range(warm_up + repetitions):
        images = torch.randn(batch_size, 3, 32, 32).to(device)
        labels = torch.randint(NUM_CLASSES, (batch_size,)).to(device)
        for method in order:
            one_step(competing[method], images, labels, wait)
        order.append(order.pop(0))
        if i + 1 == warm_up:
            for c in competing.values():
                c.steps.clear()
                c.optimizer_parts.clear()

    def ratio(mine: list[float], theirs: list[float]) -> float:
        return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))

    return [
        Row(
            model=name,
            optimizer=method,
            step_ms=1e3 * statistics.median(c.steps),
            optimizer_ms=1e3 * statistics.median(c.optimizer_parts),
            step_ratio=ratio(c.steps, competing[c.beside].steps),
            optimizer_ratio=ratio(c.optimizer_parts, competing[c.beside].optimizer_parts),
        )
        for method, c in competing.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of torch")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    device = torch.device(args.device)
    chip = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "CPU"
    print(
        f"torch {torch.__version__}, {chip}, {args.threads} threads, batch {args.batch_size}, "
        f"median of {args.repetitions} interleaved repetitions\n"
    )
    print(f"{'model':<10} {'optimizer':<23} {'step':>18} {'optimizer part':>22}")
    rows = []
    for name in MODELS:
        for row in measure(name, device, args.batch_size, args.repetitions):
            rows.append(row)
            print(
                f"{row.model:<10} {row.optimizer:<23} "
                f"{row.step_ms:8.2f} ms {row.step_ratio:5.3f}x "
                f"{row.optimizer_ms:12.2f} ms {row.optimizer_ratio:5.3f}x"
            )
    if args.json:
        setting = {
            "torch": torch.__version__,
            "device": args.device,
            "chip": chip,
            "threads": args.threads,
            "batch_size": args.batch_size,
            "repetitions": args.repetitions,
        }
        body = {"setting": setting, "rows": [asdict(r) for r in rows]}
        args.json.write_text(json.dumps(body, indent=2) + "\n")


if __name__ == "__main__":
    main()
