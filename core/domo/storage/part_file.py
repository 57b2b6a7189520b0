"""A file that arrives in order, and knows after any death of the process how far it has come.

A small file beside it (`.held`) says how far: its length may be that of earlier bytes.
"""

import os
import struct
import weakref
from pathlib import Path

from domo.errors import ChecksumError
from domo.storage.files import read_at, write_at
from domo.storage.state_folder import private

MARK = struct.Struct("<Q")


def mark_path(path: Path) -> Path:
    """Where it says how far a part has come."""
    return path.with_name(path.name + ".held")


def held_bytes(path: Path) -> int:
    """Bytes of a part that are here; 0 where there is none."""
    try:
        (held,) = MARK.unpack(mark_path(path).read_bytes())
        return min(int(held), path.stat().st_size)
    except (OSError, struct.error):
        return 0


def forget(path: Path) -> None:
    """Delete a part."""
    path.unlink(missing_ok=True)
    mark_path(path).unlink(missing_ok=True)


class PartFile:
    """An open part.

    Args:
        path: Its name; it goes on where one of this name has come to.

    Raises:
        OSError: A full disk.
    """

    def __init__(self, path: Path):
        self.path = path
        if not path.exists() or not mark_path(path).exists():
            path.unlink(missing_ok=True)
            with open(mark_path(path), "wb", opener=private) as mark:
                mark.write(MARK.pack(0))
        self.position = held_bytes(path)
        self._file = private(str(path), os.O_RDWR | os.O_CREAT)
        self._mark = os.open(mark_path(path), os.O_WRONLY)
        self._closing = [weakref.finalize(self, os.close, f) for f in (self._file, self._mark)]

    def rewind(self, position: int) -> None:
        """Go on from an earlier position.

        Raises:
            ChecksumError: Less is here.
        """
        if position > self.position:
            raise ChecksumError(f"{self.path} has {self.position} bytes, not {position}")
        self._set(position)

    def read_into(self, at: int, buffer: memoryview) -> None:
        """Read back what is here from byte `at` on.

        Raises:
            ChecksumError: It is shorter than it was.
        """
        if not read_at(self._file, at, buffer):
            raise ChecksumError(f"{self.path} is shorter than it was")

    def append(self, payload: memoryview) -> None:
        """Keep the next bytes.

        Raises:
            OSError: A full disk; what was kept before stays.
        """
        write_at(self._file, self.position, payload)
        self._set(self.position + len(payload))

    def _set(self, position: int) -> None:
        os.pwrite(self._mark, MARK.pack(position), 0)
        self.position = position

    def cut(self) -> int:
        """Cut off what is behind the last byte; the handle, for a sync."""
        if os.fstat(self._file).st_size != self.position:
            os.ftruncate(self._file, self.position)
        return self._file

    def finish(self, whole: Path) -> None:
        """Give the part, which is whole, its name."""
        self.path.rename(whole)
        mark_path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close it; an unfinished part stays, to be continued."""
        for close in self._closing:
            close()
