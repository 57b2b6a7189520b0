"""A vector that arrives: written as it comes, so that a download goes on after any interruption.

A part is named by the digest of the whole vector, so bytes of two vectors are never mixed.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from domo.errors import ChecksumError
from domo.storage import part_file


class Part:
    """The beginning of a vector, in a file that outlives the process; a context manager.

    Args:
        path: What the vector will be called once it is whole.
    """

    def __init__(self, path: Path):
        self._whole, self._path = path, path.with_name(path.name + ".part")

    def __enter__(self) -> Self:
        self._file = part_file.PartFile(self._path)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def begin(self, start: memoryview) -> None:
        """Read the beginning that is here into `start`; what is behind it is written anew.

        Raises:
            ChecksumError: Less is here, or it cannot be read.
        """
        try:
            self._file.rewind(len(start))
            self._read(start)
        except ChecksumError as error:
            part_file.forget(self._path)
            raise ChecksumError(f"{error}; it is deleted") from None

    def _read(self, start: memoryview) -> None:
        try:
            self._file.read_into(0, start)
        except OSError as error:  # a bad block; a part that stays would be offered again
            raise ChecksumError(f"cannot read {self._path}: {error.strerror}") from None

    def append(self, payload: memoryview) -> None:
        """Keep the next bytes; they survive the death of this process.

        Raises:
            OSError: A full disk; what was kept before stays.
        """
        self._file.append(payload)

    def finish(self, fits: bool) -> None:
        """The vector is whole if it fits its digest; otherwise it begins anew.

        Raises:
            ChecksumError: It does not fit.
        """
        if not fits:
            part_file.forget(self._path)
            raise ChecksumError("a vector does not fit its digest; it is sent again")
        self._file.cut()
        self._file.finish(self._whole)
