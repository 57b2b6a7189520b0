"""Hostile texts of silos and coordinators, through everything that people read.

    python -m benchmarks.hostile_texts [--number 100000] [--seed 54]

Log (text and JSON), `domo events`, `status`, `watch`, the panel and webhooks: nothing that does not
print, and never more lines than things that happened. The first that fails ends it.
"""

import argparse
import time

from tests.support.outlets import through_all


def main() -> None:
    """Run it, and say what was written in which time."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--number", type=int, default=100_000)
    flags.add_argument("--seed", type=int, default=54)
    given = flags.parse_args()
    began = time.perf_counter()
    written = through_all(given.number, given.seed)
    took = time.perf_counter() - began
    print(f"{given.number} texts, seed {given.seed}: {took:.0f} s")
    for outlet, lines in written.items():
        print(f"{outlet}: {lines} lines")


if __name__ == "__main__":
    main()
