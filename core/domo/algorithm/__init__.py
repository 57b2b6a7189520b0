"""Algorithm 1 on flat vectors: the local round and the server round.

Read it beside the paper. One vector holds every trainable parameter; m is in gradient units.
All rows of `domo.methods` run through these functions; a `Kernel` says which terms are on.

    silo k:  x = x_r ; m = mbar_r (average) or 0 (reset)
             pre-fusion:    x -= h*beta*P*m_r                   once            (line 7)
             P times:       g = grad(x) + (wd + rho)*x - rho*a + s ; m = mu_l*m + g
                                                                                (line 8)
                            x -= h*m ; intra-fusion: x -= h*beta*m_r            (lines 9, 10)
             d = (1/P) sum_p m_{p+1}                            no fusion in it (line 12)
    server:  D = mean of d ; m_{r+1} = mu_s*m_r + D ; x_{r+1} = x_r - alpha*h*P*m_{r+1}
                                                                                (lines 14, 15)
    an adaptive server has, in place of them, with Delta = eta_0*P*D, and slr falls as eta does:
             m = mu_s*m + (1 - mu_s)*Delta ; v = b2*v + (1 - b2)*Delta^2
             x -= slr*m/(sqrt(v) + tau)
    FedDyn's:      m = m + share*Delta ; x -= (Delta + m) * eta_r/eta_0
    FedExP's:      x -= max(1, mean of |h*P*d|^2 / (2 (|h*P*D|^2 + tau))) * h*P*D

a is x_r or, after pre-fusion, the start (FedProx, FedACG); s corrects a silo's gradients by a
vector of its own (`domo.algorithm.control`). With `step_norm = "nova"` P is, in all lines but the
count of the steps, |a_k|_1: how often a gradient of the round is in d (FedNova).

Scalars are computed in float64 and rounded once. Products and sums are separate operations, so a
result does not depend on where an entry lies in a block.

Source: Xu and Huang, AAAI-22, Algorithm 1; docs/algorithm.md maps each line.
"""

from domo.algorithm.control import correction, following, pulled
from domo.algorithm.inner import LocalInner, check_optimizer, local_steps, personal_kernel
from domo.algorithm.local import Factor, LocalSGD, LocalSteps, infer_momentum, infer_momentum_
from domo.algorithm.server import (
    Vectors,
    extrapolation,
    fold_weights,
    held_beside,
    inference_scale,
    num_non_finite,
    reference_steps,
    server_block,
    server_round,
)
from domo.algorithm.steps import counted_steps

__all__ = [
    "Factor",
    "LocalInner",
    "LocalSGD",
    "LocalSteps",
    "Vectors",
    "check_optimizer",
    "correction",
    "counted_steps",
    "extrapolation",
    "fold_weights",
    "following",
    "held_beside",
    "infer_momentum",
    "infer_momentum_",
    "inference_scale",
    "local_steps",
    "num_non_finite",
    "personal_kernel",
    "pulled",
    "reference_steps",
    "server_block",
    "server_round",
]
