"""Measure one peer once and print what it cost as JSON.

python -m benchmarks.peers {flower,nvflare} {tiny,59mb,1gb} SILOS [--rounds 4] [--folder FOLDER]
"""

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from . import flower, nvflare
from .measure import SHAPES

PEERS = {"flower": flower.measure, "nvflare": nvflare.measure}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("silos", type=int)
    parser.add_argument("--rounds", type=int, default=4, help="timed ones, after one warm-up round")
    parser.add_argument("--folder", type=Path, help="keep what the peer writes in this new folder")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes are ended
    with tempfile.TemporaryDirectory(prefix="domo-peers-") as root:
        folder = args.folder or Path(root)
        result = PEERS[args.peer](args.shape, args.silos, args.rounds, folder)
    print(json.dumps(asdict(result), indent=1))
    return 0 if result.correct else 1


if __name__ == "__main__":
    raise SystemExit(main())
