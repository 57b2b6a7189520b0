"""What of the state of a local optimizer can be kept from round to round."""

from collections.abc import Mapping

STATE: Mapping[str, tuple[str, ...]] = {
    "SGD": ("momentum_buffer",),
    "Adam": ("exp_avg", "exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq"),
    "RAdam": ("exp_avg", "exp_avg_sq"),
    "Adamax": ("exp_avg", "exp_inf"),
    "Adagrad": ("sum",),
    "Adadelta": ("square_avg", "acc_delta"),
    "Muon": ("momentum_buffer",),
}
"""Class of `torch.optim` -> the parts of its state that are as large as the model."""
STEPS = "step"
"""How many steps the state is of, one number."""
UNCOUNTED = frozenset({"SGD", "Muon"})
"""Those that count none."""


def state_sizes(optimizer: str, n: int) -> dict[str, int]:
    """Names and entries of the state of an optimizer of `STATE`, of a model of n parameters."""
    sizes = dict.fromkeys(STATE[optimizer], n)
    return sizes if optimizer in UNCOUNTED else {**sizes, STEPS: 1}
