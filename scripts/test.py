"""`make test`: all tests, and in words what this machine left out.

The tests are shared out to one process a core. Those that measure time or memory (marker `alone`)
come after the others, in one process. Last, a few that failed are run once more by themselves: many
wait for real processes, and on a busy machine one of them may come too late. Those that pass then
are named; what is broken fails twice.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from domo.ops.console import say

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SHARED = ["-n", str(CORES), "--dist", "loadscope", "--no-loadscope-reorder", "-m", "not alone"]
"""In the order of the folders, long ones first; a module, with its fixtures, in one process."""
ALONE = ["-p", "no:xdist", "-m", "alone"]
AGAIN = ["-p", "no:xdist", "--last-failed", "--last-failed-no-failures=none"]
MOST_AGAIN = 8
"""As many failures as a busy machine may be the reason of."""
TESTS_FAILED, NOTHING_FOUND = 1, 5
WORDS = ("failed", "passed", "skipped", "xfailed", "xpassed", "warning", "error")
FAILED = re.compile(r"(?:FAILED|ERROR) (.+?)(?: - .*)?$")
CLOSING = re.compile(r"(?:(?:\d+ [a-z]+|no tests ran)(?:, )?)+ in ([\d.]+)s(?: \([\d:]+\))?")


class Run(NamedTuple):
    """What a run of pytest came to: its exit code, and what its closing line says."""

    code: int
    counts: Counter[str]
    seconds: float
    left_out: list[str]
    failed: list[str]


def pytest(flags: Sequence[str]) -> Run:
    """Run it, and pass on what it says, but for the closing line."""
    command = [sys.executable, "-u", "-m", "pytest", "-q", "-rsfE", "--durations=8", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    counts: Counter[str] = Counter()
    seconds, left_out, failed = 0.0, list[str](), list[str]()
    for line in process.stdout:
        text = line.rstrip("\n")
        if closing := CLOSING.fullmatch(text):
            seconds = float(closing[1])
            counts |= {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", text)}
            continue
        if text.startswith("SKIPPED"):
            left_out.append(re.sub(r"^SKIPPED \[(\d+)\] \S+ ", r"\1 left out: ", text))
        if found := FAILED.match(text):
            failed.append(found[1])
        say(text)
    return Run(process.wait(), counts, seconds, left_out, failed)


def closing_line(counts: Counter[str], seconds: float) -> str:
    """As pytest's own, of all runs together."""
    many = {word: "s" if word in WORDS[-2:] and counts[word] > 1 else "" for word in WORDS}
    told = [f"{counts[word]} {word}{many[word]}" for word in WORDS if counts[word]]
    return f"{', '.join(told) or 'no tests ran'} in {seconds:.2f}s"


def main() -> int:
    """Run pytest; one closing line is the last one."""
    passes = [SHARED, ALONE] if CORES > 1 else [["-p", "no:xdist"]]
    with tempfile.TemporaryDirectory() as cache:  # knows of failures in these passes only
        given = [*sys.argv[1:], "-o", f"cache_dir={cache}"]
        runs = [pytest([*flags, *given]) for flags in passes]
        codes = {run.code for run in runs} - {0, NOTHING_FOUND}
        failed = [name for run in runs for name in run.failed]
        late = list[str]()
        if codes == {TESTS_FAILED} and len(failed) <= MOST_AGAIN:
            say(f"run once more by themselves: {len(failed)}")
            again = pytest([*AGAIN, *given])
            for run in runs:
                del run.counts["failed"], run.counts["error"]
            runs.append(again)
            codes = {again.code} - {0}
            late = [name for name in failed if name not in again.failed]
    counts = sum((run.counts for run in runs), Counter[str]())
    if codes and not counts["failed"] + counts["error"]:
        counts["error"] += 1  # pytest itself did not come to its end
    for reason in dict.fromkeys(reason for run in runs for reason in run.left_out):
        say(reason)
    for name in late:
        say(f"failed beside others, passed by itself: {name}")
    say(closing_line(counts, sum(run.seconds for run in runs)))
    return max(codes, default=0)


if __name__ == "__main__":
    raise SystemExit(main())
