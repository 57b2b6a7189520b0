import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from domo.model.flat import byte_view
from domo.model.tensor_file import Spec, TensorFile
from domo_proto import codec
from domo_proto.codec import FRAME_BYTES, VectorId, decode_frame
from domo_server.runs import wire_vector as outgoing
from domo_server.runs.wire_vector import WireVector

N = FRAME_BYTES // 4 * 3 + 5
VALUES = torch.arange(N, dtype=torch.float32) // 1000


@pytest.fixture
def make(tmp_path: Path) -> Callable[[bool], WireVector]:
    file = TensorFile.create(tmp_path / "x", [Spec("x", torch.float32, (N,))], {})
    file.write("x", 0, VALUES)
    return lambda shared: WireVector(file, "x", VectorId.X, bytes(16), shared)


async def fetched(wire: WireVector, zstd: bool, start: int = 0) -> list[bytes]:
    frames, at = [], start
    while at < wire.num_bytes:
        frame, at = await wire.frame(at, zstd)
        frames.append(frame)
    return frames


def whole(frames: list[bytes]) -> bytes:
    return b"".join(bytes(decode_frame(f).payload) for f in frames)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("start", [0, FRAME_BYTES, FRAME_BYTES + 4])
def test_plain_and_compressed_frames_hold_the_same(make, shared: bool, start: int) -> None:
    async def main() -> None:
        wire = make(shared)
        both = [await fetched(wire, zstd, start) for zstd in (False, True, False)]
        assert both[0] == both[2]
        for frames in both:
            assert whole(frames) == bytes(byte_view(VALUES))[start:]
        offsets = [[decode_frame(f).offset for f in frames] for frames in both]
        assert offsets[0] == offsets[1], "a transfer may go on in the other form"
        sizes = [sum(len(f) for f in frames) for frames in both]
        assert sizes[1] < sizes[0] / 2

    asyncio.run(main())


def test_a_shared_frame_is_compressed_once(make, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []

    def encode(vector_id: int, at: int, payload: memoryview, zstd: bool = False) -> bytes:
        if zstd:
            packed.append(at)
        return codec.encode_frame(vector_id, at, payload, zstd)

    monkeypatch.setattr(outgoing, "encode_frame", encode)

    async def main() -> None:
        wire = make(True)
        all_frames = await asyncio.gather(*(fetched(wire, True) for _ in range(5)))
        assert all(frames == all_frames[0] for frames in all_frames)

    asyncio.run(main())
    assert packed == [0, FRAME_BYTES, 2 * FRAME_BYTES, 3 * FRAME_BYTES]
