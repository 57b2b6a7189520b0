"""What a silo is to do next: one value at both ends, a RoundHeader between them.

The silo believes nothing of a header unchecked: it is compared with the model that the run was
enrolled with before memory is taken for its vectors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from domo.errors import ProtocolError
from domo.model.layout import Layout, Section
from domo.names import one_line
from domo_proto.codec import VectorId
from domo_proto.v1 import federation_pb2 as pb

SECTIONS = {
    VectorId.X: Section.TRAINABLE,
    VectorId.X_PREV: Section.TRAINABLE,
    VectorId.MEAN_MOMENTUM: Section.TRAINABLE,
    VectorId.CONTROL: Section.TRAINABLE,
    VectorId.FLOAT_BUFFERS: Section.FLOAT_BUFFER,
    VectorId.INTEGER_BUFFERS: Section.INTEGER_BUFFER,
    VectorId.FROZEN: Section.FROZEN,
}
"""Vectors that come down, and what of the model each is as long as."""
DIGEST_BYTES = 16
KNOWN = {pb.ASK_AGAIN, pb.TRAIN, pb.EVALUATE, pb.END}


class Action(StrEnum):
    """What to do; the names are those of the wire."""

    ASK_AGAIN = "ASK_AGAIN"
    TRAIN = "TRAIN"
    EVALUATE = "EVALUATE"
    END = "END"


class Counted(NamedTuple):
    """An update of a silo that a closed round was summed with.

    Attributes:
        round_index: The round.
        digest: xxh3-128 of all the update's bytes, hex.
    """

    round_index: int
    digest: str


class Named(Protocol):
    """A vector, as a header names it."""

    @property
    def num_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def digest(self) -> bytes:
        """xxh3-128 of its bytes."""
        ...


class Announced(NamedTuple):
    """A vector, as a silo is told of it.

    Attributes:
        num_bytes: Its size.
        digest: xxh3-128 of its bytes.
        sent: Whether it follows as frames; otherwise the silo holds it.
        offset: Where the frames begin; the silo holds what is before.
    """

    num_bytes: int
    digest: bytes
    sent: bool = False
    offset: int = 0


V = TypeVar("V", bound=Named)


@dataclass(frozen=True, slots=True)
class Assignment(Generic[V]):
    """What a silo is to do next.

    Attributes:
        action: What.
        run_id: The run.
        round_index: r; the model is x_r.
        num_rounds: R.
        num_steps: P of this silo, in TRAIN.
        local_lr: eta_r.
        inference_scale: alpha*h*P_ref of the round that made x_r; None in round 0.
        evaluate: Whether x_r is to be tested.
        vectors: Those that it needs, by id.
        outcome: How the run ended, in END.
        text: Why, in words; in ASK_AGAIN what the run waits for.
        counted: In TRAIN, the newest update of this silo that counts.
    """

    action: Action
    run_id: str = ""
    round_index: int = 0
    num_rounds: int = 0
    num_steps: int = 0
    local_lr: float = 0.0
    inference_scale: float | None = None
    evaluate: bool = False
    vectors: Mapping[VectorId, V] = field(default_factory=dict)
    outcome: str = ""
    text: str = ""
    counted: Counted | None = None

    @property
    def digests(self) -> dict[VectorId, str]:
        """Of the vectors, hex."""
        return {vector_id: vector.digest.hex() for vector_id, vector in self.vectors.items()}

    def header(self, starts: Mapping[VectorId, int] | None = None) -> Any:
        """The RoundHeader that says it.

        Args:
            starts: Of the vectors that follow as frames, where these begin.
        """
        starts = starts or {}
        told = pb.RoundHeader(
            action=self.action.value,
            run_id=self.run_id,
            round_index=self.round_index,
            num_rounds=self.num_rounds,
            num_steps=self.num_steps,
            local_lr=self.local_lr,
            inference_scale=self.inference_scale,
            evaluate=self.evaluate,
            outcome=self.outcome,
            outcome_text=one_line(self.text),
            vectors=[
                pb.VectorInfo(
                    id=vector_id.value,  # type: ignore[arg-type]
                    num_bytes=vector.num_bytes,
                    digest=vector.digest,
                    sent=vector_id in starts,
                    offset=starts.get(vector_id, 0),
                )
                for vector_id, vector in self.vectors.items()
            ],
        )
        if self.counted is not None:
            told.counted_round = self.counted.round_index
            told.counted_digest = bytes.fromhex(self.counted.digest)
        return told


def sizes_of(layout: Layout) -> dict[int, int]:
    """Bytes of each vector that may come for a model, by vector id."""
    return {v: layout.num_bytes(section) for v, section in SECTIONS.items()}


def read_header(header: Any, sizes: Mapping[int, int]) -> Assignment[Announced]:
    """The assignment that a RoundHeader says, once it fits the model.

    Args:
        header: The coordinator's.
        sizes: Of `sizes_of`.

    Raises:
        ProtocolError: Names the vector, and both numbers.
    """
    _check(header, sizes)
    counted = None
    if header.HasField("counted_round"):
        counted = Counted(header.counted_round, header.counted_digest.hex())
    return Assignment(
        action=Action(pb.Action.Name(header.action)),
        run_id=header.run_id,
        round_index=header.round_index,
        num_rounds=header.num_rounds,
        num_steps=header.num_steps,
        local_lr=header.local_lr,
        inference_scale=header.inference_scale if header.HasField("inference_scale") else None,
        evaluate=header.evaluate,
        vectors={
            VectorId(v.id): Announced(v.num_bytes, v.digest, v.sent, v.offset)
            for v in header.vectors
        },
        outcome=header.outcome,
        text=header.outcome_text,
        counted=counted,
    )


def _check(header: Any, sizes: Mapping[int, int]) -> None:
    where = f"the coordinator's header of round {header.round_index + 1}"
    if header.action not in KNOWN:
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
    if header.action == pb.TRAIN and not (header.num_steps and 0 < header.local_lr < math.inf):
        raise ProtocolError(
            f"{where} asks for {header.num_steps} local steps with step size {header.local_lr}"
        )
    scale = header.inference_scale
    if header.HasField("inference_scale") and not 0 < scale < math.inf:
        raise ProtocolError(f"{where} has an inference scale of {scale}")
    if header.HasField("counted_round") and len(header.counted_digest) != DIGEST_BYTES:
        raise ProtocolError(
            f"{where} has a digest of {len(header.counted_digest)} bytes for the update that "
            f"counts, not {DIGEST_BYTES}"
        )
