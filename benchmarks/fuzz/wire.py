"""Frames and headers: `domo_proto.codec`, by atheris where it is asked for, else by seed."""

import contextlib
import random
import sys
from typing import Any

from benchmarks.fuzz.wild import damaged, fill
from domo.errors import DomoError
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES, decode_frame, encode_frame, parse
from domo_proto.v1 import federation_pb2 as pb

MESSAGES = (pb.FetchRequest, pb.UpdateHeader, pb.RoundHeader)


def one(data: bytes) -> None:
    """Everything that reads the bytes of a data rpc; only a DomoError may come of it.

    A frame's checksum is what nearly all generated frames fail, so they are also given a right one.
    """
    for again in (data, _sealed(data)):
        try:
            frame = decode_frame(again)
            assert 0 <= len(frame.payload) <= FRAME_BYTES
        except DomoError:
            pass
    with contextlib.suppress(DomoError):
        parse(MESSAGES[data[0] % len(MESSAGES) if data else 0], data[1:])


def _sealed(data: bytes) -> bytes:
    """The bytes behind a head that is right: the vector, offset and flags are theirs."""
    padded = data.ljust(HEAD_BYTES, b"\0")
    offset = int.from_bytes(padded[1:9], "little")
    whole = bytearray(encode_frame(padded[0], offset, memoryview(data[10:])))
    whole[20] = padded[9] & 3
    return reseal(whole)


def reseal(whole: bytearray) -> bytes:
    """A frame with the checksum that its bytes have."""
    from domo_proto.codec import CHECK, FIELDS, _check

    fields = bytes(whole[: FIELDS.size])
    whole[FIELDS.size : HEAD_BYTES] = CHECK.pack(_check(fields, memoryview(whole)[HEAD_BYTES:]))
    return bytes(whole)


def seeds(rng: random.Random) -> list[bytes]:
    """Good ones to begin from."""
    frames = [encode_frame(1, 0, memoryview(b"abcd" * 64), zstd) for zstd in (False, True)]
    headers: list[Any] = [fill(rng, cls(), {}) for cls in MESSAGES]
    return frames + [bytes([i]) + h.SerializeToString() for i, h in enumerate(headers)]


def run(cases: int, seed: int) -> int:
    """So many cases of a plain generator; how many were made."""
    rng = random.Random(seed)
    good = seeds(rng)
    for _ in range(cases):
        one(damaged(rng, rng.choice(good)))
    return cases


def main() -> None:
    """`python -m benchmarks.fuzz.wire CORPUS -runs=N -seed=S`: atheris, guided by coverage."""
    import atheris

    atheris.instrument_func(one)
    for func in (decode_frame, parse):
        atheris.instrument_func(func)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
