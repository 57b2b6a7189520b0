"""Vectors on their way to silos: read from their file, framed and compressed once for all silos."""

import asyncio
import errno
import os
from contextlib import nullcontext

from domo.model.layout import Section
from domo.model.tensor_file import TensorFile
from domo_proto.codec import FRAME_BYTES, VectorId, encode_frame

BUFFER_IDS = {
    Section.FLOAT_BUFFER: VectorId.FLOAT_BUFFERS,
    Section.INTEGER_BUFFER: VectorId.INTEGER_BUFFERS,
}
"""What buffers are called on the wire."""
NOWAIT = getattr(os, "RWF_NOWAIT", 0)
"""Read only what is in memory."""
ELSEWHERE = (errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors that say: not so, not at once."""


class WireVector:
    """A vector that silos may fetch. Used from the event loop only.

    Args:
        file: Where it lies.
        name: Its name there.
        vector_id: What it is called on the wire.
        digest: xxh3-128 of its bytes.
        shared: Whether all silos fetch it at about the same time, so that its frames are kept for
            the next one: one copy of the vector in memory, however many silos there are, and one
            compressed where any of them asks for that.
    """

    def __init__(
        self, file: TensorFile, name: str, vector_id: VectorId, digest: bytes, shared: bool
    ):
        self.num_bytes, self.digest = file.num_bytes(name), digest
        self._file, self._name, self._id = file, name, vector_id
        self._frames: dict[tuple[int, bool], bytes] | None = {} if shared else None
        self._packing = asyncio.Lock()
        self._scratch = bytearray(min(FRAME_BYTES, self.num_bytes))

    async def frame(self, at: int, zstd: bool = False) -> tuple[bytes, int]:
        """The frame that begins at byte `at`, and where the next one does.

        Args:
            at: Its offset in the vector.
            zstd: Whether the silo takes it compressed.

        Raises:
            StateError: The file has become shorter.
        """
        end = min((at // FRAME_BYTES + 1) * FRAME_BYTES, self.num_bytes)
        if self._frames is None or at % FRAME_BYTES:
            return await self._make(at, end, zstd), end
        key = (at, zstd)
        if key not in self._frames:
            async with self._packing if zstd else nullcontext():
                if key not in self._frames:  # another silo may have asked for it meanwhile
                    self._frames[key] = await self._make(at, end, zstd)
        return self._frames[key], end

    async def _make(self, at: int, end: int, zstd: bool) -> bytes:
        return await (asyncio.to_thread(self._pack, at, end) if zstd else self._read(at, end))

    def _pack(self, at: int, end: int) -> bytes:
        buffer = memoryview(bytearray(end - at))
        self._file.read_into(self._name, at, buffer)
        return encode_frame(self._id, at, buffer, zstd=True)

    async def _read(self, at: int, end: int) -> bytes:
        buffer = memoryview(self._scratch)[: end - at]
        try:
            whole = self._file.read_into(self._name, at, buffer, NOWAIT) == len(buffer)
        except OSError as error:
            if error.errno not in ELSEWHERE:
                raise
            whole = False
        if not whole:  # it is on the disk only: nobody else waits for that
            buffer = memoryview(bytearray(end - at))
            await asyncio.to_thread(self._file.read_into, self._name, at, buffer)
        return encode_frame(self._id, at, buffer)
