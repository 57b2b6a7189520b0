"""`make test`: all tests, and in words what this machine left out."""

import re
import subprocess
import sys

from domo.ops.console import say


def main() -> int:
    """Run pytest; its closing line stays the last one."""
    command = [sys.executable, "-u", "-m", "pytest", "-q", "-rs", "--durations=8", *sys.argv[1:]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdout is not None
    last, reasons = "", []
    for line in process.stdout:
        text = line.rstrip("\n")
        if text.startswith("SKIPPED"):
            reasons.append(re.sub(r"^SKIPPED \[(\d+)\] \S+ ", r"\1 left out: ", text))
        if last:
            say(last)
        last = text
    code = process.wait()
    for reason in reasons:
        say(reason)
    say(last)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
