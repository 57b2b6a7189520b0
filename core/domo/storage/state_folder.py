"""State folders, and other things that one process has for itself, at both ends.

What lies in a state folder is believed: the admin's token, the database, who a silo is. So it is
its user's alone. One that is wider and nobody else could write to is tightened; in one that others
could write to, anything may have been laid, and it is not used.
"""

import errno
import fcntl
import logging
import os
import shlex
import stat
from pathlib import Path
from typing import IO

from domo.errors import StateError

log = logging.getLogger(__name__)

TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""What a file system says where another process has the lock."""
FOLDER, FILE = 0o700, 0o600
"""Modes of what lies there."""
NOBODY = 65534
"""Who owns what a container's root has made on a share that squashes root, or a user of outside."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def lock_folder(path: Path, what: str) -> IO[str]:
    """Create a state folder if need be and take its lock; held until the file is closed.

    Args:
        path: The folder.
        what: Which program, for the error text.

    Raises:
        StateError: Another process holds it, it cannot be written, or others could write to it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=FOLDER)
        make_own(path)
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


def make_own(path: Path) -> None:
    """See that a state folder is this user's alone, and make it so where nobody else could write.

    Raises:
        StateError: Somebody else may have written there.
        OSError: It cannot be looked at.
    """
    found = path.stat()
    if not _ours(found.st_uid):
        raise StateError(
            f"the state folder {path} belongs to user {found.st_uid}, and this is user "
            f"{os.geteuid()}: what lies there would be believed. Start as that user, or: "
            f"{_typed('chown', '-R', str(os.geteuid()), path)}"
        )
    if found.st_mode & stat.S_IWOTH and _has_modes(path, found.st_mode):
        raise StateError(
            f"everybody on this machine may write to the state folder {path}, and so may have laid "
            f"anything there. If you know what lies in it: {_typed('chmod', '700', path)}; or "
            "choose another with --state-dir"
        )
    with os.scandir(path) as entries:
        for entry in entries:
            _check_entry(entry)
    if found.st_mode & OTHERS and found.st_uid == os.geteuid():
        _tighten(path)


def _ours(uid: int) -> bool:
    """Whether who owns a file may do what this process may: it itself, or root."""
    me = os.geteuid()
    return uid in (me, 0) or (me == 0 and uid == NOBODY)


def _has_modes(path: Path, mode: int) -> bool:
    """Whether the file system keeps modes: one that shows all as everybody's says nothing by it."""
    if path.stat().st_uid != os.geteuid():
        return True
    try:
        path.chmod(FOLDER)
        kept = not path.stat().st_mode & stat.S_IWOTH
        path.chmod(stat.S_IMODE(mode))
    except OSError:
        return True
    return kept


def _check_entry(entry: "os.DirEntry[str]") -> None:
    found = entry.stat(follow_symlinks=False)
    if not _ours(found.st_uid):
        raise StateError(
            f"{entry.path} in the state folder belongs to user {found.st_uid}: somebody else has "
            f"laid it there. Look at it, then take it away: {_typed('rm', '-r', entry.path)}"
        )
    if stat.S_ISLNK(found.st_mode) and not entry.is_dir():
        raise StateError(
            f"{entry.path} in the state folder is a link to {Path(entry.path).readlink()}: what is "
            "written there would go elsewhere. Put the file itself there, or take it away: "
            f"{_typed('rm', entry.path)}"
        )


def _tighten(path: Path) -> None:
    """Take from others what they could read; what lies in the folder is out of their reach then."""
    path.chmod(FOLDER)
    if not path.stat().st_mode & OTHERS:  # else a file system without modes
        log.warning("others could read the state folder %s; it is now its user's alone", path)


def _typed(*words: object) -> str:
    return shlex.join(str(word) for word in words)


def private(path: str, flags: int) -> int:
    """An `opener` for files of a state folder: nobody else's to read, whatever the umask."""
    return os.open(path, flags | os.O_CLOEXEC, FILE)


def keep_private(path: Path) -> None:
    """See that a file is there, and nobody else's to read.

    Raises:
        StateError: It cannot be made so.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE))
        if path.stat().st_uid == os.geteuid():
            path.chmod(FILE)
    except OSError as error:
        raise StateError(f"{path} cannot be used: {error.strerror}") from None


def lock_file(path: Path, taken: str) -> IO[str]:
    """Create a file if need be and take its lock; held until the file is closed.

    Args:
        path: The file; it gets the process id.
        taken: What to say where another process holds it; `{pid}` becomes its process id.

    Raises:
        StateError: Another process holds it, or the file system has no locks.
        OSError: It cannot be written.
    """
    handle = open(path, "a+", encoding="ascii", opener=private)  # noqa: SIM115 - an opener
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
