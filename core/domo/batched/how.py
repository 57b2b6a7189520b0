"""How the silos of a simulation are computed: what somebody asks for."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from domo.errors import ConfigError

Mode = Literal["exact", "batched", "auto"]
Precision = Literal["float32", "bf16"]
AS_EXACT = "same as exact within float tolerance, not the same bytes"
"""What is said of batched results, wherever they are shown."""


@dataclass(frozen=True, slots=True)
class How:
    """What is asked for.

    Attributes:
        mode: `exact`: one silo after another, with the bytes of a deployment; `batched`: the layers
            of all silos in one call, the same within float tolerance; `auto`: the quicker of the
            two.
        precision: bf16 inside the forward pass of batched training, or float32.
        measure: Whether to find out for `exact`, too, what the other would take.

    Raises:
        ConfigError: There is no such mode or precision.
    """

    mode: Mode = "exact"
    precision: Precision = "float32"
    measure: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError(f"mode is {self.mode!r}: give exact, batched or auto")
        if self.precision not in get_args(Precision):
            raise ConfigError(f"precision is {self.precision!r}: give float32 or bf16")
        if self.precision != "float32" and self.mode != "batched":
            raise ConfigError(f"precision {self.precision} is of mode batched: give both")

    @property
    def dtype(self) -> torch.dtype | None:
        """For autocast."""
        return torch.bfloat16 if self.precision == "bf16" else None


EXACT = How()
