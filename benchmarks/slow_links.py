"""What the formats for slow links save: VGG-16 on CIFAR-10, real agents behind slow links.

    python -m benchmarks.slow_links --data DIR [--mbit 20,100,1000] [--rounds 5] [--json out.json]

DIR holds CIFAR-10 as images (train/CLASS/*.jpg) or as torchvision keeps it. Two silos, each behind
a link of its own (tests/support/faults/proxy.py), train one step a round on their shard. Seconds
are medians of whole rounds, from one opening to the next, without the first; bytes are those of a
silo's link.
"""

import argparse
import json
import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.faults.proxy import Count, proxy
from tests.support.live.federation import federation

MBIT = 1e6 / 8
NUM_SILOS = 2
CASES = {
    "float32": ("float32", "none"),
    "float32, zstd": ("float32", "zstd"),
    "bfloat16 up": ("bfloat16", "none"),
    "bfloat16 up, zstd": ("bfloat16", "zstd"),
}
RUN = """
[[runs]]
name = "r"
task = "cifar10-vgg16"
method = "DOMO"
num_silos = {num_silos}
num_rounds = {num_rounds}
local_steps = 1
batch_size = 16
evaluate_every = 0
update_dtype = "{dtype}"
"""
TIMEOUT_S = 1800.0


def measure(data: Path, mbit: float, num_rounds: int, dtype: str, compression: str) -> Any:
    """Seconds of a round, and megabytes up and down."""
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="domo-bench-")))
        fed = ending.enter_context(federation(folder))
        fed.start_server(RUN.format(num_silos=NUM_SILOS, num_rounds=num_rounds, dtype=dtype))
        links = []
        for k in range(NUM_SILOS):
            links.append(ending.enter_context(proxy(fed.address, rate=mbit * MBIT)))
            shard = ["--data", str(data), "--shard", f"{k}/{NUM_SILOS}", "--once"]
            flags = [*shard, "--compression", compression]
            fed.start_silo(f"site-{k}", *flags, address=links[k].address)
        for silo in fed.silos.values():
            assert silo.wait(TIMEOUT_S) == 0, silo.output
        with urllib.request.urlopen(f"{fed.url}/api/v1/runs/1-r/rounds", timeout=30) as answer:
            seconds = [r["duration_s"] for r in json.load(answer)]
    sums = Count(*(sum(link.count[i] for link in links) for i in (0, 1)))
    each = NUM_SILOS * num_rounds * 1e6
    return {
        "round_s": round(median(seconds[1:]), 2),
        "up_mb": round(sums.up / each, 1),
        "down_mb": round(sums.down / each, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--mbit", default="20,100,1000", help="rates, separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="after the first")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results: dict[str, Any] = {}
    for rate in args.mbit.split(","):
        for name, (dtype, compression) in CASES.items():
            key = f"{rate} Mbit/s, {name}"
            data = args.data.resolve()
            results[key] = measure(data, float(rate), args.rounds + 1, dtype, compression)
            print(key, json.dumps(results[key]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
