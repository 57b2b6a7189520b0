"""Install domo into the environment of this interpreter, and show how far it is.

Usage: install.py run | dev. `run` is what a coordinator and silos need, `dev` adds what tests and
checks need. Standard library only: it runs before anything is installed.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections import deque
from pathlib import Path

EXTRAS = {"run": "server", "dev": "dev"}
WHAT = {"run": "domo, PyTorch and what they need", "dev": "what tests and checks need"}
REDRAW_S, LINE_S = 0.5, 10.0
"""How often the line is drawn on a terminal; how often one is printed where there is none."""
LAST_LINES = 20
UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
NEEDED = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9._-]+)")
FILE = re.compile(r"(?:Downloading|Processing) (\S+)(?: \(([\d.]+) (\w+)\))?")
FIRST_IMPORT = "import domo.commands.main, domo_server.app, domo_client.agent"
"""Compiles what the demo's processes load, once; pip would compile 20,000 files for them."""


class Progress:
    """What pip has said so far.

    Attributes:
        found: Packages that it knows to be needed.
        num_bytes: Read so far, from the network or from a folder of wheels.
        installing: How many it installs; 0: it has not begun to.
        doing: What it is at, in words.
        last: Its last lines, for a fault.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.num_bytes = 0.0
        self.installing = 0
        self.doing = "asking what there is"
        self.last: deque[str] = deque(maxlen=LAST_LINES)

    def hear(self, line: str) -> None:
        """Take a line of pip's."""
        self.last.append(line.rstrip())
        text = line.strip()
        if named := NEEDED.match(text):
            self.found.add(named[1].lower())
        elif file := FILE.match(text):
            name = Path(file[1]).name
            if file[2]:
                self.num_bytes += float(file[2]) * UNITS.get(file[3], 0)
            elif Path(file[1]).is_file():
                self.num_bytes += Path(file[1]).stat().st_size
            if name.endswith(".whl"):
                self.doing = f"fetching {name.split('-')[0]}"
        elif text.startswith("Installing collected packages:"):
            self.installing = text.count(",") + 1
            self.doing = "unpacking"

    def line(self, seconds: float, num_installed: int, written: float) -> str:
        """How far it is, in one line."""
        if not self.installing:
            size = f", MB: {self.num_bytes / 1e6:,.0f}" if self.num_bytes else ""
            return f"{seconds:4.0f} s  {self.doing} (packages so far: {len(self.found)}{size})"
        done = min(num_installed, self.installing)
        return (
            f"{seconds:4.0f} s  {self.doing}: {done} of {self.installing} packages, "
            f"about {written / 1e9:.1f} GB written"
        )


def packages() -> int:
    """How many are installed here."""
    return sum(1 for _ in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def show(text: str, last: list[float]) -> None:
    """One line that moves on a terminal; a line every ten seconds elsewhere."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\033[K  {text[: shutil.get_terminal_size().columns - 3]}")
    elif time.monotonic() - last[0] >= LINE_S:
        last[0] = time.monotonic()
        sys.stdout.write(f"  {text}\n")
    sys.stdout.flush()


def install(what: str) -> Progress:
    """Run pip, and show how far it is.

    Raises:
        SystemExit: It failed; its last lines are printed.
    """
    command = [
        sys.executable, "-u", "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
        "--no-compile", "--progress-bar", "off", "-e", f".[{EXTRAS[what]}]",
    ]  # fmt: skip
    progress, began, last = Progress(), time.monotonic(), [time.monotonic()]
    here = Path(sysconfig.get_path("purelib"))
    num_before, free_before = packages(), shutil.disk_usage(here).free
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def listen() -> None:
        assert pip.stdout is not None
        for line in pip.stdout:
            progress.hear(line)

    listener = threading.Thread(target=listen)
    listener.start()
    while pip.poll() is None:
        if not progress.installing:
            free_before = shutil.disk_usage(here).free
        written = max(0, free_before - shutil.disk_usage(here).free)
        show(progress.line(time.monotonic() - began, packages() - num_before, written), last)
        time.sleep(REDRAW_S)
    listener.join()
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K")
    if pip.returncode:
        sys.stdout.write("\n".join(progress.last) + "\n")
        raise SystemExit("error: pip could not install domo; what it said last is above")
    return progress


def main() -> None:
    """Install, and compile what is loaded first."""
    what = sys.argv[1] if len(sys.argv) > 1 else "run"
    began = time.monotonic()
    print(f"installing {WHAT[what]}")  # noqa: T201
    progress = install(what)
    print("  compiling what is loaded first", flush=True)  # noqa: T201
    subprocess.run([sys.executable, "-c", FIRST_IMPORT], check=True)
    new = progress.installing
    size = f", {progress.num_bytes / 1e6:,.0f} MB fetched" if progress.num_bytes else ""
    print(f"  done in {time.monotonic() - began:.0f} s: {new} packages are new{size}")  # noqa: T201


if __name__ == "__main__":
    main()
