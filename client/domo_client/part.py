"""A vector that arrives: written as it comes, so that a download goes on after any interruption.

A part is named by the digest of the whole vector, so bytes of two vectors are never mixed.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from domo.errors import ChecksumError


class Part:
    """The beginning of a vector, in a file that outlives the process; a context manager.

    Args:
        path: What the vector will be called once it is whole.
    """

    def __init__(self, path: Path):
        self._whole, self._path = path, path.with_name(path.name + ".part")

    def __enter__(self) -> Self:
        self._file = self._path.open("a+b")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def begin(self, start: memoryview) -> None:
        """Read the beginning that is here into `start`; more than that is cut off.

        Raises:
            ChecksumError: Less is here.
        """
        self._file.seek(0)
        if self._file.readinto(start) != len(start):
            self._path.unlink()
            raise ChecksumError(f"{self._path} is shorter than it was; it is deleted")
        self._file.truncate(len(start))

    def append(self, payload: memoryview) -> None:
        """Keep the next bytes; they survive the death of this process.

        Raises:
            OSError: A full disk; what was kept before stays.
        """
        self._file.write(payload)
        self._file.flush()

    def finish(self, fits: bool) -> None:
        """The vector is whole if it fits its digest; otherwise it begins anew.

        Raises:
            ChecksumError: It does not fit.
        """
        if not fits:
            self._path.unlink()
            raise ChecksumError("a vector does not fit its digest; it is sent again")
        self._path.replace(self._whole)
