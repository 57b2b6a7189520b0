"""A real pseudo-terminal for a command: what it writes, keys and a size for it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command in a terminal of its own; a context manager that leaves no process behind."""

    def __init__(
        self, command: Sequence[str], columns: int, rows: int, variables: Mapping[str, str]
    ):
        self.raw = ""
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self._pid, self._fd = pty.fork()
        if self._pid == 0:  # the command; its size is there before it begins
            fcntl.ioctl(0, termios.TIOCSWINSZ, self._size)
            os.execvpe(command[0], list(command), {**plain, "TERM": "xterm-256color", **variables})

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def text(self) -> str:
        """What was written, without colours and movements of the cursor."""
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def until(self, pattern: str, seconds: float = 60.0) -> None:
        """Read until the text has something.

        Raises:
            AssertionError: It has not, in so many seconds or before the command ended.
        """
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, f"no {pattern!r} in:\n{self.text}"
            if not self._read():
                assert re.search(pattern, self.text), f"no {pattern!r} in:\n{self.text}"

    def _read(self) -> bool:
        """Whether the command still has its terminal."""
        if select.select([self._fd], [], [], 0.1)[0]:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # its end was closed
                return False
            self.raw += data.decode(errors="replace")
            return bool(data)
        return True

    def read_for(self, seconds: float) -> str:
        """What is written in the next so many seconds."""
        end, before = time.monotonic() + seconds, len(self.raw)
        while time.monotonic() < end and self._read():
            pass
        return self.raw[before:]

    def send(self, sig: signal.Signals) -> None:
        os.kill(self._pid, sig)

    def press(self, key: str) -> None:
        """Type something, such as Ctrl-C."""
        os.write(self._fd, key.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Another size; the kernel tells the command."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Close it, as a window is."""
        os.close(self._fd)
        self._fd = -1

    def wait(self, seconds: float = 60.0) -> int:
        """The exit code, once the command has ended."""
        end = time.monotonic() + seconds
        while not (ended := os.waitpid(self._pid, os.WNOHANG))[0]:
            assert time.monotonic() < end, f"it goes on:\n{self.text}"
            time.sleep(0.05)
        return os.waitstatus_to_exitcode(ended[1])

    def result(self, seconds: float = 60.0) -> int:
        """Read to the end; the exit code."""
        end = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < end, f"it goes on:\n{self.text}"
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
