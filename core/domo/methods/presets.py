"""Published methods that are a row of the table with other constants."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from domo.methods.hyperparameters import Hyperparameters
from domo.methods.rows import Anchor


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


def _nesterov_around(hp: Hyperparameters, optimizer: str) -> Hyperparameters:
    return replace(
        hp,
        fusion_coef=hp.server_lr * hp.server_momentum,
        local_optimizer=optimizer,
        local_state=hp.local_state or "keep",
    )


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
        Preset(
            "DiLoCo",
            "DOMO",
            lambda hp: _nesterov_around(hp, "AdamW"),
            "Douillard et al., 2023, arXiv:2311.08105",
        ),
        Preset(
            "MuLoCo",
            "DOMO",
            lambda hp: _nesterov_around(hp, "Muon"),
            "Therien et al., 2025, arXiv:2505.23725",
        ),
    )
}
