"""Turn by turn, and what came of it."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import benchmarks.simulators
from benchmarks.peers.install import installed
from benchmarks.simulators.contenders import CONTENDERS, WITH_CHILDREN
from benchmarks.simulators.peers import PEERS, become
from benchmarks.simulators.setting import BATCH_SIZE, MODELS, NUM_SILOS, Setting
from benchmarks.simulators.turns import Turns

BASE = "indexed"
"""What ratios are taken to."""


@dataclass
class Row:
    """A contender on a model; medians over the turns, in silo-steps per second."""

    model: str
    contender: str
    per_cpu_s: float
    per_wall_s: float
    ratio: float
    ratio_wall: float
    turns: list[dict[str, float]]


class Contender:
    """A process that takes turns."""

    def __init__(self, name: str, model: str, args: argparse.Namespace):
        self.name, self.turns = name, []
        words = ["--play", name, "--models", model, "--data", str(args.data)]
        self._folder = TemporaryDirectory(prefix="domo-bench-")
        words += ["--turns", str(args.turns), "--folder", self._folder.name]
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.simulators", *words],
            env=os.environ | one,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, float]:
        """What its round has cost."""
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended: see what it says above")
        return json.loads(line)

    def turn(self) -> dict[str, float]:
        """Let it go for one round."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        """Its input ends, and so does it."""
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def measure(model: str, names: Sequence[str], args: argparse.Namespace) -> list[Row]:
    """All contenders on one model, turn by turn."""
    competing = [Contender(name, model, args) for name in names]
    try:
        for c in competing:
            c.answer()  # the first round warms up
        order = list(competing)
        for i in range(args.turns):
            for c in order:
                c.turns.append(c.turn())
            order.append(order.pop(0))
            if sys.stderr.isatty():
                print(f"\r{model}: turn {i + 1} of {args.turns}", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    finally:
        for c in competing:
            c.end()
    base = next((c for c in competing if c.name == BASE), competing[0])

    def rates(c: Contender, seconds: str) -> list[float]:
        return [t["steps"] / t[seconds] for t in c.turns]

    def ratio(c: Contender, seconds: str) -> float:
        pairs = zip(rates(c, seconds), rates(base, seconds), strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    return [
        Row(
            model,
            c.name,
            statistics.median(rates(c, "cpu_s")),
            statistics.median(rates(c, "wall_s")),
            ratio(c, "cpu_s"),
            ratio(c, "wall_s"),
            c.turns,
        )
        for c in competing
    ]


def play(name: str, model: str, args: argparse.Namespace) -> None:
    """Be a contender."""
    import torch

    torch.set_num_threads(1)
    setting = Setting(*MODELS[model], args.data, args.turns + 2, args.folder)
    if name in PEERS:
        become(name, setting)
    CONTENDERS[name](setting, Turns(alone=name not in WITH_CHILDREN))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulators",
        description=benchmarks.simulators.__doc__.splitlines()[0],
    )
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)}")
    known = (*CONTENDERS, *PEERS)
    parser.add_argument(
        "--only",
        default=",".join(CONTENDERS),
        help=f"contenders, of {', '.join(known)}; the last {len(PEERS)} are installed on first use",
    )
    parser.add_argument("--turns", type=int, default=12, help="rounds of each that are measured")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where datasets are")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        play(args.play, args.models, args)
        return
    for given, there in ((args.models, MODELS), (args.only, known)):
        if unknown := set(given.split(",")) - set(there):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(there)}")
    for name in set(args.only.split(",")) & set(PEERS):
        package = PEERS[name].package
        print(f"{name}: {package.name} {installed(package)[1]}")
    print(f"{NUM_SILOS} silos, batch {BATCH_SIZE}, one thread each, median of {args.turns} turns\n")
    print(
        f"{'model':<6} {'contender':<10} {'steps/CPU-s':>12} {'ratio':>7} "
        f"{'steps/s':>9} {'ratio':>7}"
    )
    rows = []
    for model in args.models.split(","):
        for row in measure(model, args.only.split(","), args):
            rows.append(row)
            print(
                f"{row.model:<6} {row.contender:<10} {row.per_cpu_s:12,.0f} {row.ratio:6.2f}x "
                f"{row.per_wall_s:9,.0f} {row.ratio_wall:6.2f}x"
            )
    if args.json:
        setting = {
            "models": {
                m: {"task": MODELS[m].task, "local_steps": MODELS[m].num_steps} for m in MODELS
            },
            "num_silos": NUM_SILOS,
            "batch_size": BATCH_SIZE,
            "turns": args.turns,
            "processor": platform.processor() or "CPU",
            "cores": os.cpu_count(),
        }
        body = {"setting": setting, "rows": [asdict(r) for r in rows]}
        args.json.write_text(json.dumps(body, indent=2) + "\n")


if __name__ == "__main__":
    main()
