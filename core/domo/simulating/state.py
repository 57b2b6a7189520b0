"""What a simulation holds between rounds, and its record of each round and model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from domo.model.flat import digest_all
from domo.model.layout import BUFFERS, Section
from domo.training.round_data import Kept

Computed = Literal["exact", "batched"]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A closed round: who took part with how many steps P_k, eta, mean training loss, alpha*h*P.

    `train_metrics` are weighted means of all that every silo of the round has logged; `weights` are
    each participant's omega_k and `silo_metrics` what it has logged.
    """

    participants: tuple[str, ...]
    steps: tuple[int, ...]
    local_lr: float
    train_loss: float
    inference_scale: float
    train_metrics: Mapping[str, float] = field(default_factory=dict)
    weights: tuple[float, ...] = ()
    silo_metrics: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """Server model x_i, its test over all silos' data, and the round that made it.

    `silos` has each silo's own numbers; `notes` says of the first ones which are not what their
    names say.
    """

    model_index: int
    metrics: Mapping[str, float]
    made_by: RoundRecord | None
    silos: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a coordinator holds between rounds; no silo ever sees `m`.

    Attributes:
        x: x_r, shape (n,).
        m: m_r, shape (n,), gradient units.
        buffers: Float and integer buffers.
        mbar: mbar_r, shape (n,); average rows only.
        x_prev: x_{r-1}; None in round 0.
        made_by: The round that made x_r; None in round 0.
        v: v_r of an adaptive server, shape (n,); None in round 0.
        c: c_r where the kernel `tells_control`, shape (n,); None in round 0.
    """

    x: Tensor
    m: Tensor
    buffers: dict[Section, Tensor]
    mbar: Tensor | None
    x_prev: Tensor | None = None
    made_by: RoundRecord | None = None
    v: Tensor | None = None
    c: Tensor | None = None

    @property
    def vectors(self) -> dict[str, Tensor]:
        """All that are there, by name."""
        named = {"x": self.x, "m": self.m, "v": self.v, "c": self.c, "mbar": self.mbar}
        named |= {"x_prev": self.x_prev, **{s.value: self.buffers[s] for s in BUFFERS}}
        return {name: vector for name, vector in named.items() if vector is not None}

    @property
    def digest(self) -> str:
        """What a coordinator records with the checkpoint, of all that is in it."""
        return digest_all(self.vectors)


@dataclass(frozen=True, slots=True)
class Held:
    """All that the rest of a run depends on, once a round is closed.

    Attributes:
        layout_digest: Of the model.
        state: What a coordinator holds.
        history: A record of each x_i that was tested.
        kept: What each silo has kept of its last round.
        best: The best model so far.
        mode: How silos were computed so far.
    """

    layout_digest: str
    state: ServerState
    history: tuple[ModelRecord, ...]
    kept: Mapping[str, Kept]
    best: ServerState | None
    mode: Computed = "exact"
