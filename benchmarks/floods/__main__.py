"""What each flood of one peer takes from two honest silos, from REST, memory and disk.

    python -m benchmarks.floods [--only NAME,...] [--seconds 10] [--repeat 2]
                                [--json FILE]

For each row a real coordinator with 1,024 descriptors, and two real silos that train `digits` with
one step a round. Before, between and after the floods of a row their rounds are counted without one
(the baseline); while it goes on, its first second left out, they are counted again. A page is asked
for its status every 50 ms, over a new connection each time, from another address than the
attacker's. The attacker is a process of its own with `nice` 15, so that the machine's cores go to
it last: what is missing from the rounds, the coordinator has spent.

rounds     a second, and as a part of the baseline: 50 % at least
REST p95   seconds; a request that fails counts as 10 s: below 1 s
memory     peak of the coordinator above what it had when the flood began: +100 MB at most
disk       what log and database grew by, beyond what as many rounds of the baseline write: +1 MB
           at most
CPU        of a core: the coordinator's in the baseline and in the flood, and the attacker's

The exit code is 1 where a row does not hold.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.floods.attacks import ATTACKS
from benchmarks.floods.scene import Scene, Window, cpu_s, scene

WARM_S, CALM_S, PATIENCE_S = 1.0, 3.0, 60.0
LEAST, MOST_REST_S, MOST_MB, MOST_DISK = 0.5, 1.0, 100.0, 1_000_000
HEAD = (
    f"{'flood':26} {'rounds/s':>14} {'':>5} {'REST p95':>17} {'failed':>7} {'memory':>8} "
    f"{'disk':>8} {'CPU':>18}"
)


def attacked(name: str, it: Scene, seconds: float) -> tuple[Window, float]:
    """What is measured in a flood, and the attacker's CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.floods.attacks", name, it.grpc_at, it.page_at]
    with subprocess.Popen(
        [*command, str(seconds + PATIENCE_S)], stdout=subprocess.PIPE
    ) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline(), "the attacker has ended"
            time.sleep(WARM_S)
            used = cpu_s(attacker.pid)
            flood = it.measure(seconds)
            used = cpu_s(attacker.pid) - used
            assert attacker.poll() is None, "the attacker has ended"
        finally:
            attacker.kill()
    time.sleep(CALM_S)
    return flood, used


def measure(name: str, it: Scene, seconds: float, repeat: int) -> dict[str, Any]:
    """One row."""
    base = it.measure(seconds)
    flood, used = attacked(name, it, seconds)
    base += it.measure(seconds)
    for _ in range(repeat - 1):
        again, more = attacked(name, it, seconds)
        flood, used = flood + again, used + more
        base += it.measure(seconds)
    a_round = (base.database + base.log) / max(base.rounds, 1)
    disk = flood.database + flood.log - a_round * flood.rounds
    held = {
        "rounds": flood.per_s >= LEAST * base.per_s,
        "REST": flood.p95_s < MOST_REST_S,
        "memory": flood.memory_mb <= MOST_MB,
        "disk": disk <= MOST_DISK,
    }
    return {
        "flood": name,
        "base": base.per_s,
        "share": flood.per_s / base.per_s,
        "disk": disk,
        "attacker_cpu": used / flood.seconds,
        "base_cpu": base.cpu,
        "base_p95_s": base.p95_s,
        "held": held,
        "in_flood": asdict(flood) | {"per_s": flood.per_s, "p95_s": flood.p95_s, "cpu": flood.cpu},
    }


def line(row: dict[str, Any]) -> str:
    """As it is printed."""
    f, fell = row["in_flood"], [k for k, held in row["held"].items() if not held]
    return (
        f"{row['flood']:26} {row['base']:6.1f} > {f['per_s']:5.1f} {row['share']:5.0%} "
        f"{row['base_p95_s']:6.3f} > {f['p95_s']:5.3f} s "
        f"{f['failed']:3d}/{len(f['rest_s']):3d} {f['memory_mb']:5.0f} MB "
        f"{row['disk'] / 1000:5.0f} kB {row['base_cpu']:5.0%} > {f['cpu']:4.0%}, "
        f"{row['attacker_cpu']:4.0%}{'   FELL: ' + ', '.join(fell) if fell else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(f"{i}" for i in range(1, len(ATTACKS) + 1)))
    parser.add_argument("--seconds", type=float, default=10.0, help="of a window")
    parser.add_argument("--repeat", type=int, default=2, help="windows of each flood")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    chosen = [list(ATTACKS)[int(i) - 1] for i in args.only.split(",")]
    print(HEAD, flush=True)
    for flood in chosen:
        with tempfile.TemporaryDirectory(prefix="domo-floods-") as name, scene(Path(name)) as it:
            rows.append(measure(flood, it, args.seconds, args.repeat))
        print(f"{line(rows[-1])}   load {os.getloadavg()[0]:.1f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(not all(all(row["held"].values()) for row in rows))


if __name__ == "__main__":
    main()
