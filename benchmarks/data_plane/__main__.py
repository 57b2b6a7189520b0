"""What a round costs beyond training, side by side with plain sockets, NVFlare and Flower.

python -m benchmarks.data_plane [--only rounds,peers,...] [--rounds 6] [--out FOLDER]

rounds   59 MB x 4, 8, 16 with the floor, and 4 KB x 4; `durability = "power"`; the disk (2 minutes)
peers    59 MB x 4 and x 8 and 4 KB x 4 in NVFlare and Flower (15 minutes; installs them once, in
         virtual environments of their own, 550 MB)
many     200 silos x 4 KB, 64 x 59 MB (2 minutes)
large    1 GB x 4 with agents, 1 GB x 4 and x 16 with light silos (10 minutes, 40 GB of disk)
huge     a model of 5 GB in both directions (2 minutes, 30 GB of disk)
silos    what a silo's memory has beyond a bare trainer's, 400 MB (3 minutes)
slow     slow readers and writers beside fast ones (3 minutes)

A round is timed from the moment when all updates are ready, all at one instant, to the moment when
the last silo has the next model; medians of `--rounds` rounds after one that warms up. Peers, and
agents that train, are timed from round to round. Writes results.json, table.md and plot.png.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.data_plane import raw_floor
from benchmarks.data_plane.domo import Rounds, agent_rounds, light_rounds, trainer_mb
from benchmarks.data_plane.report import plot, table
from benchmarks.peers import flower, nvflare
from benchmarks.peers.measure import PeerResult

TINY, VGG, GIGA, FIVE, SILO = 4096, 58_879_272, 1_000_000_000, 5_000_000_000, 400_000_000
SHAPES = {TINY: "tiny", VGG: "59mb"}


def rounds(n: int) -> Iterator[Rounds]:
    yield light_rounds("no training", TINY, 4, max(n, 20))
    for silos in (4, 8, 16):
        floor = raw_floor.measure(VGG, silos, n + 1)
        yield Rounds("plain sockets", "floor", VGG / 1e6, silos, [floor.round_s], floor.cpu_s)
        it = light_rounds("no training", VGG, silos, n)
        it.floor_s = floor.round_s
        yield it
    power = 'durability = "power"'
    yield light_rounds(power, VGG, 4, n, server=power)
    yield Rounds("disk", "59 MB written and synced", VGG / 1e6, 1, synced_writes(VGG, n))


def synced_writes(num_bytes: int, n: int) -> list[float]:
    """Seconds of a sequential write with fsync, into a new file each time."""
    data, times = os.urandom(1 << 20), []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n):
            begun = time.monotonic()
            with (Path(folder) / str(i)).open("wb", buffering=0) as f:
                for at in range(0, num_bytes, len(data)):
                    f.write(data[: num_bytes - at])
                os.fsync(f.fileno())
            times.append(time.monotonic() - begun)
    return times


def peers(n: int) -> Iterator[Rounds]:
    measures = {"NVFlare": nvflare.measure, "Flower": flower.measure}
    for name, measure in measures.items():
        for num_bytes, silos in ((TINY, 4), (VGG, 4), (VGG, 8)):
            with tempfile.TemporaryDirectory(prefix="domo-bench-") as folder:
                result = measure(SHAPES[num_bytes], silos, n, Path(folder) / "run")
            yield _of_peer(name, num_bytes, result)


def _of_peer(name: str, num_bytes: int, r: PeerResult) -> Rounds:
    return Rounds(
        f"{name} {r.version}",
        "adds a constant",
        num_bytes / 1e6,
        r.num_silos,
        r.round_s,
        r.cpu_s_per_round,
        server_mb=r.server_peak_mb,
        correct=r.correct,
        note=r.note,
    )


def many(n: int) -> Iterator[Rounds]:
    yield light_rounds("threads", TINY, 200, n, threads=True)
    yield light_rounds("threads", VGG, 64, n, threads=True, keeps=False)


def large(n: int) -> Iterator[Rounds]:
    yield agent_rounds("real agents, one step", GIGA, 4, 4, "FedAvg")
    for silos, method in ((4, "DOMO"), (16, "DOMO"), (4, "FedAvgSLM")):
        case = f"streaming, {method}"
        yield light_rounds(case, GIGA, silos, 3, method=method, keeps=False, threads=True)


def huge(n: int) -> Iterator[Rounds]:
    yield light_rounds("streaming, both ways", FIVE, 1, 1, keeps=False, threads=True)


def silos(n: int) -> Iterator[Rounds]:
    for method, momentum in (("FedAvg", 0.0), ("DOMO", 0.6), ("DOMO-S", 0.6), ("FedAvgSLM", 0.6)):
        bare = trainer_mb(SILO, momentum)
        it = agent_rounds(f"agent, {method}", SILO, 2, 4, method)
        more = (it.silo_mb - bare) / it.model_mb
        it.note = f"bare trainer {bare:.0f} MB, agent {more:+.2f} models"
        yield it


def slow(n: int) -> Iterator[Rounds]:
    yield light_rounds("4 fast silos alone", VGG, 4, 2)
    yield light_rounds("4 fast silos after 24 s of nothing", VGG, 4, 2, pause_s=24)
    it = light_rounds("4 fast silos beside 2 of 20 Mbit/s", VGG, 6, 2, slow=2)
    it.note = "transfers of the fast ones"
    yield it


CASES: dict[str, Callable[[int], Iterator[Rounds]]] = {
    "rounds": rounds,
    "peers": peers,
    "many": many,
    "large": large,
    "huge": huge,
    "silos": silos,
    "slow": slow,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.data_plane",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=6, help="timed rounds")
    parser.add_argument("--out", type=Path, default=Path("runs/data-plane"))
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    results: list[Rounds] = []
    for name in names:
        for result in CASES[name](args.rounds):
            results.append(result)
            print(_line(result), flush=True)
            body = [asdict(r) for r in results]
            (args.out / "results.json").write_text(json.dumps(body, indent=1))
    (args.out / "table.md").write_text(table(results))
    plot(results, args.out / "plot.png")
    print(f"\n{table(results)}\nwritten to {args.out}: results.json, table.md, plot.png")
    wrong = [r for r in results if r.system == "domo" and not r.correct]
    for r in wrong:
        print(f"wrong model: {r.case}, {r.model_mb:.0f} MB x {r.silos}: {r.note}")
    return bool(wrong)


def _line(r: Rounds) -> str:
    times = f"{median(r.round_s):8.3f} s ({min(r.round_s):.3f}-{max(r.round_s):.3f})"
    floor = f"  {r.seconds / r.floor_s:.2f} x floor" if r.floor_s else ""
    memory = f"  server {r.bare_mb:.0f} -> {r.server_mb:.0f} MB  silo {r.silo_mb:.0f} MB"
    size = f"{r.model_mb:8.3f} MB x {r.silos:3d}"
    return (
        f"{r.system:16s} {r.case:36s} {size} {times} {r.cpu_s:6.2f} CPU-s{floor}{memory}  {r.note}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
