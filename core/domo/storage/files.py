"""Files: parts of them at an offset, what their bytes are named by, and what reaches the disk.

Every fsync of domo goes through `sync`, so a test can lose everything that was not synced, the
entries of folders too.
"""

import hashlib
import os
from pathlib import Path

import xxhash


def read_at(handle: int, at: int, view: memoryview) -> bool:
    """Fill a buffer from byte `at` on; False if the file ends before."""
    done = 0
    while done < len(view):
        got = os.preadv(handle, [view[done:]], at + done)
        if not got:
            return False
        done += got
    return True


def write_at(handle: int, at: int, data: memoryview) -> None:
    """Write all of it from byte `at` on.

    Raises:
        OSError: A full disk.
    """
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(handle, data[done:], at + done)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name_of(handle)) from None


def name_of(handle: int) -> str | None:
    """An open file's name, for an error's text; None: the system does not say."""
    try:
        return str(Path(f"/proc/self/fd/{handle}").readlink())
    except OSError:
        return None


def digest_of(path: Path) -> str:
    """Hex xxh3-128 of a file's bytes; empty where it cannot be read."""
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, xxhash.xxh3_128).hexdigest()
    except OSError:
        return ""


def sync(handle: int) -> None:
    """Make a file's bytes, or a folder's entries, survive the loss of power."""
    os.fsync(handle)


def sync_path(path: Path) -> None:
    """`sync` of a file or a folder by name."""
    handle = os.open(path, os.O_RDONLY)
    try:
        sync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, durably."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_path(path.parent)


def replace(temporary: Path, path: Path) -> None:
    """Give a synced file its name, durably."""
    temporary.replace(path)
    sync_path(path.parent)
