"""What a silo's policy and its audit record cost in a round: time, and bytes on the disk.

    PYTHONPATH=. python -m benchmarks.policy_and_audit

Everything that a round of training adds is called as a silo calls it, for a model of 24 kB and one
of 59 MB: the rules asked again, the day's counts, clipping and noise (with `clip`), the lines of
the model that came, the test, the update, the coordinator's head. Prints the median of the rounds.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from domo.audit.chain import FOLDER, Head
from domo.metrics.table import Sum
from domo.model.flat import byte_view
from domo.run_config import RunConfig
from domo_client.policy.gate import Gate
from domo_client.state.record import Record

CONFIG = RunConfig(task="digits", num_rounds=1000, num_silos=3)
SIZES = (6_090, 14_728_266)
POLICY = 'min_silos = 3\nmethods = ["DOMO"]\nhours = "00:00-23:59"\n'


def rounds(n: int, entries: int, clip: bool) -> tuple[float, float]:
    """Median milliseconds and bytes a round."""
    x, update = torch.randn(entries), torch.randn(entries)
    sums = {"loss": Sum(12.5, 90), "accuracy": Sum(81.0, 90)}
    with tempfile.TemporaryDirectory() as name:
        folder, took = Path(name), []
        (folder / "policy.toml").write_text(POLICY + ("clip = 1.0\nnoise = 0.01\n" if clip else ""))
        gate, record = Gate(None, folder, "site-a"), Record(folder)
        key, theirs = record.key, Head(1, "0" * 64, bytes(64))
        for r in range(n):
            began = time.perf_counter()
            assert not gate.of_run(CONFIG)
            assert not gate.of_round(CONFIG, 12, 0.05, 360)
            assert gate.of_today(f"1-r/{r}", True, True) is None
            record.came(byte_view(x))
            gate.note_test(True)
            record.test("1-r", r, sums)
            gate.protect(update)
            record.update("1-r", r, 12, [byte_view(update)])
            gate.note_update(f"1-r/{r}")
            head = record.head_to_tell()
            assert head is not None
            record.was_told(head, theirs, key)
            took.append(1000 * (time.perf_counter() - began))
        record.close()
        size = sum(path.stat().st_size for path in (folder / FOLDER).glob("*.jsonl"))
    return statistics.median(took), size / n


def main() -> None:
    """One line for each size, without and with clip and noise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for entries in SIZES:
        for clip in (False, True):
            ms, size = rounds(given.rounds, entries, clip)
            more = ", with clip and noise" if clip else ""
            line = f"{4 * entries / 1e6:.3g} MB{more}: {ms:.2f} ms and {size:.0f} bytes a round\n"
            sys.stdout.write(line)


if __name__ == "__main__":
    main()
