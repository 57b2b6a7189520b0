"""A day of a federation in short: 60 faults over 200 rounds, and the bytes of the undisturbed run.

    PYTHONPATH=. python -m benchmarks.day [--seed N] [--faults 60] [--rounds 200] [--json F]

A coordinator and four silos with a loader process each, all real processes through the command
line, every silo behind a link of its own and every state folder on a small disk. Faults are drawn
from the table in tests/support/live/day_faults.py, each equally often. The page has to name each
within 10 s. It mounts small disks, so it needs root. The short form is tests/e2e/test_day.py.
"""

import argparse
import json
import signal
import tempfile
from pathlib import Path

from tests.support.live.day import SAID_S, Plan, Report, Struck, day
from tests.support.live.day_faults import FAULTS

HEAD = f"{'at':>7} {'round':>5}  {'fault':42} {'silo':12} {'said':>6} {'back':>6}  the page said"


def line(one: Struck) -> str:
    said = f"{one.after_s:4.1f} s" if one.after_s is not None else "never"
    late = "" if one.named else "  <-- NOT NAMED IN TIME"
    local = "" if one.locally is not False else "  <-- NOT SAID AT THE SILO"
    text = one.said if len(one.said) < 160 else one.said[:157] + "..."
    more = "" if one.named and one.locally is not False else details(one)
    return (
        f"{one.at_s:6.1f}s {one.round:5d}  {one.fault:42} {one.on:12} {said:>6} "
        f"{one.back_s:4.1f} s  {text}{late}{local}{more}"
    )


def details(one: Struck) -> str:
    """What was said instead, by both ends."""
    page = (f"page      {text}" for text in one.page if "round-committed" not in text)
    terminal = (f"terminal  {text}" for text in one.terminal)
    return "".join(f"\n          {text[:200]}" for text in (*page, *terminal))


def figures(report: Report) -> None:
    named = len(report.struck) - len(report.unnamed)
    print(f"{len(report.struck)} faults, {named} named within {SAID_S:.0f} s, ", end="")
    print(f"{report.plan.num_rounds} rounds in {report.seconds:.0f} s")
    for which, digests in (("disturbed", report.digests), ("undisturbed", report.undisturbed)):
        print(f"  {which:12} x_R {digests['x']}, m_R {digests['m']}")
    print(f"  {'the same bytes' if report.same_bytes else 'OTHER BYTES'}")
    print(f"  processes left: {len(report.left)}", *report.left, sep="\n    ")
    for name, (first, last) in report.rss_mb.items():
        print(f"  {name:12} {first:6.0f} MB after the first rounds, {last:6.0f} MB at the end")


def main() -> int:
    parser = argparse.ArgumentParser(description="Disturb a federation for a day; compare bytes.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--method", default="DOMO")
    parser.add_argument("--proceed", action="store_true", help="go on without a silo; replay it")
    parser.add_argument("--workers", type=int, default=1, help="loader processes of each silo")
    parser.add_argument("--only", action="append", default=[], choices=[f.name for f in FAULTS])
    parser.add_argument("--without", action="append", default=[], choices=[f.name for f in FAULTS])
    parser.add_argument("--json", type=Path, help="write the numbers there")
    args = parser.parse_args()
    plan = Plan(
        args.rounds,
        args.faults,
        seed=args.seed,
        method=args.method,
        workers=args.workers,
        proceed=args.proceed,
        only=[f for f in args.only or (f.name for f in FAULTS) if f not in args.without],
    )
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="domo-day-") as folder:
        report = day(Path(folder), plan, lambda one: print(line(one), flush=True))
    figures(report)
    if args.json:
        args.json.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    return 0 if report.same_bytes and not report.unnamed and not report.left else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started ends with it
    raise SystemExit(main())
