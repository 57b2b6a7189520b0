import random
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from domo.errors import ChecksumError, ProtocolError
from domo_proto import codec
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES, VectorId, decode_frame, encode, encode_frame
from domo_proto.v1 import federation_pb2 as pb

VECTOR_FRAME = (
    b"DOM1"  # magic
    b"\x07\x00\x00\x00"  # UPDATE
    b"\x08\x00\x00\x00\x00\x00\x00\x00"  # offset 8
    b"\x08\x00\x00\x00"  # 8 bytes of payload
    b"\x00\x00\x00\x00"  # reserved
    b"\x8c\xe4\xf9\x6d\x55\x6e\xc4\x4e"  # xxh3-64 of the payload, seeded with that of the above
    b"\x00\x00\x80\x3f\x00\x00\x20\xc0"  # 1.0, -2.5
)
"""The test vector of docs/protocol.md."""


def test_the_test_vector() -> None:
    payload = memoryview(VECTOR_FRAME[32:])
    assert encode_frame(VectorId.UPDATE, 8, payload) == VECTOR_FRAME
    frame = decode_frame(VECTOR_FRAME)
    assert (frame.vector_id, frame.offset, bytes(frame.payload)) == (7, 8, bytes(payload))


def test_vector_ids_are_those_of_the_proto() -> None:
    in_proto = dict(pb.VectorId.items())
    assert in_proto.pop("VECTOR_UNSPECIFIED") == 0
    assert in_proto == {v.name: v.value for v in VectorId}


def test_a_frame_fits_into_a_message() -> None:
    assert HEAD_BYTES == 32
    assert FRAME_BYTES + HEAD_BYTES <= codec.MAX_MESSAGE_BYTES


@given(st.binary(max_size=200), st.integers(0, 60), st.integers(0, 210), st.integers(1, 50))
def test_vectors_come_back(data: bytes, vector_id: int, start: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "FRAME_BYTES", size)
        frames = [decode_frame(m) for m in encode(vector_id, memoryview(data), start)]
    assert b"".join(f.payload for f in frames) == data[start:]
    assert [f.offset for f in frames] == list(range(start, len(data), size))
    assert all(f.vector_id == vector_id and 0 < len(f.payload) <= size for f in frames)


def test_large_vectors_are_cut_into_frames() -> None:
    data = bytes(2 * FRAME_BYTES + 3)
    assert [len(m) - 32 for m in encode(1, memoryview(data))] == [FRAME_BYTES, FRAME_BYTES, 3]


@given(st.data())
def test_a_torn_frame_is_refused(data: st.DataObject) -> None:
    message = VECTOR_FRAME[: data.draw(st.integers(0, len(VECTOR_FRAME) - 1))]
    with pytest.raises(ChecksumError):
        decode_frame(message)


@given(st.binary(min_size=1, max_size=5))
def test_a_frame_with_something_behind_it_is_refused(more: bytes) -> None:
    with pytest.raises(ChecksumError, match="a frame says 8 bytes and holds"):
        decode_frame(VECTOR_FRAME + more)


@given(st.integers(0, 8 * len(VECTOR_FRAME) - 1))
def test_a_flipped_bit_is_noticed_wherever_it_is(bit: int) -> None:
    damaged = bytearray(VECTOR_FRAME)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ChecksumError):
        decode_frame(bytes(damaged))


def test_other_bytes_are_no_frame() -> None:
    with pytest.raises(ChecksumError, match=r"not a frame: it begins with b'DOM2'"):
        decode_frame(b"DOM2" + VECTOR_FRAME[4:])
    with pytest.raises(ChecksumError, match="at least 32 bytes, this one 0"):
        decode_frame(b"")


def test_an_oversized_frame_is_refused_although_it_is_consistent() -> None:
    message = encode_frame(7, 0, memoryview(bytes(FRAME_BYTES + 1)))
    with pytest.raises(ProtocolError, match="at most 524288 bytes, this one 524289"):
        decode_frame(message)


# compressed

ZEROS = memoryview(bytes(FRAME_BYTES))


def sealed(payload: bytes, flags: int, length: int | None = None) -> bytes:
    """A frame of a peer that means harm: intact, whatever is in it."""
    size = len(payload) if length is None else length
    fields = codec.FIELDS.pack(codec.MAGIC, 7, 8, size, flags)
    check = codec.CHECK.pack(codec._check(fields, memoryview(payload)))
    return fields + check + payload


