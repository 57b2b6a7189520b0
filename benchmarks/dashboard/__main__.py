"""What the dashboard costs and how quick it is, in headless Chromium over real coordinators.

python -m benchmarks.dashboard [--only events,page,streams,rest,shots] [--minutes 30] [--out FOLDER]

events   from the cause of an event to its words in the page: 200 events (2 minutes)
page     the overview and the page of a run with 16 silos and over 500 rounds, open for --minutes:
         processor time, heap, nodes, memory, each minute (3 minutes more for the history)
streams  the coordinator with the same run and 0, 1 and 10 open pages' streams (4 minutes)
rest     /api/v1/status 50 times a second, while 59 MB x 8 silos are received and summed (2 minutes)
shots    pictures of each page from a live run of four silos (2 minutes)

Writes what it has so far as JSON and Markdown; Ctrl-C ends its processes and removes their folders.
Needs chromium and chromedriver.
"""

import argparse
import signal
from collections.abc import Callable
from pathlib import Path

from benchmarks.dashboard import events_case, page_case, rest_case, shots
from benchmarks.dashboard.report import keep, table


def events(out: Path, _: float) -> None:
    figures = events_case.measure()
    keep(out, "events", figures)
    print(table(figures), flush=True)


def page(out: Path, minutes: float) -> None:
    page_case.measure(out, minutes)


def streams(out: Path, _: float) -> None:
    rows = page_case.measure_streams()
    keep(out, "streams", rows)
    print(table(rows), flush=True)


def rest(out: Path, _: float) -> None:
    figures = rest_case.measure()
    keep(out, "rest", figures)
    print(table(figures), flush=True)


def pictures(out: Path, _: float) -> None:
    for path in shots.take(out):
        print(path, flush=True)


CASES: dict[str, Callable[[Path, float], None]] = {
    "events": events,
    "page": page,
    "streams": streams,
    "rest": rest,
    "shots": pictures,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dashboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--minutes", type=float, default=30.0, help="that the pages are open")
    parser.add_argument("--out", type=Path, default=Path("runs/dashboard"))
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for sig in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a shell's background
        signal.signal(sig, _interrupt)
    try:
        for name in names:
            print(f"{name}:", flush=True)
            CASES[name](args.out, args.minutes)
    except KeyboardInterrupt:
        print(f"stopped; what there is so far is in {args.out}")
        return 130
    return 0


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
