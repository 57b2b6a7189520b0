"""The place in the user's code at which a thread, or a loader process, is."""

import itertools
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import domo

_HOME = Path(domo.__file__).resolve().parents[2]
_OWN = tuple(str(_HOME / d) for d in ("core/domo", "client/domo_client", "server/domo_server"))
_OWN += tuple(str(Path(domo.__file__).resolve().parent.parent / d) for d in ("domo/", "domo_"))
_STANDARD = sysconfig.get_path("stdlib")
_DUMPED = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
"""A line of `faulthandler`."""


class Place(NamedTuple):
    """A line of code.

    Attributes:
        file: Its path.
        line: Its number.
        name: The function it is in.
        within: The method of the user's that domo, or torch, has called; empty: the same.
    """

    file: str
    line: int
    name: str
    within: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether it is a library's."""
        return "site-packages" in self.file or "dist-packages" in self.file

    @property
    def is_standard(self) -> bool:
        """Whether it is Python's own."""
        frozen = self.file.startswith(("<frozen", "<string>"))
        return frozen or (self.file.startswith(_STANDARD) and not self.is_installed)

    @property
    def is_own(self) -> bool:
        """Whether it is domo's."""
        return self.file.startswith(_OWN)

    def __str__(self) -> str:
        where = f"{Path(self.file).name}:{self.line}"
        names = [n.rpartition("<locals>.")[2] for n in (self.within, self.name)]
        named = " > ".join(n for n in names if n not in ("", "<module>"))
        return f"{named}, {where}" if named else where


def chosen(places: Iterable[Place]) -> Place | None:
    """Of a stack, innermost first: the user's own line, or else a library's, or else domo's."""
    stack = [p for p in places if not p.is_standard]
    foreign = [p for p in stack if not p.is_own]
    users = [p for p in foreign if not p.is_installed]
    told = users or foreign or stack
    if not told:
        return None
    called = itertools.takewhile(lambda p: not p.is_own, stack[stack.index(told[0]) :])
    outer = [p for p in called if p in told][-1:]
    return told[0]._replace(within=outer[0].name) if outer and outer[0] != told[0] else told[0]


def of_thread(thread: int) -> Place | None:
    """Where a thread of this process is; None: it has ended."""
    return chosen(_stack(sys._current_frames().get(thread)))


def _stack(frame: FrameType | None) -> Iterable[Place]:
    while frame is not None:
        code = frame.f_code
        yield Place(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back


def of_dump(text: str) -> Place | None:
    """Where the process was that `faulthandler` wrote of; None: in nothing but Python and torch."""
    found = [Place(file, int(line), name) for file, line, name in _DUMPED.findall(text)]
    mine = [p for p in found if p.is_own or not p.is_installed]
    return chosen(mine)
