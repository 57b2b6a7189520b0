"""State folders: one process each, at both ends."""

import fcntl
import os
from pathlib import Path
from typing import IO

from domo.errors import StateError


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
        handle = (path / "lock").open("a+", encoding="ascii")
    except OSError as error:
        raise StateError(
            f"the state folder {path} cannot be used: {error.strerror}; choose another with "
            "--state-dir"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.seek(0)
        pid = handle.read().strip() or "unknown"
        handle.close()
        raise StateError(
            f"another {what} (process {pid}) uses the state folder {path}; stop it, or give this "
            "one its own --state-dir"
        ) from None
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
