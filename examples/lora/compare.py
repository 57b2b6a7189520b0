"""All runs of run.toml on three seeds, as the table of the README: about two minutes on one core.

python -m examples.lora.base --out x0.safetensors
python -m examples.lora.base --whole --out x0-whole.safetensors
python -m examples.lora.compare
"""

import statistics
import sys
import time
import tomllib
from pathlib import Path

import domo

SEEDS = (0, 1, 2)


def row(run, seeds=SEEDS):
    """A run as cells: accuracy after the last round, bytes of a vector, seconds of CPU."""
    accuracies, began = [], time.process_time()
    for seed in seeds:
        result = domo.simulate(config=domo.RunConfig(**run, seed=seed))
        accuracies.append(100 * result.accuracies[-1])
    seconds = (time.process_time() - began) / len(seeds)
    mean, spread = statistics.mean(accuracies), statistics.stdev(accuracies)
    size = 4 * result.layout.num_params
    return f"| {run['name']} | {mean:.1f} | {spread:.1f} | {size:,} | {seconds:.1f} |"


def main():
    """Print a row for each run, or for those that are named."""
    runs = tomllib.loads(Path(__file__).with_name("run.toml").read_text("utf-8"))["runs"]
    print("| run | accuracy | sd | bytes each way | CPU seconds |\n|---|---:|---:|---:|---:|")
    for run in runs:
        if not sys.argv[1:] or run["name"] in sys.argv[1:]:
            print(row(run), flush=True)


if __name__ == "__main__":
    main()
