"""Files of the state folder, as all of them are written and read."""

import os
from collections.abc import Iterable
from pathlib import Path

import xxhash

from domo.storage import files
from domo.storage.files import write_at
from domo.storage.state_folder import private


def replace(path: Path, data: bytes | memoryview, durable: bool = False) -> None:
    """Write a small file anew; nobody ever sees half of it."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", opener=private) as f:
        f.write(data)
        if durable:
            f.flush()
            files.sync(f.fileno())
    temporary.replace(path)


def write_over(path: Path, pieces: Iterable[memoryview]) -> str:
    """Write a large file over an older one, in its blocks: new pages would cost three times more.

    Whatever names the file's content must be gone before, and come back after.

    Returns:
        Hex xxh3-128 of all its bytes.

    Raises:
        OSError: A full disk.
    """
    hasher, end = xxhash.xxh3_128(), 0
    os.close(private(str(path), os.O_WRONLY | os.O_CREAT))
    with path.open("r+b", buffering=0) as f:
        for data in pieces:
            hasher.update(data)
            write_at(f.fileno(), end, data)
            end += len(data)
        f.truncate(end)
    return hasher.hexdigest()
