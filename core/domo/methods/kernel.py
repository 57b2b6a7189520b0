"""A method with its numbers filled in."""

import difflib
from dataclasses import dataclass, replace
from typing import Any

from domo.errors import ConfigError
from domo.methods.hyperparameters import CONSTANTS, Hyperparameters
from domo.methods.presets import PRESETS
from domo.methods.rows import (
    METHODS,
    Anchor,
    Control,
    Fusion,
    Method,
    RoundEnd,
    ServerStep,
    StepNorm,
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A method with its numbers filled in: a constant that is off is 0. Paper letters.

    Attributes:
        mu_s: Server momentum; 1 for FedDyn, whose m is a sum.
        mu_l: Local momentum.
        beta: Fusion coefficient; 0 where the method has no fusion.
        alpha: Server learning rate.
        wd: Weight decay.
        fusion: Where m_r is fused; `none` where beta is 0, so equal kernels give equal bytes.
        round_end: What becomes of the state of the local optimizer when a round ends; `reset` where
            it has none.
        step_norm: `per_silo`, `delta` or `nova`.
        lr_scale: Factor on eta (1 except for FedCM).
        rho: Proximal coefficient.
        anchor: Of the proximal term; `server` where there is none; `given`, where the constant
            part comes from elsewhere.
        server: What the server does with D; the three below are 0 where it is not adaptive.
        slr: Step of an adaptive server, whose alpha is 1.
        eta: eta_0, the local step size before decay, of an adaptive server and FedDyn's; 0: it is
            not known, or of no use.
        b2: Decay of v; 0 for Adagrad, which has none.
        tau: Added to sqrt(v), and v_0 is its square; of FedExP added to |Delta|^2.
        control: Which vector of its own corrects a silo's gradients.
        tells_control: c_r travels, as two server models do not tell it: not all silos take part in
            each round, or the server has momentum.
        optimizer: What takes the local steps, a class of `torch.optim`; all but `SGD` have their
            own momentum, and mu_l is 0.
        optimizer_args: Its own arguments.
        clip: The largest norm of a gradient; None: any.
    """

    mu_s: float
    mu_l: float
    beta: float
    alpha: float
    wd: float
    fusion: Fusion
    round_end: RoundEnd
    step_norm: StepNorm = "per_silo"
    lr_scale: float = 1.0
    rho: float = 0.0
    anchor: Anchor = "server"
    server: ServerStep = "momentum"
    slr: float = 0.0
    eta: float = 0.0
    b2: float = 0.0
    tau: float = 0.0
    control: Control = "none"
    tells_control: bool = False
    optimizer: str = "SGD"
    optimizer_args: tuple[tuple[str, Any], ...] = ()
    clip: float | None = None

    @property
    def average(self) -> bool:
        """Whether the state of local optimizers is averaged, and travels."""
        return self.round_end == "average"

    @property
    def infers(self) -> bool:
        """Whether silos need x_{r-1}, for the server's last step: m_r, or c_r."""
        return self.fusion != "none" or (self.control == "scaffold" and not self.tells_control)

    def decay(self, h: float) -> float:
        """eta_r / eta_0 of an adaptive server and FedDyn's; 1 of others."""
        return h / self.eta if self.eta else 1.0

    @property
    def adapts(self) -> bool:
        """Whether the server has a second moment v."""
        return self.server in ("adam", "yogi", "adagrad")


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


def make_kernel(name: str, hp: Hyperparameters, partial: bool = False) -> Kernel:
    """Fill a row's switches with numbers.

    Args:
        name: A method of `METHODS` or a preset of `PRESETS`, in any case.
        hp: The run's hyperparameters.
        partial: Whether a round may go without some of the silos.

    Raises:
        ConfigError: The method divides by a number that is 0, or does not go with the optimizer.
    """
    name = canonical_name(name)
    row = method_row(name)
    preset = PRESETS.get(name)
    scale = preset.lr_scale(hp) if preset else 1.0
    hp = preset.tie(hp) if preset else hp
    usual = preset.prox if preset else row.prox
    rho = usual if hp.prox is None else hp.prox
    if row.control == "dyn" and not rho:
        raise ConfigError(f"{name} needs a prox above 0: it is what its server divides by")
    mu_s = hp.server_momentum if row.server_momentum else 0.0
    mu_s = 1.0 if row.server == "dyn" else mu_s
    own = hp.local_optimizer
    mu_l = hp.local_momentum if row.local_momentum and own == "SGD" else 0.0
    beta = hp.fusion_coef if row.fusion != "none" else 0.0
    if own != "SGD" and row.fusion == "intra" and beta:
        raise ConfigError(f"{name} fuses in every step of SGD; with {own} inside take DOMO")
    if own != "SGD" and row.control == "scaffold":
        raise ConfigError(f"{name} corrects gradients of SGD; FedDyn may have {own} inside")
    if own != "SGD" and hp.local_state == "average":
        raise ConfigError(f"the state of {own} is kept or reset; only that of SGD is averaged")
    ends = hp.local_state or ("reset" if own != "SGD" else row.round_end)
    adaptive = row.server in ("adam", "yogi", "adagrad")
    return Kernel(
        mu_s=mu_s,
        mu_l=mu_l,
        beta=beta,
        alpha=1.0 if adaptive else hp.server_lr,
        wd=hp.weight_decay,
        fusion=row.fusion if beta else "none",
        round_end=ends if mu_l or own != "SGD" else "reset",
        step_norm=row.step_norm or hp.step_norm,
        lr_scale=scale,
        rho=rho,
        anchor=preset.anchor if preset and rho else "server",
        server=row.server,
        slr=hp.adaptive_lr if adaptive else 0.0,
        eta=hp.local_lr or 0.0 if adaptive or row.server == "dyn" else 0.0,
        b2=hp.adaptive_beta2 if row.server in ("adam", "yogi") else 0.0,
        tau=hp.adaptive_tau if adaptive or row.server == "exp" else 0.0,
        control=row.control,
        tells_control=row.control == "scaffold" and (partial or mu_s > 0),
        optimizer=own,
        optimizer_args=hp.local_optimizer_args if own != "SGD" else (),
        clip=hp.clip_norm,
    )
