import pytest
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


def test_damage_is_worth_another_try_and_nonsense_is_not() -> None:
    assert ChecksumError.retryable
    assert not ProtocolError.retryable
