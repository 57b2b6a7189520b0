import os
from pathlib import Path

import numpy as np
import pytest
import torch
import xxhash

from domo.errors import ChecksumError, DivergenceError, ProtocolError, StateError
from domo.model.flat import byte_view
from domo.storage.part_file import MARK, mark_path
from domo_proto.codec import Frame, VectorId
from domo_server.store.spool import (
    Part,
    SpooledUpdate,
    Upload,
    held_bytes,
    part_path,
    update_path,
)

UPDATE, BUFFERS = 7, 5
VALUES = np.arange(1, 11, dtype="<f4")
WHOLE = VALUES.tobytes() + b"\x01\x02\x03"
DIGEST = xxhash.xxh3_128_hexdigest(WHOLE)
PARTS = [Part(UPDATE, 40, torch.float32), Part(BUFFERS, 3, None)]


def upload(folder: Path, offset: int = 0, digest: str = DIGEST, parts=PARTS) -> Upload:
    it = Upload(folder, "a", digest, parts, offset)
    it.resume()
    return it


def frame(vector_id: int, offset: int, payload: bytes) -> Frame:
    return Frame(vector_id, offset, memoryview(payload))


def frames(start: int = 0) -> list[Frame]:
    """The upload in frames of 8 bytes."""
    floats = [frame(UPDATE, at, WHOLE[at : min(at + 8, 40)]) for at in range(start, 40, 8)]
    return [*floats, frame(BUFFERS, max(start - 40, 0), WHOLE[max(start, 40) :])]


@pytest.mark.parametrize("durable", [False, True])
def test_frames_in_order_become_an_update(durable: bool, tmp_path: Path) -> None:
    folder = tmp_path / "spool" / "round-0"
    it = upload(folder)
    for f in frames():
        it.write(f)
    norm = it.finish(durable)
    it.close()
    assert norm == pytest.approx(385**0.5, rel=1e-12)
    assert [p.name for p in folder.iterdir()] == [f"a.{DIGEST}.update"]
    assert update_path(folder, "a", DIGEST).read_bytes() == WHOLE


def test_the_norm_is_of_the_first_vector(tmp_path: Path) -> None:
    data = np.array([3, 4, 100, 100], "<f4").tobytes()
    digest = xxhash.xxh3_128_hexdigest(data)
    it = upload(
        tmp_path, digest=digest, parts=[Part(UPDATE, 8, torch.float32), Part(8, 8, torch.float32)]
    )
    it.write(frame(UPDATE, 0, data[:8]))
    it.write(frame(8, 0, data[8:]))
    assert it.finish() == 5.0
    it.close()


@pytest.mark.parametrize(
    "wrong",
    [
        frame(UPDATE, 8, bytes(8)),  # a gap
        frame(BUFFERS, 0, b"\x01"),  # another vector
        frame(UPDATE, 0, bytes(44)),  # past its end
        frame(UPDATE, 0, bytes(7)),  # half a value
    ],
    ids=["gap", "vector", "end", "half"],
)
def test_frames_that_do_not_follow_are_refused(wrong: Frame, tmp_path: Path) -> None:
    it = upload(tmp_path)
    with pytest.raises(ProtocolError):
        it.write(wrong)
    assert it.position == 0
    it.close()


def test_a_frame_again_is_refused(tmp_path: Path) -> None:
    it = upload(tmp_path)
    it.write(frames()[0])
    with pytest.raises(ProtocolError, match="in order and without gaps"):
        it.write(frames()[0])
    it.close()


def test_more_than_the_header_says_is_refused(tmp_path: Path) -> None:
    it = upload(tmp_path)
    for f in frames():
        it.write(f)
    with pytest.raises(ProtocolError, match="more bytes than the upload's header says"):
        it.write(frame(BUFFERS, 3, b"\x04"))
    it.close()


