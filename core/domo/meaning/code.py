"""Digest of a task's own code, so that a line that was changed at one silo is seen.

It is over the file of the task's class, and over the files beside it (of its package, or of its
folder) that it uses by an import at the top. With one file it is the beginning of what `sha256sum`
prints; line ends count as LF. It is of what was imported: a file that is edited later counts at the
next start.
"""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

LENGTH = 16
"""Hex digits."""
INSTALLED = ("site-packages", "dist-packages")


def task_code(task: Any) -> str:
    """Digest of a task's own code; empty: it is domo's, or has no file."""
    name = type(task).__module__
    return "" if name.split(".")[0] == "domo" else _of_module(name)


@lru_cache(maxsize=64)
def _of_module(name: str) -> str:
    files = {m.__name__: _digest(Path(str(m.__file__))) for m in _used(name)}
    if len(files) < 2:
        return next(iter(files.values()), "")[:LENGTH]
    lines = "".join(f"{module} {digest}\n" for module, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:LENGTH]


def _used(name: str) -> Iterator[ModuleType]:
    """The task's module and those beside it that it uses, each once."""
    first = sys.modules.get(name)
    if first is None:
        return
    found, waiting = {name}, [first]
    while waiting:
        module = waiting.pop()
        if not _has_source(module):
            continue
        yield module
        for other in _named_in(module) - found:
            found.add(other)
            beside = sys.modules.get(other)
            if beside is not None and _beside(beside, first):
                waiting.append(beside)


def _named_in(module: ModuleType) -> set[str]:
    """Names of the modules that what stands in a module is of."""
    names = set()
    for value in list(vars(module).values()):
        with suppress(Exception):  # a stranger's __getattr__
            of = value.__name__ if isinstance(value, ModuleType) else value.__module__
            names.add(str(of))
    return names


def _beside(module: ModuleType, first: ModuleType) -> bool:
    """Whether a module belongs to the same package, or lies in the same folder of scripts."""
    if not _has_source(module):
        return False
    package = first.__name__.split(".")[0]
    if "." in first.__name__ or hasattr(first, "__path__"):
        return module.__name__.split(".")[0] == package
    folder = Path(str(first.__file__)).parent
    return folder.name not in INSTALLED and Path(str(module.__file__)).parent == folder


def _has_source(module: ModuleType) -> bool:
    path = getattr(module, "__file__", None)
    return isinstance(path, str) and path.endswith(".py") and Path(path).is_file()


def _digest(path: Path) -> str:
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    return hashlib.sha256(text).hexdigest()
