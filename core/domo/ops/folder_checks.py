"""A state folder, looked at from outside: nothing in it is changed."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from domo.ops.findings import (
    Finding,
    ok,
    problem,
    warning,
)

TIGHT = 2
"""So many times what is needed, and there is nothing to say."""


def human_size(count: float) -> str:
    """`1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    path = path.absolute()
    return next(p for p in (path, *path.parents) if p.exists())


def files_in(folder: Path) -> list[tuple[Path, int]]:
    """Files under a folder with their bytes, by name; what vanishes meanwhile is left out."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            if not path.is_dir():
                found.append((path, path.lstat().st_size))
        except OSError:
            continue
    return found


def check_folder(path: Path, who: str) -> Iterator[Finding]:
    """Whether a state folder can be written and is not in use.

    Args:
        path: The folder; it need not be there yet.
        who: Which program takes its lock.
    """
    mend = "choose another with --state-dir, or mend its owner and permissions"
    there = nearest(path)
    if not there.is_dir():
        yield problem(f"{there} is a file, not a folder", "choose another with --state-dir")
        return
    reason = _refuses(there)
    if reason:
        yield problem(f"the state folder {path} cannot be written: {reason}", mend)
        return
    if there != path.absolute():
        yield ok(f"{path} will be made in {there}, which can be written")
        return
    holder = _holder(path / "lock")
    if holder is None:
        yield ok(f"{path} can be written and is not in use")
        return
    text = f"another {who} (process {holder}) uses the state folder {path}"
    yield problem(text, "stop it before you start one here, or give this one its own --state-dir")


def _refuses(folder: Path) -> str:
    """Why no file can be made in a folder; empty: one can. The file tried has no name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return ""  # a matter of space
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return error.strerror or str(error)
        if not os.access(folder, os.W_OK | os.X_OK):
            return os.strerror(errno.EACCES)
    return ""


def _holder(lock: Path) -> str | None:
    """The process that holds a lock, as it wrote; None: nobody does."""
    try:
        with lock.open(encoding="ascii", errors="replace") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # any other: the file system has no locks
                return handle.read(20).strip() or "unknown"
    except OSError:
        pass
    return None


def check_space(path: Path, needed: int, what: str) -> Finding:
    """Whether there is room in a folder.

    Args:
        path: The folder; it need not be there yet.
        needed: Bytes.
        what: What they are for.
    """
    there = nearest(path)
    free = shutil.disk_usage(there).free
    text = f"{human_size(free)} are free in {there}, {human_size(needed)} are needed ({what})"
    if free < needed:
        return problem(text, "make room there, or choose another disk with --state-dir")
    if free < TIGHT * needed:
        return warning(text, "make room there, before other files take it")
    return ok(text)
