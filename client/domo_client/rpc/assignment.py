"""A turn as the coordinator hands it out; its header is checked before memory is taken for it."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from domo.errors import ProtocolError
from domo.model.layout import Layout, Section
from domo_client.state.residuals import Counted
from domo_proto.codec import VectorId
from domo_proto.v1 import federation_pb2 as pb

NAMES = {pb.ASK_AGAIN, pb.TRAIN, pb.EVALUATE, pb.END}
SECTIONS = {
    VectorId.X: Section.TRAINABLE,
    VectorId.X_PREV: Section.TRAINABLE,
    VectorId.MEAN_MOMENTUM: Section.TRAINABLE,
    VectorId.FLOAT_BUFFERS: Section.FLOAT_BUFFER,
    VectorId.INTEGER_BUFFERS: Section.INTEGER_BUFFER,
    VectorId.FROZEN: Section.FROZEN,
}
"""Vectors that come down, and what of the model each is as long as."""
DIGEST_BYTES = 16


class Turn(NamedTuple):
    """What to do next; vectors are CPU tensors, float32 or bytes (uint8)."""

    action: str
    round_index: int = 0
    num_rounds: int = 0
    num_steps: int = 0
    local_lr: float = 0.0
    inference_scale: float | None = None
    evaluate: bool = False
    vectors: Mapping[VectorId, Tensor] = {}
    digests: Mapping[VectorId, str] = {}
    outcome: str = ""
    text: str = ""
    counted: Counted | None = None


def sizes_of(layout: Layout) -> dict[int, int]:
    """Bytes of each vector that may come for a model, by vector id."""
    return {v: layout.num_bytes(section) for v, section in SECTIONS.items()}


def check_header(header: Any, sizes: Mapping[int, int]) -> None:
    """Compare what a RoundHeader announces with the model that the run was enrolled with.

    Args:
        header: The coordinator's.
        sizes: Of `sizes_of`.

    Raises:
        ProtocolError: Names the vector, and both numbers.
    """
    where = f"the coordinator's header of round {header.round_index + 1}"
    if header.action not in NAMES:
        raise ProtocolError(f"{where} asks for action {header.action}, which is not known here")
    told: set[int] = set()
    for info in header.vectors:
        if info.id not in sizes:
            raise ProtocolError(f"{where} has a vector of id {info.id}, which is not known here")
        name = VectorId(info.id).name
        if info.id in told:
            raise ProtocolError(f"{where} has {name} twice")
        if info.num_bytes != sizes[info.id]:
            raise ProtocolError(
                f"{where} says {info.num_bytes} bytes of {name}; the model has {sizes[info.id]}"
            )
        if info.offset > info.num_bytes:
            raise ProtocolError(f"{where} begins {name} at byte {info.offset} of {info.num_bytes}")
        if len(info.digest) != DIGEST_BYTES:
            raise ProtocolError(
                f"{where} has a digest of {len(info.digest)} bytes for {name}, not {DIGEST_BYTES}"
            )
        told.add(info.id)
    if header.action in (pb.TRAIN, pb.EVALUATE) and VectorId.X not in told:
        raise ProtocolError(f"{where} has no {VectorId.X.name}")
    if header.action == pb.TRAIN and not (header.num_steps and math.isfinite(header.local_lr)):
        raise ProtocolError(
            f"{where} asks for {header.num_steps} local steps with step size {header.local_lr}"
        )


def turn_of(header: Any, vectors: Mapping[VectorId, Tensor]) -> Turn:
    """The turn of a checked header, with its vectors."""
    counted = None
    if header.HasField("counted_round"):
        counted = Counted(header.counted_round, header.counted_digest.hex())
    return Turn(
        action=pb.Action.Name(header.action),
        round_index=header.round_index,
        num_rounds=header.num_rounds,
        num_steps=header.num_steps,
        local_lr=header.local_lr,
        inference_scale=header.inference_scale if header.HasField("inference_scale") else None,
        evaluate=header.evaluate,
        vectors=vectors,
        digests={VectorId(v.id): v.digest.hex() for v in header.vectors},
        outcome=header.outcome,
        text=header.outcome_text,
        counted=counted,
    )
