"""State folders, and other things that one process has for itself, at both ends."""

import errno
import fcntl
import os
from pathlib import Path
from typing import IO

from domo.errors import StateError

TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""What a file system says where another process has the lock."""


def lock_folder(path: Path, what: str) -> IO[str]:
    """Create a state folder if need be and take its lock; held until the file is closed.

    Args:
        path: The folder.
        what: Which program, for the error text.

    Raises:
        StateError: Another process holds it, or it cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return lock_file(
            path / "lock",
            f"another {what} (process {{pid}}) uses the state folder {path}; stop it, or give this "
            "one its own --state-dir",
        )
    except OSError as error:
        raise StateError(
            f"the state folder {path} cannot be used: {error.strerror}; choose another with "
            "--state-dir"
        ) from None


def lock_file(path: Path, taken: str) -> IO[str]:
    """Create a file if need be and take its lock; held until the file is closed.

    Args:
        path: The file; it gets the process id.
        taken: What to say where another process holds it; `{pid}` becomes its process id.

    Raises:
        StateError: Another process holds it, or the file system has no locks.
        OSError: It cannot be written.
    """
    handle = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        pid = handle.read().strip() or "unknown"
        handle.close()
        if error.errno not in TAKEN:
            raise StateError(
                f"the file system of {path} takes no locks ({error.strerror}), so nothing keeps "
                "two processes apart there: use a folder on a local disk"
            ) from None
        raise StateError(taken.replace("{pid}", pid)) from None
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
