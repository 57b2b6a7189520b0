"""What passes between a run and its silos, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from domo_proto.codec import VectorId
from domo_server.runs.wire_vector import WireVector


class Counted(NamedTuple):
    """The newest update of a silo that a closed round was summed with.

    Attributes:
        round_index: The round.
        digest: xxh3-128 of the whole update, hex.
    """

    round_index: int
    digest: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a silo is to do next; see RoundHeader in the proto."""

    action: Literal["train", "evaluate", "end"]
    round_index: int = 0
    attempt: int = 0
    num_steps: int = 0
    local_lr: float = 0.0
    inference_scale: float | None = None
    evaluate: bool = False
    vectors: Mapping[VectorId, WireVector] = field(default_factory=dict)
    outcome: str = ""
    text: str = ""
    remaining_s: float | None = None
    counted: Counted | None = None
