"""Uploads on disk: one file for each update, checked on the way in, read back block by block.

A part file is named by silo and digest, so bytes of two different updates are never spliced. It
becomes an update by a rename once the whole digest fits. Memory is one frame for each upload; one
of 16 bits is also turned into float32, frame by frame, to be checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor

from domo.errors import ChecksumError, DivergenceError, ProtocolError, StateError
from domo.fold import ReadBlock, dot
from domo.model.flat import byte_view
from domo.run_config import UpdateDtype
from domo.storage import files, part_file
from domo.storage.files import digest_of, read_at
from domo.update_format import decode, torch_dtype
from domo_proto.codec import FRAME_BYTES, Frame, VectorId

ANY_DIGEST = 32 * "[0-9a-f]"
"""As a glob pattern. Not `*`: silo names may have dots, and begin alike."""
ROUNDED = (VectorId.UPDATE, VectorId.LOCAL_MOMENTUM)
"""Vectors that travel as the run's `update_dtype` says; other floats are float32."""


@dataclass(frozen=True, slots=True)
class Part:
    """One vector of an upload.

    Attributes:
        vector_id: Which.
        num_bytes: Its size.
        dtype: Of its values, which must be finite; None: bytes that mean nothing here.
    """

    vector_id: int
    num_bytes: int
    dtype: torch.dtype | None

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return 1 if self.dtype is None else self.dtype.itemsize


def part_path(folder: Path, silo_id: str, upload_digest: str) -> Path:
    """Where an unfinished upload lies."""
    return folder / f"{silo_id}.{upload_digest}.part"


def update_path(folder: Path, silo_id: str, upload_digest: str) -> Path:
    """Where an accepted update lies."""
    return folder / f"{silo_id}.{upload_digest}.update"


def held_bytes(folder: Path, silo_id: str, upload_digest: str, parts: Sequence[Part]) -> int:
    """Bytes of an unfinished upload that are already here: whole values of its vectors."""
    held, start = part_file.held_bytes(part_path(folder, silo_id, upload_digest)), 0
    for part in parts:
        if held < start + part.num_bytes:
            return held - (held - start) % part.itemsize
        start += part.num_bytes
    return held


def forget_others(folder: Path, silo_id: str, upload_digest: str) -> None:
    """Delete a silo's updates but one: it was accepted in place of refused ones."""
    kept = update_path(folder, silo_id, upload_digest)
    for other in folder.glob(f"{silo_id}.{ANY_DIGEST}.update"):
        if other != kept:
            other.unlink(missing_ok=True)


def is_whole(path: Path, upload_digest: str) -> bool:
    """Whether an update's file is there with the bytes that were accepted."""
    return digest_of(path) == upload_digest


