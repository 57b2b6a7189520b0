"""The methods, as rows of one table, and their hyperparameters.

A method is four switches over one kernel (`domo.algorithm`): whether the server keeps momentum,
whether the silos do, what becomes of the local momentum at the end of a round, and where the
server momentum is fused into local training. Later work that is the same kernel with other
constants is a `Preset`: a row of the table plus ties between its constants.

Source: Xu and Huang, "Coordinating Momenta for Cross-silo Federated Learning", AAAI-22,
Algorithm 1; the presets name their own papers.
"""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from domo.errors import ConfigError

Fusion = Literal["none", "pre", "intra"]
RoundEnd = Literal["reset", "average"]
StepNorm = Literal["per_silo", "delta", "nova"]
Anchor = Literal["server", "start"]
CONSTANTS = ("server_momentum", "local_momentum", "fusion_coef", "server_lr")
"""Of the hyperparameters, those that not every method has."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row of the table.

    Attributes:
        name: As the paper prints it.
        server_momentum: mu_s is on.
        local_momentum: mu_l is on.
        round_end: What becomes of the local momentum buffer when a round ends.
        fusion: Where m_r enters local training: nowhere, before the first step (Option I, DOMO),
            or in every step (Option II, DOMO-S).
    """

    name: str
    server_momentum: bool
    local_momentum: bool
    round_end: RoundEnd
    fusion: Fusion

    @property
    def num_vectors(self) -> int:
        """Vectors of the model's size that travel each way in a round."""
        return 2 if self.round_end == "average" else 1


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        #      name            mu_s   mu_l   round end  fusion
        Method("FedAvg",       False, False, "reset",   "none"),
        Method("FedAvgSM",     True,  False, "reset",   "none"),
        Method("FedAvgLM",     False, True,  "average", "none"),
        Method("FedAvgLM-Z",   False, True,  "reset",   "none"),
        Method("FedAvgSLM",    True,  True,  "average", "none"),
        Method("FedAvgSLM-Z",  True,  True,  "reset",   "none"),
        Method("DOMO",         True,  True,  "reset",   "pre"),
        Method("DOMO-S",       True,  True,  "reset",   "intra"),
        Method("DOMO-avg",     True,  True,  "average", "pre"),
        Method("DOMO-S-avg",   True,  True,  "average", "intra"),
    )
}  # fmt: skip
PAPER_METHODS = tuple(METHODS)[:8]
"""The eight methods that the paper compares."""


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
    """

    server_momentum: float = 0.9
    local_momentum: float = 0.6
    fusion_coef: float = 0.9
    server_lr: float = 1.0
    weight_decay: float = 0.0
    step_norm: StepNorm = "per_silo"
    prox: float | None = None

    def __post_init__(self) -> None:
        for name in ("server_momentum", "local_momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        for name in ("fusion_coef", "weight_decay", "prox"):
            if not 0 <= (getattr(self, name) or 0.0) < math.inf:
                raise ConfigError(f"{name} must be finite and >= 0, got {getattr(self, name)}")
        if not 0 < self.server_lr < math.inf:
            raise ConfigError(f"server_lr must be finite and > 0, got {self.server_lr}")
        if self.step_norm not in get_args(StepNorm):
            known = ", ".join(get_args(StepNorm))
            raise ConfigError(f"step_norm must be one of {known}, got {self.step_norm!r}")


@dataclass(frozen=True, slots=True)
class Preset:
    """A published method that is this kernel with other constants.

    Attributes:
        name: The name in its own paper.
        row: The row of `METHODS` that it uses.
        tie: Fixes or ties the hyperparameters.
        source: Where it was published.
        lr_scale: Factor on the local step size, from the hyperparameters.
        prox: rho where none is given.
        anchor: What a silo is held near where rho > 0: `server`, x_r; or `start`, where its first
            step begins, after pre-fusion.
    """

    name: str
    row: str
    tie: Callable[[Hyperparameters], Hyperparameters]
    source: str
    lr_scale: Callable[[Hyperparameters], float] = lambda hp: 1.0
    prox: float = 0.0
    anchor: Anchor = "server"


def _look_ahead(hp: Hyperparameters) -> Hyperparameters:
    return replace(hp, local_momentum=0.0, fusion_coef=hp.server_momentum, server_lr=1.0)


PRESETS: dict[str, Preset] = {
    p.name: p
    for p in (
        Preset(
            "FedCM",
            "DOMO-S",
            _look_ahead,  # its a is 1 - mu_s, and its step size eta_l is ours over a
            "Xu et al., FedCM, 2021, arXiv:2106.10874",
            lr_scale=lambda hp: 1.0 - hp.server_momentum,
        ),
        Preset(
            "FedACG",
            "DOMO",
            _look_ahead,  # its proximal term where `prox` is given: its own beta is rho
            "Kim et al., CVPR 2024",
            anchor="start",
        ),
        Preset("FedProx", "FedAvg", lambda hp: hp, "Li et al., MLSys 2020", prox=0.01),
        Preset(
            "FedNova",
            "FedAvgLM-Z",
            lambda hp: replace(hp, step_norm="nova"),
            "Wang et al., NeurIPS 2020",
        ),
        Preset(
            "FedADC",
            "DOMO-S",
            lambda hp: replace(hp, local_momentum=0.0),
            "Ozfatura et al., ISIT 2021",
        ),
        Preset(
            "SlowMo",
            "FedAvgSLM-Z",
            lambda hp: replace(hp, fusion_coef=0.0),
            "Wang et al., ICLR 2020",
        ),
        Preset(
            "DiLoCo-outer",
            "DOMO",
            lambda hp: replace(
                hp, local_momentum=0.0, fusion_coef=hp.server_lr * hp.server_momentum
            ),
            "Douillard et al., 2023, arXiv:2311.08105: outer Nesterov, SGD inside",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """A method with its numbers filled in: a constant that is off is 0. Paper letters.

    Attributes:
        mu_s: Server momentum.
        mu_l: Local momentum.
        beta: Fusion coefficient; 0 where the method has no fusion.
        alpha: Server learning rate.
        wd: Weight decay.
        fusion: Where m_r is fused; `none` where beta is 0, so equal kernels give equal bytes.
        average: Local momentum is averaged at the end of a round instead of reset.
        step_norm: `per_silo`, `delta` or `nova`.
        lr_scale: Factor on eta (1 except for FedCM).
        rho: Proximal coefficient.
        anchor: Of the proximal term; `server` where there is none.
    """

    mu_s: float
    mu_l: float
    beta: float
    alpha: float
    wd: float
    fusion: Fusion
    average: bool
    step_norm: StepNorm = "per_silo"
    lr_scale: float = 1.0
    rho: float = 0.0
    anchor: Anchor = "server"


def canonical_name(name: str) -> str:
    """The table's spelling of a method or preset, whatever the case given.

    Raises:
        ConfigError: No such method; names the nearest one.
    """
    names = {n.lower(): n for n in (*METHODS, *PRESETS)}
    found = names.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), names, n=1)
        hint = f"; did you mean {names[near[0]]!r}?" if near else ""
        raise ConfigError(f"unknown method {name!r}{hint} (known: {', '.join(names.values())})")
    return found


def method_row(name: str) -> Method:
    """The row of the table behind a method or preset."""
    name = canonical_name(name)
    return METHODS[PRESETS[name].row if name in PRESETS else name]


def unused_constants(name: str) -> list[str]:
    """Which of `CONSTANTS` a method or preset does not look at."""
    usual = Hyperparameters()
    kernel = make_kernel(name, usual)
    halved = {key: replace(usual, **{key: getattr(usual, key) / 2}) for key in CONSTANTS}
    return [key for key, other in halved.items() if make_kernel(name, other) == kernel]


def make_kernel(name: str, hp: Hyperparameters) -> Kernel:
    """Fill a row's switches with numbers.

    Args:
        name: A method of `METHODS` or a preset of `PRESETS`, in any case.
        hp: The run's hyperparameters.
    """
    name = canonical_name(name)
    row = method_row(name)
    preset = PRESETS.get(name)
    scale = preset.lr_scale(hp) if preset else 1.0
    hp = preset.tie(hp) if preset else hp
    rho = hp.prox if hp.prox is not None else preset.prox if preset else 0.0
    mu_l = hp.local_momentum if row.local_momentum else 0.0
    beta = hp.fusion_coef if row.fusion != "none" else 0.0
    return Kernel(
        mu_s=hp.server_momentum if row.server_momentum else 0.0,
        mu_l=mu_l,
        beta=beta,
        alpha=hp.server_lr,
        wd=hp.weight_decay,
        fusion=row.fusion if beta else "none",
        average=row.round_end == "average" and mu_l > 0,
        step_norm=hp.step_norm,
        lr_scale=scale,
        rho=rho,
        anchor=preset.anchor if preset and rho else "server",
    )
