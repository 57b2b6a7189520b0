"""Vectors to frames and back.

A frame is a 32-byte head and at most 1 MiB of raw little-endian values:

    offset  size  field
    0       4     magic, ASCII "DOM1"
    4       4     vector id, unsigned (VectorId of the proto)
    8       8     offset of the payload in the vector, bytes, unsigned
    16      4     length of the payload, bytes, unsigned
    20      4     reserved, 0
    24      8     xxh3-64 of the payload, unsigned

All numbers are little-endian. docs/protocol.md has a test vector.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import xxhash

from domo.errors import ChecksumError, ProtocolError

HEAD = struct.Struct("<4sIQIIQ")
MAGIC = b"DOM1"
FRAME_BYTES = 1 << 20
"""Most payload bytes in one frame."""
MAX_MESSAGE_BYTES = 4 << 20


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


class Frame(NamedTuple):
    """One decoded frame.

    Attributes:
        vector_id: Which vector.
        offset: Where the payload belongs in it, bytes.
        payload: The values.
    """

    vector_id: int
    offset: int
    payload: memoryview


def encode_frame(vector_id: int, offset: int, payload: memoryview) -> bytes:
    """One frame; `payload` is at most `FRAME_BYTES` long."""
    check = xxhash.xxh3_64_intdigest(payload)
    return b"".join((HEAD.pack(MAGIC, vector_id, offset, len(payload), 0, check), payload))


def encode(vector_id: int, data: memoryview, start: int = 0) -> Iterator[bytes]:
    """The frames of a vector's bytes from `start` on."""
    for at in range(start, len(data), FRAME_BYTES):
        yield encode_frame(vector_id, at, data[at : at + FRAME_BYTES])


def decode_frame(message: bytes) -> Frame:
    """Check and take apart one frame.

    Raises:
        ProtocolError: Not a frame, or its length field is wrong.
        ChecksumError: The payload was damaged.
    """
    if len(message) < HEAD.size:
        raise ProtocolError(f"a frame has at least {HEAD.size} bytes, this one {len(message)}")
    magic, vector_id, offset, length, reserved, check = HEAD.unpack_from(message)
    payload = memoryview(message)[HEAD.size :]
    if magic != MAGIC or reserved:
        raise ProtocolError(f"not a frame: it begins with {message[:4]!r}")
    if length != len(payload) or length > FRAME_BYTES:
        raise ProtocolError(f"a frame says {length} bytes and holds {len(payload)}")
    if xxhash.xxh3_64_intdigest(payload) != check:
        raise ChecksumError(f"a frame at offset {offset} was damaged on the way")
    return Frame(vector_id, offset, payload)
