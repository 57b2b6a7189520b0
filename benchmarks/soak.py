"""Long waits and many rounds: memory, threads and file handles stay as they are.

    PYTHONPATH=. python benchmarks/soak.py [--hours 10] [--silent 60] [--rounds 200]

Three parts, each with a coordinator process and four silos:

1. A coordinator that idles overnight. A night is shortened by its waits only: the silos report and
   ask for work as often as in so many hours at the default intervals (every 2 s and every 20 s),
   each call right after the other.
2. A round whose only step is silent for ten minutes. Shortened to `--silent` seconds, with 10 times
   as many heartbeats a second as by default, so as many as in ten minutes where it is 60.
   Keepalive pings, every 30 s, are not shortened.
3. A run of `--rounds` rounds, 5 MB of model and two vectors each way (FedAvgSLM), one step a round.
   It is paused for each look; what a process holds then depends on how far it is in its round by
   some vectors, so each figure is the least of three looks, 8, 4 and 0 rounds before.

About five minutes on two CPU cores. The short version is tests/processes/test_no_growth.py.
"""

import argparse
import tempfile
from pathlib import Path

from tests.support.live.growth import Usage, idle, least, over_rounds, silent
from tests.support.live.killable import COORDINATOR

MOST_MB = 16.0
"""What a process may grow by between the first and the last look, where a vector has 5 MB."""
ALLOCATOR_MB = 100.0
"""The same for a coordinator in its rounds: each of its threads that works on vectors may have some
freed ones kept back by the allocator. A vector lost in each of 180 rounds is 900 MB."""
POOLS = 8
"""Threads and handles that pools may still add after the first look."""


def shown(u: Usage) -> str:
    return f"{u.rss_mb:7.1f} MB {u.threads:3d} threads {u.handles:3d} handles"


def flat(first: Usage, last: Usage, most_mb: float = MOST_MB) -> bool:
    more = last.threads - first.threads, last.handles - first.handles
    return last.rss_mb - first.rss_mb < most_mb and max(more) <= POOLS


def main() -> int:
    parser = argparse.ArgumentParser(description="See that nothing grows.")
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--silent", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="domo-soak-") as root:
        folders = [Path(root) / name for name in ("idle", "silent", "rounds")]
        for folder in folders:
            folder.mkdir()

        looks: list[Usage] = []

        def look(hours: float, held: Usage, reports: int) -> None:
            looks.append(held)
            print(f"idle {hours:4.1f} h, {reports:6d} heartbeats: {shown(held)}", flush=True)

        reports, polls = idle(folders[0], args.hours, look)
        print(f"{reports} heartbeats and {polls} questions in all")
        good &= flat(looks[0], looks[-1])

        for name, (first, last) in silent(folders[1], args.silent, 600).items():
            print(f"silent, {name:12} first {shown(first)}   last {shown(last)}", flush=True)
            good &= flat(first, last)

        ends = (20, args.rounds // 2, args.rounds)
        found = over_rounds(folders[2], [n - back for n in ends for back in (8, 4, 0)], 1800)
        for name in found[20]:
            held = [least([found[n - back][name] for back in (8, 4, 0)]) for n in ends]
            for num_rounds, u in zip(ends, held, strict=True):
                print(f"round {num_rounds:4d} {name:12} {shown(u)}")
            good &= flat(held[0], held[-1], ALLOCATOR_MB if name == COORDINATOR else MOST_MB)
    print("flat" if good else "SOMETHING GROWS")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
