"""Vectors to frames and back.

A frame is a 32-byte head and at most 512 KiB of raw little-endian values, or a shorter zstd frame
of them where both ends have agreed to that:

    offset  size  field
    0       4     magic, ASCII "DOM1"
    4       4     vector id, unsigned (VectorId of the proto)
    8       8     offset of the payload in the vector, bytes, unsigned
    16      4     length of the payload as it is sent, bytes, unsigned
    20      4     flags, unsigned: bit 0, the payload is a zstd frame; others 0
    24      8     xxh3-64 of the payload, unsigned; its seed is xxh3-64 of the 24 bytes before

All numbers are little-endian. docs/protocol.md has a test vector.
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import xxhash
import zstandard
from google.protobuf.message import DecodeError

from domo.errors import ChecksumError, ProtocolError
from domo_proto.texts import with_lines

FIELDS = struct.Struct("<4sIQII")
CHECK = struct.Struct("<Q")
HEAD_BYTES = FIELDS.size + CHECK.size
MAGIC = b"DOM1"
FRAME_BYTES = 1 << 19
"""Most payload bytes in one frame: what a lost connection can tear."""
MAX_MESSAGE_BYTES = 4 << 20
ZSTD = 1
"""Flag of a frame whose payload is compressed."""
ZSTD_LEVEL = 1
CAPABILITY = "zstd"
"""What an end that understands such frames says when a silo joins."""


class VectorId(IntEnum):
    """Names of the vectors that travel; the same numbers as in the proto."""

    X = 1
    X_PREV = 2
    MEAN_MOMENTUM = 3
    FLOAT_BUFFERS = 4
    INTEGER_BUFFERS = 5
    FROZEN = 6
    UPDATE = 7
    LOCAL_MOMENTUM = 8
    CONTROL = 9


MODEL = (VectorId.X, VectorId.FLOAT_BUFFERS, VectorId.INTEGER_BUFFERS)
"""What a model is, beside what never changes in a run."""


def model_digest(digests: Mapping[VectorId, str]) -> str:
    """Hex xxh3-128 of x_r with its buffers, from the digests of its vectors; for both ends."""
    text = "".join(f"{v.name}:{digests[v]};" for v in MODEL if v in digests)
    return xxhash.xxh3_128_hexdigest(text.encode())


class Frame(NamedTuple):
    """One decoded frame.

    Attributes:
        vector_id: Which vector.
        offset: Where the payload belongs in it, bytes.
        payload: The values, as they were before they were compressed.
    """

    vector_id: int
    offset: int
    payload: memoryview


def parse(cls: Any, message: bytes) -> Any:
    """The protobuf message of a data rpc.

    Raises:
        ProtocolError: It is none.
    """
    try:
        return with_lines(cls.FromString(message))
    except DecodeError as error:
        raise ProtocolError(f"the first message is no {cls.__name__}: {error}") from error


def encode_frame(vector_id: int, offset: int, payload: memoryview, zstd: bool = False) -> bytes:
    """One frame.

    Args:
        vector_id: Which vector.
        offset: Where the payload belongs in it, bytes.
        payload: At most `FRAME_BYTES`.
        zstd: Compress it, if that makes it smaller.
    """
    flags, sent = 0, payload
    if zstd:
        packed = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(payload)
        if len(packed) < len(payload):
            flags, sent = ZSTD, memoryview(packed)
    fields = FIELDS.pack(MAGIC, vector_id, offset, len(sent), flags)
    return b"".join((fields, CHECK.pack(_check(fields, sent)), sent))


def _check(fields: bytes | memoryview, payload: memoryview) -> int:
    return int(xxhash.xxh3_64_intdigest(payload, seed=xxhash.xxh3_64_intdigest(fields)))


def encode(vector_id: int, data: memoryview, start: int = 0) -> Iterator[bytes]:
    """The frames of a vector's bytes from `start` on."""
    for at in range(start, len(data), FRAME_BYTES):
        yield encode_frame(vector_id, at, data[at : at + FRAME_BYTES])


def decode_frame(message: bytes) -> Frame:
    """Check and take apart one frame.

    Raises:
        ChecksumError: Not a frame, or one that was damaged on the way; it is sent again.
        ProtocolError: An intact frame that is larger than any may be, or packed otherwise.
    """
    if len(message) < HEAD_BYTES:
        raise ChecksumError(f"a frame has at least {HEAD_BYTES} bytes, this one {len(message)}")
    whole = memoryview(message)
    magic, vector_id, offset, length, flags = FIELDS.unpack_from(message)
    payload = whole[HEAD_BYTES:]
    if magic != MAGIC:
        raise ChecksumError(f"not a frame: it begins with {message[:4]!r}")
    if length != len(payload):
        raise ChecksumError(f"a frame says {length} bytes and holds {len(payload)}")
    if _check(whole[: FIELDS.size], payload) != CHECK.unpack_from(message, FIELDS.size)[0]:
        raise ChecksumError(f"a frame at offset {offset} was damaged on the way")
    if length > FRAME_BYTES:
        raise ProtocolError(f"a frame has at most {FRAME_BYTES} bytes, this one {length}")
    if flags & ~ZSTD:
        raise ProtocolError(f"a frame has flags that are not known here: {flags:#x}")
    return Frame(vector_id, offset, _unpacked(payload) if flags & ZSTD else payload)


def _unpacked(payload: memoryview) -> memoryview:
    """What a peer has compressed; never more than a frame may hold, whatever it says."""
    try:
        size = zstandard.get_frame_parameters(payload).content_size
        if not 0 < size <= FRAME_BYTES:  # nothing is allocated before this; unknown is huge
            raise ProtocolError(
                f"a frame has 1 to {FRAME_BYTES} bytes; one is packed that says {size}"
            )
        unpack = zstandard.ZstdDecompressor().decompress
        return memoryview(unpack(payload, allow_extra_data=False))
    except zstandard.ZstdError as error:
        raise ProtocolError(f"a frame is not what its flag says, zstd: {error}") from error
