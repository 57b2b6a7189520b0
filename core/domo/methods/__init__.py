"""The methods, as rows of one table, and their hyperparameters.

A method is four switches over one kernel (`domo.algorithm`): whether the server keeps momentum,
whether the silos do, what becomes of the local momentum at the end of a round, and where the
server momentum is fused into local training. Later work that is the same kernel with other
constants is a `Preset`: a row of the table plus ties between its constants.

Source: Xu and Huang, "Coordinating Momenta for Cross-silo Federated Learning", AAAI-22,
Algorithm 1; the presets name their own papers.
"""

from domo.methods.hyperparameters import CONSTANTS, Hyperparameters
from domo.methods.kernel import (
    Kernel,
    canonical_name,
    make_kernel,
    method_row,
    unused_constants,
)
from domo.methods.optimizers import STATE, STEPS, state_sizes
from domo.methods.presets import PRESETS, Preset
from domo.methods.rows import METHODS, PAPER_METHODS, Fusion, Method, RoundEnd, StepNorm

__all__ = [
    "CONSTANTS",
    "METHODS",
    "PAPER_METHODS",
    "PRESETS",
    "STATE",
    "STEPS",
    "Fusion",
    "Hyperparameters",
    "Kernel",
    "Method",
    "Preset",
    "RoundEnd",
    "StepNorm",
    "canonical_name",
    "make_kernel",
    "method_row",
    "state_sizes",
    "unused_constants",
]
