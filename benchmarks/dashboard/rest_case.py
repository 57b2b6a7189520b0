"""REST while a round's updates are received and summed."""

import json
import multiprocessing
import time
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple

from benchmarks.dashboard.live import connection, coordinator, submit_light
from benchmarks.dashboard.report import Figure, figures_of
from benchmarks.data_plane import light

NUM_BYTES, NUM_SILOS, ROUNDS = 58_879_272, 8, 60
EVERY_S = 0.02


class Asked(NamedTuple):
    """One request for the status."""

    at_s: float
    ms: float
    fresh: bool
    state: str


def measure() -> list[Figure]:
    """Rounds back to back: silos whose update is ready at once, each a process of its own.

    By the state of the run that the answer shows: OPEN has the downloads and uploads, CLOSING the
    sum. `idle`: the same requests before the run.
    """
    context = multiprocessing.get_context("spawn")
    with coordinator() as it:
        asked: Any = context.Queue()
        over = context.Event()
        idle = _ask(it.url, time.monotonic() + 5.0)
        submit_light(it, ROUNDS, NUM_SILOS, NUM_BYTES // 4)
        together, stamps = context.Barrier(NUM_SILOS), context.Queue()
        ends = []
        for k in range(NUM_SILOS):
            folder = it.fed.folder / f"silo-{k}"
            args = (k, it.address, folder, NUM_BYTES // 4, 1, True, together, stamps)
            ends.append(context.Process(target=light.run, args=args, daemon=True))
        asker = context.Process(target=_asker, args=(it.url, over, asked), daemon=True)
        try:
            for end in ends:
                end.start()
            got: dict[int, int] = {}
            while got.get(1, 0) < NUM_SILOS:  # the first round warms up
                _count(stamps.get(timeout=light.PATIENCE_S), got)
            asker.start()
            while got.get(ROUNDS, 0) < NUM_SILOS:
                _count(stamps.get(timeout=light.PATIENCE_S), got)
            over.set()
            answers: list[Asked] = asked.get(timeout=60)
        finally:
            for process in (*ends, asker):
                if process.pid is not None:
                    process.kill()
                    process.join()
    states = sorted({a.state for a in answers})
    return figures_of(
        {
            "idle": [a.ms for a in idle],
            "all": [a.ms for a in answers],
            "connection kept": [a.ms for a in answers if not a.fresh],
            "connection anew": [a.ms for a in answers if a.fresh],
            **{f"run is {s}": [a.ms for a in answers if a.state == s] for s in states},
        },
        "ms",
    )


def _count(stamp: light.Stamp, got: dict[int, int]) -> None:
    if stamp.what == "got":
        got[stamp.round_index] = got.get(stamp.round_index, 0) + 1


def _asker(url: str, over: Event, asked: Any) -> None:
    found: list[Asked] = []
    while not over.is_set():
        found += _ask(url, time.monotonic() + 1.0)
    asked.put(found)


def _ask(url: str, until_s: float) -> list[Asked]:
    """At an even pace; every second request over a connection of its own."""
    kept, found, due = connection(url), list[Asked](), time.monotonic()
    _status(kept)
    while due < until_s:
        fresh = len(found) % 2 == 1
        time.sleep(max(0.0, due - time.monotonic()))
        start = time.monotonic()
        line = connection(url) if fresh else kept
        run = _status(line)["current_run"]
        found.append(
            Asked(start, 1000 * (time.monotonic() - start), fresh, run["state"] if run else "")
        )
        if fresh:
            line.close()
        due = max(due + EVERY_S, time.monotonic() - 0.5)
    kept.close()
    return found


def _status(line: Any) -> Any:
    line.request("GET", "/api/v1/status")
    return json.loads(line.getresponse().read())
