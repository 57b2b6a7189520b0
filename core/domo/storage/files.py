"""Parts of files at an offset, whole or not at all; and what a file's bytes are named by."""

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
    while done < len(data):
        done += os.pwrite(handle, data[done:], at + done)


def digest_of(path: Path) -> str:
    """Hex xxh3-128 of a file's bytes; empty where it cannot be read."""
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, xxhash.xxh3_128).hexdigest()
    except OSError:
        return ""