def test_too_little_is_refused(tmp_path: Path) -> None:
    it = upload(tmp_path)
    it.write(frames()[0])
    with pytest.raises(ProtocolError, match="ended after 8 of 43 bytes"):
        it.finish()
    it.close()
    assert not list(tmp_path.glob("*.update"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    it = upload(tmp_path)
    with pytest.raises(DivergenceError, match="1 non-finite entries") as caught:
        it.write(frame(UPDATE, 0, np.array([1, value], "<f4").tobytes()))
    assert caught.value.count == 1
    it.discard()
    it.close()
    assert not list(tmp_path.iterdir())


def test_a_buffer_s_value_that_comes_back_need_not_be_finite(tmp_path: Path) -> None:
    before = np.array([-np.inf, np.nan, 1, 2, 3, 4], "<f4")
    parts = [Part(UPDATE, 8, torch.float32), Part(VectorId.FLOAT_BUFFERS, 24, torch.float32)]

    def send(*buffers: float) -> None:
        data = np.array([1, 2, *buffers], "<f4").tobytes()
        digest = xxhash.xxh3_128_hexdigest(data)
        held = torch.from_numpy(before)
        it = Upload(tmp_path, "a", digest, parts, 0, lambda lo, hi: held[lo:hi])
        try:
            it.write(frame(UPDATE, 0, data[:8]))
            for at in range(0, 24, 12):
                it.write(frame(VectorId.FLOAT_BUFFERS, at, data[8 + at : 20 + at]))
            it.finish()
        finally:
            it.close()

    send(*before)
    send(-np.inf, 7, 8, 9, 10, 11)
    with pytest.raises(DivergenceError, match="1 non-finite"):
        send(np.inf, np.nan, 1, 2, 3, 4)  # another infinity
    with pytest.raises(DivergenceError, match="2 non-finite"):
        send(-np.inf, np.nan, 1, -np.inf, np.nan, 4)  # in another place


def test_values_whose_square_overflows_float32_are_finite(tmp_path: Path) -> None:
    data = np.array([3e38, -3e38], "<f4").tobytes()
    it = upload(tmp_path, 0, xxhash.xxh3_128_hexdigest(data), [Part(UPDATE, 8, torch.float32)])
    it.write(frame(UPDATE, 0, data))
    assert it.finish() == pytest.approx(3e38 * 2**0.5, rel=1e-6)
    it.close()


def test_a_whole_that_does_not_fit_its_digest_is_deleted(tmp_path: Path) -> None:
    it = upload(tmp_path, digest="0" * 32)
    for f in frames():
        it.write(f)
    with pytest.raises(ChecksumError, match="does not fit its digest"):
        it.finish()
    it.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_an_upload_goes_on_where_it_stopped(stop: int, tmp_path: Path) -> None:
    it = upload(tmp_path)
    for f in frames()[:stop]:
        it.write(f)
    it.close()
    held = held_bytes(tmp_path, "a", DIGEST, PARTS)
    assert held == 8 * stop
    it = upload(tmp_path, held)
    for f in frames(held):
        it.write(f)
    norm = it.finish()
    it.close()
    assert norm == pytest.approx(385**0.5, rel=1e-12)
    assert update_path(tmp_path, "a", DIGEST).read_bytes() == WHOLE


def test_an_earlier_offset_drops_what_lies_behind_it(tmp_path: Path) -> None:
    it = upload(tmp_path)
    it.write(frames()[0])
    it.write(frame(UPDATE, 8, bytes(8)))  # zeros: not what the digest says
    it.close()
    it = upload(tmp_path, 8)
    for f in frames(8):
        it.write(f)
    it.finish()
    it.close()
    assert update_path(tmp_path, "a", DIGEST).read_bytes() == WHOLE


def test_a_torn_write_is_no_whole_value(tmp_path: Path) -> None:
    """A process that dies in mid-write may leave more than it had said."""
    it = upload(tmp_path)
    it.write(frames()[0])
    it.close()
    path = part_path(tmp_path, "a", DIGEST)
    with path.open("ab") as f:
        f.write(WHOLE[8:13])
    assert held_bytes(tmp_path, "a", DIGEST, PARTS) == 8
    mark_path(path).write_bytes(MARK.pack(13))
    held = held_bytes(tmp_path, "a", DIGEST, PARTS)
    assert held == 12
    it = upload(tmp_path, held)
    for f in frames(held):
        it.write(f)
    it.finish()
    it.close()
    assert update_path(tmp_path, "a", DIGEST).read_bytes() == WHOLE


def test_a_later_offset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChecksumError, match="continues at 8, but 0 bytes are here"):
        upload(tmp_path, 8)


def test_bytes_of_two_updates_are_never_spliced(tmp_path: Path) -> None:
    it = upload(tmp_path)
    it.write(frames()[0])
    it.close()
    other = upload(tmp_path, digest="1" * 32)
    other.close()
    assert held_bytes(tmp_path, "a", DIGEST, PARTS) == 0
    assert held_bytes(tmp_path, "a", "1" * 32, PARTS) == 0
    assert not part_path(tmp_path, "a", DIGEST).exists()


def test_names_that_begin_alike_keep_their_parts(tmp_path: Path) -> None:
    """`a` and `a.b` are two silos."""
    first = Upload(tmp_path, "a.b", DIGEST, PARTS, 0)
    first.write(frames()[0])
    first.close()
    upload(tmp_path).close()
    assert held_bytes(tmp_path, "a.b", DIGEST, PARTS) == 8


def test_a_spooled_update_is_read_by_vector_and_block(tmp_path: Path) -> None:
    path = tmp_path / "x.update"
    path.write_bytes(WHOLE)
    spooled = SpooledUpdate(path, [(UPDATE, 40), (BUFFERS, 3)])
    read = spooled.reader(UPDATE)
    assert torch.equal(read(0, 10), torch.from_numpy(VALUES.copy()))
    assert torch.equal(read(3, 5), torch.tensor([4.0, 5.0]))
    assert spooled.whole(BUFFERS).tolist() == [1, 2, 3]
    os.truncate(path, 20)
    with pytest.raises(StateError, match="shorter than it was when accepted"):
        read(0, 10)
    spooled.close()


# updates of 16 bits

SIXTEEN = [("bfloat16", torch.bfloat16), ("float16", torch.float16)]
MOMENTUM, FLOATS = 8, 4


@pytest.mark.parametrize(("update_dtype", "dtype"), SIXTEEN)
def test_updates_of_16_bits_are_checked_and_read_as_float32(
    update_dtype, dtype: torch.dtype, tmp_path: Path
) -> None:
    q = (torch.randn(4001) * 3).to(dtype)
    m, floats = torch.randn(4001).to(dtype), torch.randn(3)
    pieces = [(UPDATE, q), (MOMENTUM, m), (FLOATS, floats)]
    whole = {v: bytes(byte_view(t)) for v, t in pieces}
    parts = [Part(v, len(whole[v]), t.dtype) for v, t in pieces]
    digest = xxhash.xxh3_128_hexdigest(b"".join(whole.values()))
    it = upload(tmp_path, 0, digest, parts)
    for vector_id, data in whole.items():
        for at in range(0, len(data), 1234):
            it.write(frame(vector_id, at, data[at : at + 1234]))
    assert it.finish() == pytest.approx(float(q.double().norm()), rel=1e-6)
    it.close()
    path = update_path(tmp_path, "a", digest)
    spooled = SpooledUpdate(path, [(p.vector_id, p.num_bytes) for p in parts], update_dtype)
    for vector_id, t in pieces:
        read = spooled.reader(vector_id)
        assert read(0, len(t)).dtype == torch.float32
        assert torch.equal(read(0, len(t)), t.float())
        assert torch.equal(read(1, 3), t[1:3].float())
    spooled.close()


@pytest.mark.parametrize("dtype", [d for _, d in SIXTEEN])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_of_16_bits_that_are_not_finite_are_refused(
    value: float, dtype: torch.dtype, tmp_path: Path
) -> None:
    q = torch.tensor([1.0, value, 2.0, value]).to(dtype)
    it = upload(tmp_path, parts=[Part(UPDATE, 8, dtype)])
    with pytest.raises(DivergenceError, match="2 non-finite entries"):
        it.write(frame(UPDATE, 0, bytes(byte_view(q))))
    it.close()


def test_bfloat16_whose_square_overflows_is_finite(tmp_path: Path) -> None:
    q = torch.tensor([3e38, -3e38]).bfloat16()
    data = bytes(byte_view(q))
    parts = [Part(UPDATE, 4, torch.bfloat16)]
    it = upload(tmp_path, 0, xxhash.xxh3_128_hexdigest(data), parts)
    it.write(frame(UPDATE, 0, data))
    assert it.finish() == pytest.approx(float(q.double().norm()), rel=1e-6)
    it.close()


def test_half_a_value_of_16_bits_is_refused(tmp_path: Path) -> None:
    it = upload(tmp_path, parts=[Part(UPDATE, 8, torch.bfloat16)])
    it.write(frame(UPDATE, 0, bytes(2)))
    with pytest.raises(ProtocolError, match="past the end of its vector"):
        it.write(frame(UPDATE, 2, bytes(3)))
    it.close()


@pytest.mark.parametrize(
    ("torn", "whole"),
    [(1, 0), (2, 2), (5, 4), (6, 6), (7, 6), (9, 6), (10, 10), (13, 10), (15, 15)],
)
def test_what_is_held_are_whole_values_of_each_vector(
    torn: int, whole: int, tmp_path: Path
) -> None:
    """Three values of 16 bits, two of 32, and a byte: the second vector begins at 6."""
    parts = [
        Part(UPDATE, 6, torch.bfloat16),
        Part(FLOATS, 8, torch.float32),
        Part(BUFFERS, 1, None),
    ]
    it = upload(tmp_path, parts=parts)
    it.close()
    path = part_path(tmp_path, "a", DIGEST)
    path.write_bytes(bytes(torn))
    mark_path(path).write_bytes(MARK.pack(torn))
    assert held_bytes(tmp_path, "a", DIGEST, parts) == whole
    it = upload(tmp_path, whole, parts=parts)
    assert it.position == whole
    it.close()
