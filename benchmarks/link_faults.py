"""Bad links for real: a model of 60 MB, real processes, real time.

    python benchmarks/link_faults.py [--only cuts,slow] [--json out.json]

cuts       the link is cut at 10 seeded byte offsets in each direction (1 minute)
slow       links of 4 and of 30 Mbit/s beside two fast ones, and all without limits (5 minutes)
silence    nothing passes for 6 minutes, from the middle of an upload on (7 minutes)
nat        a NAT drops connections idle for 60 s; 3 minutes of silent training (4 minutes)
forgetful  the same NAT drops them after 20 s, before any ping (5 minutes)
clock      silos whose clock is an hour ahead and behind; needs the library of Debian's `faketime`

Each round is one step with gradient 1, so x_R is known, and each case checks it. Links are TCP
proxies on loopback (tests/support/faults/proxy.py). Bytes are those that passed a proxy, in model
sizes.
"""

import argparse
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from domo.model.flat import FlatModel
from domo.model.model_file import save_model
from tests.support.faults.proxy import Count, Proxy, proxy
from tests.support.live.federation import Federation, Process, federation

SHAPE = (5000, 3000)
BYTES = 4 * SHAPE[0] * SHAPE[1]
LR = 0.5
MBIT = 1e6 / 8
CUTS = 10
SILENCE_S = 360.0
TIMEOUT_S = 1500.0

Result = dict[str, Any]


class Case:
    """A run of FedAvg with its coordinator, and silos behind links."""

    def __init__(self, fed: Federation, num_silos: int, report_interval_s: float):
        self.fed, self.silos = fed, {}
        torch.manual_seed(0)
        flat = FlatModel(nn.Linear(*SHAPE, bias=False))
        save_model(fed.folder / "x0.safetensors", flat.layout, flat.read_all())
        run = f"""
[[runs]]
name = "r"
task = "own:Loop"
method = "FedAvg"
num_rounds = 1
num_silos = {num_silos}
local_steps = 1
batch_size = 1
local_lr = {LR}
evaluate_every = 0
initial_model = "x0.safetensors"
"""
        fed.start_server(run, "--exit-when-done", report_interval_s=report_interval_s)
        self.start = time.monotonic()
        self.peak_bytes = 0

    def silo(self, name: str, address: str, *flags: str, **variables: str) -> None:
        """Start a silo process."""
        command = ["python", "-m", "tests.support.live.loop_silo", address, name]
        command += [str(self.fed.folder / f"state-{name}"), "--shape", *map(str, SHAPE), *flags]
        log = self.fed.folder / f"{name}.log"
        self.silos[name] = Process(command, log, self.fed.folder, **variables)
        self.fed.silos[name] = self.silos[name]

    def events(self, name: str) -> list[dict[str, Any]]:
        """What a silo printed."""
        lines = self.silos[name].output.splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def finish(self) -> None:
        """Wait for all; check x_R; the coordinator's memory is read meanwhile."""
        end = time.monotonic() + TIMEOUT_S
        server = self.fed.server
        assert server is not None
        while server.poll() is None:
            assert time.monotonic() < end, server.output
            for silo in self.silos.values():
                assert not silo.poll(), silo.output
            with contextlib.suppress(OSError, StopIteration):
                text = Path(f"/proc/{server.pid}/status").read_text().splitlines()
                peak = next(line for line in text if line.startswith("VmHWM"))
                self.peak_bytes = max(self.peak_bytes, 1024 * int(peak.split()[1]))
            time.sleep(0.2)
        self.seconds = time.monotonic() - self.start
        assert server.poll() == 0, server.output
        for silo in self.silos.values():
            assert silo.wait(60) == 0, silo.output
        (folder,) = (self.fed.state_dir / "runs").iterdir()
        x = load_file(max((folder / "checkpoints").glob("x*.safetensors")))["x"]
        x_0 = next(iter(load_file(self.fed.folder / "x0.safetensors").values())).flatten()
        assert float((x_0 - LR - x).abs().max()) < 1e-6, "x_R is not what one update makes it"

    def times(self, name: str) -> Result:
        """Seconds of a silo's download and of its upload, and its troubles."""
        at = {e["event"]: e["at"] for e in self.events(name)}
        troubles = [e["text"] for e in self.events(name) if e["event"] == "trouble"]
        return {
            "download_s": round(at["holds"] - at["joined"], 1),
            "upload_s": round(at["sent"] - at["trained"], 1),
            "troubles": len(troubles),
        }


