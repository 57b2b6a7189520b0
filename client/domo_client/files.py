"""Files of the state folder, as all of them are written and read."""

import hashlib
import os
from collections.abc import Iterable
from io import RawIOBase
from pathlib import Path

import xxhash


def replace(path: Path, data: bytes | memoryview, durable: bool = False) -> None:
    """Write a small file anew; nobody ever sees half of it."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as f:
        f.write(data)
        if durable:
            f.flush()
            os.fsync(f.fileno())
    temporary.replace(path)


def write_over(path: Path, pieces: Iterable[memoryview]) -> str:
    """Write a large file over an older one, in its blocks: new pages would cost three times more.

    Whatever names the file's content must be gone before, and come back after.

    Returns:
        Hex xxh3-128 of all its bytes.

    Raises:
        OSError: A full disk.
    """
    hasher = xxhash.xxh3_128()
    path.touch()
    with path.open("r+b", buffering=0) as f:
        for data in pieces:
            hasher.update(data)
            done = 0
            while done < len(data):
                done += f.write(data[done:])
        f.truncate()
    return hasher.hexdigest()


def digest_of(path: Path) -> str:
    """Hex xxh3-128 of a file's bytes; empty where it cannot be read."""
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, xxhash.xxh3_128).hexdigest()
    except OSError:
        return ""


def read_into(file: RawIOBase, view: memoryview) -> bool:
    """Fill a buffer; False if the file is too short."""
    done = 0
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            return False
        done += got
    return True