class Upload:
    """An upload in progress; bytes arrive in order.

    Args:
        folder: Spool folder of the round.
        silo_id: Whose update.
        upload_digest: xxh3-128 of all its bytes, hex.
        parts: The vectors, in the order in which they follow.
        offset: Bytes that the silo believes are here.
        floats: The float buffers of the model in hand; a value of them that comes back as it is,
            such as a mask of -inf, need not be finite.

    Raises:
        ChecksumError: `offset` is not what is here; the silo asks again.
    """

    def __init__(
        self,
        folder: Path,
        silo_id: str,
        upload_digest: str,
        parts: Sequence[Part],
        offset: int,
        floats: ReadBlock | None = None,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._silo_id, self.digest = folder, silo_id, upload_digest
        self._parts, self._floats = list(parts), floats
        path = part_path(folder, silo_id, upload_digest)
        for other in folder.glob(f"{silo_id}.{ANY_DIGEST}.part"):
            if other != path:
                part_file.forget(other)
        held = held_bytes(folder, silo_id, upload_digest, self._parts)
        if offset > held or offset > self.num_bytes:
            raise ChecksumError(f"the upload continues at {offset}, but {held} bytes are here")
        self._hash = xxhash.xxh3_128()
        self._squares = [0.0] * len(parts)
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._file = part_file.PartFile(path)
        self._file.rewind(offset)
        self.position = 0

    def resume(self) -> None:
        """Read back what is here already, for the checks over the whole."""
        offset = self._file.position
        while self.position < offset:
            part, start = self._part_at(self.position)
            end = min(offset, start + part.num_bytes)
            buffer = bytearray(min(FRAME_BYTES, end - self.position))
            self._file.read_into(self.position, memoryview(buffer))
            self._absorb(part, buffer)

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
        if part.dtype is not None:
            values = self._values(part.dtype, payload)
            square = dot(values, values)
            if not math.isfinite(square) and (bad := self._num_bad(part, values)):
                raise DivergenceError(f"the update has {bad} non-finite entries", bad)
            self._squares[self._parts.index(part)] += square
        self._hash.update(payload)
        self.position += len(payload)

    def _num_bad(self, part: Part, values: Any) -> int:
        """How many of the next values of a vector are not finite, and were finite or others."""
        bad = ~np.isfinite(values)
        if part.vector_id == VectorId.FLOAT_BUFFERS and self._floats is not None:
            lo = (self.position - self._part_at(self.position)[1]) // part.itemsize
            before = self._floats(lo, lo + values.size).numpy()
            bad &= before.view(np.uint32) != values.view(np.uint32)
        return int(np.count_nonzero(bad))

    def _values(self, dtype: torch.dtype, payload: Any) -> Any:
        """The values of a payload as float32; those of 16 bits from a copy that torch may read."""
        if dtype == torch.float32:
            return np.frombuffer(payload, dtype=np.float32)
        if len(self._scratch) < len(payload):
            self._scratch = torch.empty(len(payload), dtype=torch.uint8)
        here = self._scratch[: len(payload)]
        byte_view(here)[:] = payload
        return decode(here.view(dtype)).numpy()

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
        if frame.offset + size > part.num_bytes or size % part.itemsize:
            raise ProtocolError("a frame reaches past the end of its vector")
        self._absorb(part, frame.payload)
        self._file.append(frame.payload)

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
            self.discard()
            raise ChecksumError("the upload does not fit its digest; send it again")
        handle = self._file.cut()
        if durable:
            files.sync(handle)
        self._file.finish(update_path(self._folder, self._silo_id, self.digest))
        if durable:  # its name, and those of the round's folder and the spool
            for folder in (self._folder, *self._folder.parents[:2]):
                files.sync_path(folder)
        return math.sqrt(self._squares[0])

    def norm_of(self, vector_id: int) -> float:
        """The norm of a vector of floats; 0 where the upload has none."""
        found = zip(self._parts, self._squares, strict=True)
        return math.sqrt(sum(square for part, square in found if part.vector_id == vector_id))

    def refuse(self) -> None:
        """Forget an update that is whole, and is not taken."""
        update_path(self._folder, self._silo_id, self.digest).unlink(missing_ok=True)

    def discard(self) -> None:
        """Forget the bytes: they can never become an update."""
        part_file.forget(self._file.path)

    def close(self) -> None:
        """Close the file; an unfinished one stays, to be continued."""
        self._file.close()


class SpooledUpdate:
    """An accepted update, read block by block without mapping the file.

    Args:
        path: Its file.
        vectors: (vector id, bytes) in file order.
        update_dtype: How d_k and m_{k,P} travelled.
    """

    def __init__(
        self,
        path: Path,
        vectors: Sequence[tuple[int, int]],
        update_dtype: UpdateDtype = "float32",
    ):
        self._file = path.open("rb", buffering=0)
        self._dtypes: dict[int, torch.dtype] = dict.fromkeys(ROUNDED, torch_dtype(update_dtype))
        self._start: dict[int, tuple[int, int]] = {}
        at = 0
        for vector_id, num_bytes in vectors:
            self._start[vector_id] = (at, num_bytes)
            at += num_bytes

    def reader(self, vector_id: int) -> ReadBlock:
        """Reads blocks of one vector as float32."""
        start, _ = self._start[vector_id]
        dtype = self._dtypes.get(vector_id, torch.float32)

        def read(lo: int, hi: int) -> Tensor:
            block = torch.empty(hi - lo, dtype=dtype)
            self._read(start + dtype.itemsize * lo, byte_view(block))
            return decode(block)

        return read

    def whole(self, vector_id: int) -> Tensor:
        """All bytes of one vector, uint8."""
        start, num_bytes = self._start[vector_id]
        vector = torch.empty(num_bytes, dtype=torch.uint8)
        self._read(start, byte_view(vector))
        return vector

    def _read(self, at: int, view: memoryview) -> None:
        if not read_at(self._file.fileno(), at, view):
            raise StateError(f"{self._file.name} is shorter than it was when accepted")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
