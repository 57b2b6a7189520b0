"""`python -m benchmarks.fuzz`: so many generated cases against each target, and how long they took.

A fault ends it with the traceback; the seed and the count say how to find it again. By atheris, the
codec's cases are guided by what code they reach.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random


def _atheris(cases: int, seed: int) -> int:
    from benchmarks.fuzz import wire

    with tempfile.TemporaryDirectory() as corpus:
        for i, good in enumerate(wire.seeds(Random(seed))):
            (Path(corpus) / str(i)).write_bytes(good)
        command = [sys.executable, "-m", "benchmarks.fuzz.wire", corpus, f"-runs={cases}"]
        told = subprocess.run(
            [*command, f"-seed={seed}", "-max_len=4096", "-print_final_stats=1"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if told.returncode != 0:
        raise SystemExit(told.stdout[-3000:] + told.stderr[-6000:])
    return cases


def _plain(name: str) -> Callable[[int, int], int]:
    def call(cases: int, seed: int) -> int:
        from importlib import import_module

        made: int = import_module(f"benchmarks.fuzz.{name}").run(cases, seed)
        return made

    return call


TARGETS: dict[str, tuple[int, int, Callable[[int, int], int]]] = {
    "codec": (3_000_000, 100_000, _atheris),
    "handlers": (200_000, 1_500, _plain("handlers")),
    "silo": (200_000, 5_000, _plain("silo")),
    "files": (100_000, 1_000, _plain("files")),
    "rest": (5_000, 150, _plain("rest")),
}
"""What is tried: cases in full (of `rest` for each role), in short, and what makes them."""


def main() -> None:
    """Try the targets that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("--cases", type=int, help="of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="a part of a minute for each")
    given = parser.parse_args()
    for name in given.targets or TARGETS:
        full, short, call = TARGETS[name]
        wanted = given.cases or (short if given.short else full)
        print(f"{name}: {wanted:,} cases, seed {given.seed} ...", flush=True)
        began = time.monotonic()
        made = call(wanted, given.seed)
        print(f"{name}: {made:,} cases in {time.monotonic() - began:.0f} s, no fault", flush=True)


if __name__ == "__main__":
    main()
