"""A live panel below a log, both written by one thread, so that neither tears the other.

Whatever is printed meanwhile (log lines, a task's own `print`) becomes a line above the panel.
"""

import io
import queue
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from domo.names import printable

REDRAWS = 4
"""In a second; most draw the same."""
LONGEST = 4096
"""Characters of a line that are kept until its end comes."""


class Board:
    """Draws until `stop`; the last panel stays.

    Args:
        console: A terminal.
        panel: What is drawn.
    """

    def __init__(self, console: Console, panel: RenderableType):
        self._console = console
        self._live = Live(
            panel,
            console=console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._lines: queue.SimpleQueue[Text] = queue.SimpleQueue()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="board", daemon=True)

    def start(self) -> None:
        """Draw; standard output and standard error go above the panel if they are terminals."""
        self._streams = (sys.stdout, sys.stderr)
        sys.stdout = _Above(sys.stdout, self.say)
        if sys.stderr.isatty():
            sys.stderr = _Above(sys.stderr, self.say)
        self._live.start(refresh=True)
        self._thread.start()

    def say(self, text: str, style: str | None = None) -> None:
        """A line above the panel; from any thread."""
        self._lines.put(Text(printable(text), style=style or ""))

    def stop(self) -> None:
        """Draw once more, and leave the cursor below the panel."""
        self._done.set()
        self._thread.join()
        sys.stdout, sys.stderr = self._streams
        self._write()
        self._live.stop()

    def _draw(self) -> None:
        while not self._done.wait(1 / REDRAWS):
            self._write()
            self._live.refresh()

    def _write(self) -> None:
        while True:
            try:
                line = self._lines.get_nowait()
            except queue.Empty:
                return
            self._console.print(line, soft_wrap=True)


class _Above(io.TextIOBase):
    """Stands in for a stream: whole lines go above the panel, as a terminal would leave them.

    A progress bar writes itself over after each carriage return; what it was at last is its line.
    """

    def __init__(self, stream: TextIO, say: Callable[[str], None]):
        self.rich_proxied_file = stream  # where rich writes what is drawn
        self._say, self._begun, self._lock = say, "", threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._begun = map(_last, (self._begun + text).split("\n"))
            if len(self._begun) > LONGEST:
                lines.append(self._begun)
                self._begun = ""
        for line in lines:
            self._say(line.rstrip("\r"))
        return len(text)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The terminal's."""
        return self.rich_proxied_file.encoding

    def fileno(self) -> int:
        """The terminal's: for a faulthandler, or a subprocess."""
        return self.rich_proxied_file.fileno()


def _last(line: str) -> str:
    """What follows the last carriage return that anything follows."""
    end = len(line.rstrip("\r"))
    return line[line.rfind("\r", 0, end) + 1 :]
