"""What an open page costs, minute by minute, and what its stream costs the coordinator."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.dashboard.browser import Watched, opened
from benchmarks.dashboard.live import Coordinator, connection, coordinator, cpu_s, submit_light
from benchmarks.dashboard.report import keep, slope, table
from benchmarks.dashboard.silos import Pace, silos

NUM_SILOS = 16
HISTORY = 500
TRAIN_S = 4.0
SETTLE_S = 15.0
LOOK_S = 30.0


@dataclass(frozen=True)
class Look:
    """One page in one minute; shares are of one core."""

    page: str
    minute: float
    rounds: int
    renderer_percent: float
    browser_percent: float
    coordinator_percent: float
    heap_mb: float
    renderer_mb: float
    nodes: int
    listeners: int
    documents: int


@dataclass(frozen=True)
class Slope:
    """One page over all of its minutes; the first one is not counted."""

    page: str
    minutes: int
    renderer_percent: float
    browser_percent: float
    heap_first_mb: float
    heap_last_mb: float
    heap_mb_an_hour: float
    heap_kb_a_round: float
    renderer_first_mb: float
    renderer_last_mb: float
    renderer_mb_an_hour: float


@dataclass(frozen=True)
class Streams:
    """The coordinator with so many listeners."""

    streams: int
    coordinator_percent: float
    kb_s_each: float
    messages_s_each: float


@contextlib.contextmanager
def _long_run(minutes: float) -> Iterator[tuple[Coordinator, str]]:
    """A run with a history, that goes on at a pace of real life."""
    rounds = HISTORY + int(60 * minutes / (TRAIN_S * 2 / 3)) + 100
    pace = Pace(TRAIN_S, report_s=2.0, quick_rounds=HISTORY)
    with coordinator() as it:
        run_id = submit_light(it, rounds, NUM_SILOS)
        with silos(it.address, it.fed.folder, NUM_SILOS, pace):
            began = time.monotonic()
            it.until(lambda: it.rounds_done(run_id) >= HISTORY, f"{HISTORY} rounds", 1200)
            print(f"{HISTORY} rounds in {time.monotonic() - began:.0f} s", flush=True)
            yield it, run_id


def measure(out: Path, minutes: float) -> None:
    """Writes page.json and page.md each minute, and page-slopes at the end."""
    looks: list[Look] = []
    with _long_run(minutes) as (it, run_id), contextlib.ExitStack() as stack:
        pages = {
            name: stack.enter_context(opened(it, address))
            for name, address in (("overview", "#/"), ("run", f"#/runs/{run_id}"))
        }
        time.sleep(SETTLE_S)
        for page in pages.values():
            page.heap()
        began = time.monotonic()
        while (passed := time.monotonic() - began) < 60 * minutes:
            for look in _minute(it, run_id, pages, began, min(60.0, 60 * minutes - passed)):
                looks.append(look)
                print(f"  {_line(look)}", flush=True)
            keep(out, "page", looks)
            keep(out, "page-slopes", slopes(looks))
    print(table(slopes(looks)), flush=True)


def _minute(
    it: Coordinator, run_id: str, pages: dict[str, Watched], began: float, length_s: float
) -> Iterator[Look]:
    """The forced collections are outside the time that is counted."""
    start = time.monotonic()
    before = {name: page.cpu_s() for name, page in pages.items()}
    own = cpu_s(it.pid)
    time.sleep(length_s)
    took = time.monotonic() - start
    after = {name: page.cpu_s() for name, page in pages.items()}
    own = cpu_s(it.pid) - own
    rounds = it.rounds_done(run_id)
    for name, page in pages.items():
        renderer, browser = (b - a for a, b in zip(before[name], after[name], strict=True))
        heap = page.heap()
        yield Look(
            name,
            round((time.monotonic() - began) / 60, 1),
            rounds,
            round(100 * renderer / took, 1),
            round(100 * browser / took, 1),
            round(100 * own / took, 1),
            heap.heap_mb,
            heap.renderer_mb,
            heap.nodes,
            heap.listeners,
            heap.documents,
        )


def slopes(looks: Sequence[Look]) -> list[Slope]:
    """A row for each page."""
    out = []
    for name in dict.fromkeys(look.page for look in looks):
        some = [look for look in looks if look.page == name]
        some = some[1:] if len(some) > 2 else some
        at = [look.minute for look in some]
        out.append(
            Slope(
                name,
                len(some),
                _mean([look.renderer_percent for look in some]),
                _mean([look.browser_percent for look in some]),
                some[0].heap_mb,
                some[-1].heap_mb,
                round(60 * slope([look.heap_mb for look in some], at), 2),
                round(1000 * slope([look.heap_mb for look in some], [x.rounds for x in some]), 1),
                some[0].renderer_mb,
                some[-1].renderer_mb,
                round(60 * slope([look.renderer_mb for look in some], at), 1),
            )
        )
    return out


def measure_streams() -> list[Streams]:
    """A run of the same size, with no browser; listeners read what a page would be sent."""
    with _long_run(5) as (it, _):
        return [_listened(it, num) for num in (0, 1, 10)]


def _listened(it: Coordinator, num: int) -> Streams:
    read = [[0, 0] for _ in range(num)]  # bytes, messages
    over = threading.Event()
    for counts in read:
        threading.Thread(target=_listen, args=(it.url, counts, over), daemon=True).start()
    time.sleep(SETTLE_S)
    start, own, before = time.monotonic(), cpu_s(it.pid), [tuple(c) for c in read]
    time.sleep(LOOK_S)
    took, own = time.monotonic() - start, cpu_s(it.pid) - own
    each = [(c[0] - b[0], c[1] - b[1]) for c, b in zip(read, before, strict=True)]
    over.set()
    return Streams(
        num,
        round(100 * own / took, 1),
        round(_mean([b for b, _ in each]) / took / 1000, 1),
        round(_mean([m for _, m in each]) / took, 1),
    )


def _listen(url: str, counts: list[int], over: threading.Event) -> None:
    line = connection(url)
    line.request("GET", "/api/v1/stream")
    answer = line.getresponse()
    while not over.is_set():
        text = answer.readline()
        counts[0] += len(text)
        counts[1] += text.startswith(b"data:")
    line.close()


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 1) if values else 0.0


def _line(look: Look) -> str:
    return (
        f"{look.minute:5.1f} min  {look.page:9s} {look.rounds} rounds  renderer "
        f"{look.renderer_percent:.1f} %  browser {look.browser_percent:.1f} %  coordinator "
        f"{look.coordinator_percent:.1f} %  heap {look.heap_mb} MB  renderer {look.renderer_mb} MB"
        f"  {look.nodes} nodes  {look.listeners} listeners"
    )
