"""The vector of its own that corrects a silo's gradients (SCAFFOLD, FedDyn), and what follows it.

    SCAFFOLD:  s = c_r - c_k in every gradient ; c_k' = q_k + c_k - c_r = q_k - s
    FedDyn:    s = -h_k, beside rho*(x - x_r)  ; h_k' = h_k + rho*h*P_k*q_k

q_k is d_k as it is sent, so that c_r and the mean of all c_k stay one, whatever rounding does.
Where all silos take part in each round and the server has no momentum, c_r is m_r, the mean of the
round before: two server models tell it (line 5), and nothing but a model travels.

Source: Karimireddy et al., ICML 2020, Algorithm 1 with option II; Acar et al., ICLR 2021,
Algorithm 1; of q_k: Huang, Li and Li, ICLR 2024 (SCALLION).
"""

import torch
from torch import Tensor

from domo.fold import blocks
from domo.methods import Kernel


def correction(kernel: Kernel, c_r: Tensor | None, own: Tensor | None) -> Tensor | None:
    """s, a constant of every gradient of a round; None: nothing yet, or ever.

    Args:
        kernel: The method's constants.
        c_r: Server control, shape (n,), gradient units, which SCAFFOLD alone looks at; None in
            round 0.
        own: c_k or h_k, shape (n,), gradient units; None until the silo has made an update.
    """
    if kernel.control == "none":
        return None
    if kernel.control == "dyn":
        return None if own is None else -own
    if own is None or c_r is None:
        return c_r if own is None else -own
    return c_r - own


def pulled(kernel: Kernel, h: float, num_steps: int) -> float:
    """How much of q_k goes into what a silo keeps: 1, or rho*h*P_k (FedDyn); 0: it keeps nothing.

    Args:
        kernel: The method's constants.
        h: Step size eta of the round.
        num_steps: P_k.
    """
    if kernel.control == "dyn":
        return kernel.rho * (h * kernel.lr_scale) * num_steps
    return 1.0 if kernel.control == "scaffold" else 0.0


def following(s: Tensor | None, q: Tensor, share: float) -> Tensor:
    """c_k' or h_k' of a round: share*q_k - s.

    Args:
        s: As of `correction`.
        q: d_k as it is sent, shape (n,), of any dtype that travels.
        share: As of `pulled`.
    """
    out = torch.empty(q.shape, dtype=torch.float32 if q.dtype.itemsize < 4 else q.dtype)
    for lo, hi in blocks(q.numel()):
        torch.mul(q[lo:hi].to(out.dtype), share, out=out[lo:hi])
        if s is not None:
            out[lo:hi].sub_(s[lo:hi])
    return out