def flags_of(message: bytes) -> int:
    return codec.FIELDS.unpack_from(message)[4]


@given(st.binary(min_size=1, max_size=300), st.integers(0, 60), st.integers(0, 300))
def test_compressed_frames_come_back(data: bytes, vector_id: int, times: int) -> None:
    whole = memoryview(data * (1 + times))
    message = encode_frame(vector_id, 8, whole, zstd=True)
    assert len(message) <= HEAD_BYTES + len(whole)
    frame = decode_frame(message)
    assert (frame.vector_id, frame.offset, bytes(frame.payload)) == (vector_id, 8, bytes(whole))


def test_a_full_frame_of_zeros_is_small() -> None:
    message = encode_frame(7, 8, ZEROS, zstd=True)
    assert flags_of(message) == codec.ZSTD
    assert len(message) < 100
    assert decode_frame(message).payload == ZEROS
    assert flags_of(encode_frame(7, 8, ZEROS)) == 0, "only where it is asked for"


@pytest.mark.parametrize("size", [1, 8, 1000, FRAME_BYTES])
def test_what_does_not_get_smaller_is_sent_plain(size: int) -> None:
    data = memoryview(random.Random(size).randbytes(size))
    assert encode_frame(7, 8, data, zstd=True) == encode_frame(7, 8, data)


@given(st.integers(0, 8 * len(encode_frame(7, 8, ZEROS, zstd=True)) - 1))
def test_a_flipped_bit_of_a_compressed_frame_is_noticed(bit: int) -> None:
    damaged = bytearray(encode_frame(7, 8, ZEROS, zstd=True))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ChecksumError):
        decode_frame(bytes(damaged))


def pack(data: bytes, **settings: bool) -> bytes:
    return zstandard.ZstdCompressor(level=1, **settings).compress(data)


SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
HOSTILE = {
    "a bomb": (pack(bytes(1 << 28)), "that says 268435456"),
    "one byte too many": (pack(bytes(FRAME_BYTES + 1)), "that says 524289"),
    "unknown size": (pack(bytes(100), write_content_size=False), "that says"),
    "nothing": (pack(b""), "that says 0"),
    "something behind it": (pack(bytes(100)) + b"x", "1 bytes of unused data"),
    "two frames": (pack(bytes(100)) * 2, "unused data"),
    "cut off": (pack(bytes(100))[:-1], "did not decompress full frame"),
    "no zstd": (bytes(100), "error determining content size|not what its flag says"),
    "empty": (b"", "not enough data"),
    "a skippable frame": (SKIPPED, "decompressed 0 bytes; expected 4"),
    "one before it": (SKIPPED + pack(bytes(100)), "decompressed 0 bytes; expected 4"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_intact_frame_that_is_packed_wrongly_is_refused(what: str) -> None:
    payload, text = HOSTILE[what]
    with pytest.raises(ProtocolError, match=text):
        decode_frame(sealed(payload, codec.ZSTD))


def test_a_frame_that_says_another_size_than_it_has_is_refused() -> None:
    packed = bytearray(pack(bytes(1000)))
    assert packed[4] & 0xE0 == 0x60, "its size is two bytes"
    for says in (999, 1001, 60_000):
        packed[5:7] = (says - 256).to_bytes(2, "little")
        with pytest.raises(ProtocolError, match="not what its flag says"):
            decode_frame(sealed(bytes(packed), codec.ZSTD))


def test_a_bomb_costs_no_memory() -> None:
    """Its size is read before anything is unpacked."""
    bomb = sealed(pack(bytes(1 << 28)), codec.ZSTD)
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode_frame(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@given(st.integers(2, 2**32 - 1))
def test_flags_of_a_later_version_are_refused(flags: int) -> None:
    with pytest.raises(ProtocolError, match="flags that are not known here"):
        decode_frame(sealed(bytes(8), flags))


@given(st.binary(max_size=200))
def test_nothing_that_a_peer_packs_is_more_than_a_frame(payload: bytes) -> None:
    try:
        frame = decode_frame(sealed(payload, codec.ZSTD))
    except ProtocolError:
        return
    assert 0 < len(frame.payload) <= FRAME_BYTES


def test_damage_is_worth_another_try_and_nonsense_is_not() -> None:
    assert ChecksumError.retryable
    assert not ProtocolError.retryable
