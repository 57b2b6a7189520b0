"""The numbers of a run that do not change from round to round."""

import math
from dataclasses import dataclass
from typing import Any, get_args

from domo.errors import ConfigError
from domo.methods.rows import RoundEnd, StepNorm

CONSTANTS = (
    "server_momentum",
    "local_momentum",
    "fusion_coef",
    "server_lr",
    "adaptive_lr",
    "adaptive_beta2",
    "adaptive_tau",
)
"""Of the hyperparameters, those that not every method has."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The numbers of a run that do not change from round to round. Defaults are the paper's best.

    Attributes:
        server_momentum: mu_s, in [0, 1).
        local_momentum: mu_l, in [0, 1).
        fusion_coef: beta, >= 0.
        server_lr: alpha, > 0.
        weight_decay: L2 coefficient inside the gradient, >= 0.
        step_norm: How unequal P_k are averaged: `per_silo` as printed (D = mean of d_k), or
            `delta` (D = sum omega_k P_k d_k / sum omega_k P_k, classical FedAvg), or `nova`: d_k
            is over the weight that all gradients of a round have in it, in place of P_k (FedNova).
        prox: rho, >= 0: how strongly a silo is held near the model that it began with; None: what
            the method has by default, which is 0 but for FedProx.
        adaptive_lr: Step of each coordinate in a round, in units of the parameters, > 0, of methods
            whose server is adaptive; they have no alpha.
        adaptive_beta2: Of their second moment, in [0, 1).
        adaptive_tau: Added to its root, > 0, in units of the parameters.
        local_lr: eta_0, the local step size before decay, > 0: the step of an adaptive server and
            of FedDyn's falls with it; None: it does not fall.
        local_optimizer: What takes the local steps: `SGD`, which is the paper's, or the name of
            another class of `torch.optim`.
        local_optimizer_args: Its own arguments, in order of their names.
        local_state: What becomes of its state when a round ends; None: what the method says.
        clip_norm: The largest norm of a gradient, > 0; None: any.
    """

    server_momentum: float = 0.9
    local_momentum: float = 0.6
    fusion_coef: float = 0.9
    server_lr: float = 1.0
    weight_decay: float = 0.0
    step_norm: StepNorm = "per_silo"
    prox: float | None = None
    adaptive_lr: float = 0.06
    adaptive_beta2: float = 0.99
    adaptive_tau: float = 1e-3
    local_lr: float | None = None
    local_optimizer: str = "SGD"
    local_optimizer_args: tuple[tuple[str, Any], ...] = ()
    local_state: RoundEnd | None = None
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("server_momentum", "local_momentum", "adaptive_beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        for name in ("fusion_coef", "weight_decay", "prox"):
            if not 0 <= (getattr(self, name) or 0.0) < math.inf:
                raise ConfigError(f"{name} must be finite and >= 0, got {getattr(self, name)}")
        for name in ("server_lr", "adaptive_lr", "adaptive_tau", "clip_norm", "local_lr"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be finite and > 0, got {getattr(self, name)}")
        if self.step_norm not in get_args(StepNorm):
            known = ", ".join(get_args(StepNorm))
            raise ConfigError(f"step_norm must be one of {known}, got {self.step_norm!r}")
