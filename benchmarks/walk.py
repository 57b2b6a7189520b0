"""The way of an update and of the model that follows: which module calls into which.

    python -m benchmarks.walk [--hops]

A coordinator and a silo with a loop of its own in this process, DOMO, watched from the end of the
second round's local steps until the third round is handed out. A hop is a call from one module
into another, each pair of functions counted once, whatever it was called for; what is left out are
heartbeats, events, logs, metrics, the page, sessions and errors (`ASIDE`). With `--hops` each is
printed, in the order in which it first happened; the two ends and the threads run side by side, so
that order may change from run to run, and a few of the hops with it.
"""

import argparse
import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

import domo_client
from domo import ArrayDataset
from tests.support.live.coordinator import coordinator, own_run

PACKAGES = [str(Path(name).resolve()) for name in ("core", "proto", "server", "client")]
ASIDE = (
    *("/ops/", "/events/", "/silos/", "/telemetry/", "/observe/", "/dashboard/", "/view/"),
    *("/monitor/", "/integrations/", "/v1/", "__init__", "errors", "/presence", "/heartbeat"),
    *("/access", "/lock", "/allocator", "testing", "names"),
)
Hop = tuple[str, str, str, str]


class Way:
    """The calls between modules, while it is watched."""

    def __init__(self) -> None:
        self.hops: dict[Hop, None] = {}
        self._watched = threading.Event()
        self._files: dict[str, str] = {}

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        """Hook the calls of this thread, and of those that start meanwhile."""
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def watch(self, on: bool) -> None:
        """Count from now on, or no more."""
        if on:
            self._watched.set()
        else:
            self._watched.clear()

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self._watched.is_set() or not (here := self._name(frame.f_code)):
            return
        caller = frame.f_back
        while caller is not None and not self._name(caller.f_code):
            caller = caller.f_back
        if caller is not None and (there := self._name(caller.f_code)) != here:
            self.hops[there, caller.f_code.co_name, here, frame.f_code.co_name] = None

    def _name(self, code: CodeType) -> str:
        file = code.co_filename
        if file not in self._files:
            inside = [file[len(p) + 1 :] for p in PACKAGES if file.startswith(f"{p}/")]
            counts = bool(inside) and not any(part in file for part in ASIDE)
            self._files[file] = inside[0] if counts else ""
        return self._files[file]


def main() -> None:
    """Walk it once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hops", action="store_true", help="print each")
    args = parser.parse_args()
    model, way = nn.Linear(8, 4, bias=False), Way()
    data = ArrayDataset(torch.ones(2, 8), torch.zeros(2, dtype=torch.int64))
    with (
        tempfile.TemporaryDirectory() as name,
        way.hooked(),
        coordinator(Path(name), own_run(Path(name), model, num_rounds=4)) as server,
        domo_client.connect(
            server.address, "a", state_dir=Path(name) / "silo", policy="open"
        ) as silo,
    ):
        for rnd in silo.rounds(model, samples=2):
            way.watch(False)
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                opt.step()
                opt.zero_grad()
            way.watch(rnd.round_index == 1)
    files = sorted({file for hop in way.hops for file in (hop[0], hop[2])})
    for there, caller, here, called in way.hops if args.hops else ():
        print(f"{there}:{caller} -> {here}:{called}")
    rooms = sorted({str(Path(file).parent) for file in files})
    print(f"{len(way.hops)} hops, {len(files)} files in {len(rooms)} rooms: {', '.join(rooms)}")


if __name__ == "__main__":
    main()