@contextlib.contextmanager
def case(num_silos: int, report_interval_s: float = 2.0) -> Iterator[Case]:
    with (
        tempfile.TemporaryDirectory() as folder,
        federation(Path(folder)) as fed,
    ):
        yield Case(fed, num_silos, report_interval_s)


def in_models(count: Count) -> Result:
    return {"up": round(count.up / BYTES, 3), "down": round(count.down / BYTES, 3)}


def cuts() -> Result:
    rng = random.Random(1)
    offsets = tuple([rng.randrange(BYTES) for _ in range(CUTS)] for _ in range(2))
    with case(1) as it, proxy(it.fed.address, cuts=offsets) as wire:
        it.silo("a", wire.address)
        it.finish()
        assert wire.left == 0
        last = it.events("a")[-1]
        assert max(in_models(wire.count).values()) < 1.2
        return {
            "seconds": round(it.seconds, 1),
            "connections": wire.connections,
            "wire": in_models(wire.count),
            "handed to grpc": in_models(Count(last["sent"], last["received"])),
            **it.times("a"),
        }


def slow() -> Result:
    rates = {"as slow as they are": (4 * MBIT, 30 * MBIT), "without limits": (None, None)}
    return {name: beside(*pair) for name, pair in rates.items()}


def beside(slowest: float | None, slower: float | None) -> Result:
    """Two silos on fast links beside two on links of these rates."""
    with (
        case(4) as it,
        proxy(it.fed.address, rate=slowest) as first,
        proxy(it.fed.address, rate=slower) as second,
    ):
        it.silo("4-Mbit-s", first.address)
        it.silo("30-Mbit-s", second.address)
        it.silo("fast-1", it.fed.address)
        it.silo("fast-2", it.fed.address)
        it.finish()
        return {
            "seconds": round(it.seconds, 1),
            **{name: it.times(name) for name in it.silos},
            "wire": in_models(first.count),
            "coordinator_peak_mb": it.peak_bytes // 10**6,
        }


def silence() -> Result:
    with case(2) as it:
        begun: list[float] = []

        def look(count: Count) -> None:
            if count.up > BYTES // 2 and not begun:
                begun.append(time.monotonic())
                wire.silence()

        wire = Proxy(it.fed.address, rate=100 * MBIT, on_bytes=look)
        with contextlib.closing(wire):
            it.silo("a", wire.address)
            it.silo("b", it.fed.address)
            while not begun:
                assert it.silos["a"].poll() is None, it.silos["a"].output
                time.sleep(0.1)
            time.sleep(SILENCE_S)
            wire.restore()
            restored = time.monotonic()
            it.finish()
            return {
                "seconds": round(it.seconds, 1),
                "silent_s": round(restored - begun[0], 1),
                "finished_after_s": round(it.start + it.seconds - restored, 1),
                "connections": wire.connections,
                "wire": in_models(wire.count),
                **it.times("a"),
            }


def nat(idle_s: float = 60.0) -> Result:
    with (
        case(1, report_interval_s=60.0) as it,
        proxy(it.fed.address, idle_s=idle_s) as wire,
    ):
        it.silo("a", wire.address, "--pause-s", "180")
        it.finish()
        return {
            "seconds": round(it.seconds, 1),
            "connections": wire.connections,
            "forgotten": wire.forgotten,
            "wire": in_models(wire.count),
            **it.times("a"),
        }


def forgetful() -> Result:
    return nat(20.0)


def clock() -> Result:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        return {"left out": "there is no libfaketime; apt install faketime"}
    with case(2) as it:
        for name, shift in (("ahead", "+1h"), ("behind", "-1h")):
            it.silo(
                *(name, it.fed.address),
                LD_PRELOAD=str(library),
                FAKETIME=shift,
            )
        it.finish()
        return {
            "seconds": round(it.seconds, 1),
            **{name: it.times(name) for name in it.silos},
        }


CASES = {f.__name__: f for f in (cuts, slow, silence, nat, forgetful, clock)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES), help="names, separated by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = {}
    for name in args.only.split(","):
        results[name] = CASES[name]()
        print(name, json.dumps(results[name], indent=2), flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
