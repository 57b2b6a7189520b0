"""Uploads on disk: one file for each update, checked on the way in, read back block by block.

A part file is named by silo and digest, so bytes of two different updates are never spliced. It
becomes an update by a rename once the whole digest fits. Memory is one frame for each upload.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import xxhash
from torch import Tensor

from domo import disk
from domo.errors import ChecksumError, DivergenceError, ProtocolError
from domo.fold import ReadBlock
from domo_proto.codec import FRAME_BYTES, Frame

ANY_DIGEST = 32 * "[0-9a-f]"
"""As a glob pattern. Not `*`: silo names may have dots, and begin alike."""


@dataclass(frozen=True, slots=True)
class Part:
    """One vector of an upload.

    Attributes:
        vector_id: Which.
        num_bytes: Its size.
        is_float: float32 values, so they must be finite.
    """

    vector_id: int
    num_bytes: int
    is_float: bool


def part_path(folder: Path, silo_id: str, upload_digest: str) -> Path:
    """Where an unfinished upload lies."""
    return folder / f"{silo_id}.{upload_digest}.part"


def update_path(folder: Path, silo_id: str, upload_digest: str) -> Path:
    """Where an accepted update lies."""
    return folder / f"{silo_id}.{upload_digest}.update"


def held_bytes(folder: Path, silo_id: str, upload_digest: str) -> int:
    """Bytes of an unfinished upload that are already here: whole float32 values."""
    path = part_path(folder, silo_id, upload_digest)
    return path.stat().st_size // 4 * 4 if path.exists() else 0


def is_whole(path: Path, upload_digest: str) -> bool:
    """Whether an update's file is there with the bytes that were accepted."""
    try:
        with path.open("rb") as f:
            return hashlib.file_digest(f, xxhash.xxh3_128).hexdigest() == upload_digest
    except OSError:
        return False


class Upload:
    """An upload in progress; bytes arrive in order.

    Args:
        folder: Spool folder of the round.
        silo_id: Whose update.
        upload_digest: xxh3-128 of all its bytes, hex.
        parts: The vectors, in the order in which they follow.
        offset: Bytes that the silo believes are here.

    Raises:
        ChecksumError: `offset` is not what is here; the silo asks again.
    """

    def __init__(
        self, folder: Path, silo_id: str, upload_digest: str, parts: Sequence[Part], offset: int
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._silo_id, self.digest = folder, silo_id, upload_digest
        self._parts = list(parts)
        self._path = part_path(folder, silo_id, upload_digest)
        for other in folder.glob(f"{silo_id}.{ANY_DIGEST}.part"):
            if other != self._path:
                other.unlink()
        held = held_bytes(folder, silo_id, upload_digest)
        if offset > held or offset > self.num_bytes:
            raise ChecksumError(f"the upload continues at {offset}, but {held} bytes are here")
        self._hash = xxhash.xxh3_128()
        self._square = 0.0
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._fd, offset)
        self.position, self._offset = 0, offset

    def resume(self) -> None:
        """Read back what is here already, for the checks over the whole."""
        while self.position < self._offset:
            part, start = self._part_at(self.position)
            end = min(self._offset, start + part.num_bytes)
            size = min(FRAME_BYTES, end - self.position)
            self._absorb(part, os.pread(self._fd, size, self.position))

    @property
    def num_bytes(self) -> int:
        """Size of the whole upload."""
        return sum(p.num_bytes for p in self._parts)

    def _part_at(self, position: int) -> tuple[Part, int]:
        start = 0
        for part in self._parts:
            if position < start + part.num_bytes:
                return part, start
            start += part.num_bytes
        raise ProtocolError("more bytes than the upload's header says")

    def _absorb(self, part: Part, payload: Any) -> None:
        if part.is_float:
            values = torch.frombuffer(bytearray(payload), dtype=torch.float32)
            square = float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2
            if not math.isfinite(square):
                bad = int((~torch.isfinite(values)).sum())
                raise DivergenceError(f"the update has {bad} non-finite entries", bad)
            if part is self._parts[0]:
                self._square += square
        self._hash.update(payload)
        self.position += len(payload)

    def write(self, frame: Frame) -> None:
        """Check a frame and keep it.

        Raises:
            ProtocolError: Not the next bytes of the upload.
            DivergenceError: Non-finite values.
        """
        part, start = self._part_at(self.position)
        size = len(frame.payload)
        if not size:
            raise ProtocolError("an empty frame")
        if frame.vector_id != part.vector_id or frame.offset != self.position - start:
            raise ProtocolError("frames must follow in order and without gaps")
        if frame.offset + size > part.num_bytes or (part.is_float and size % 4):
            raise ProtocolError("a frame reaches past the end of its vector")
        at = self.position
        self._absorb(part, frame.payload)
        written = 0
        while written < size:
            written += os.pwrite(self._fd, frame.payload[written:], at + written)

    def finish(self, durable: bool = False) -> float:
        """Check the whole and make it an update.

        Returns:
            The norm of the first vector (d_k).

        Raises:
            ProtocolError: Bytes are missing.
            ChecksumError: The whole does not fit its digest; the part file is deleted.
            OSError: A full disk.
        """
        if self.position != self.num_bytes:
            raise ProtocolError(f"the upload ended after {self.position} of {self.num_bytes} bytes")
        if self._hash.hexdigest() != self.digest:
            self._path.unlink()
            raise ChecksumError("the upload does not fit its digest; send it again")
        if durable:
            disk.sync(self._fd)
        self._path.replace(update_path(self._folder, self._silo_id, self.digest))
        if durable:  # its name, and those of the round's folder and the spool
            for folder in (self._folder, *self._folder.parents[:2]):
                disk.sync_path(folder)
        return math.sqrt(self._square)

    def discard(self) -> None:
        """Forget the bytes: they can never become an update."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; an unfinished one stays, to be continued."""
        os.close(self._fd)


class SpooledUpdate:
    """An accepted update, read block by block without mapping the file.

    Args:
        path: Its file.
        vectors: (vector id, bytes) in file order.
    """

    def __init__(self, path: Path, vectors: Sequence[tuple[int, int]]):
        self._file = path.open("rb", buffering=0)
        self._start: dict[int, tuple[int, int]] = {}
        at = 0
        for vector_id, num_bytes in vectors:
            self._start[vector_id] = (at, num_bytes)
            at += num_bytes

    def reader(self, vector_id: int) -> ReadBlock:
        """Reads blocks of one float32 vector."""
        start, _ = self._start[vector_id]

        def read(lo: int, hi: int) -> Tensor:
            buffer = self._read(start + 4 * lo, 4 * (hi - lo))
            return torch.frombuffer(buffer, dtype=torch.float32)

        return read

    def whole(self, vector_id: int) -> Tensor:
        """All bytes of one vector, uint8."""
        start, num_bytes = self._start[vector_id]
        if not num_bytes:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(self._read(start, num_bytes), dtype=torch.uint8)

    def _read(self, at: int, size: int) -> bytearray:
        buffer = bytearray(size)
        view, done = memoryview(buffer), 0
        while done < size:
            got = os.preadv(self._file.fileno(), [view[done:]], at + done)
            if not got:
                raise ProtocolError(f"{self._file.name} is shorter than it was when accepted")
            done += got
        return buffer

    def close(self) -> None:
        """Close the file."""
        self._file.close()
