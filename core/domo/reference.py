"""Algorithm 1 as it is printed, one line of code for each of its lines.

The page to lay beside the paper. `domo.algorithm` gives the same within rounding, in less memory
and at the speed of stock SGD, and is tested against this; nothing else uses it. Both take a
`Kernel`, so the methods and presets are the same rows of `domo.methods` here and there.

    5   x_{r,0} = x_r ; m_r = (x_{r-1} - x_r) / (alpha*eta*P) ; m_{r,0} = 0, or mbar_r
    7   x = x - eta*beta*P*m_r                 pre-momentum fusion, before the first step (DOMO)
    8   m = mu_l*m + grad F(x)                 weight decay is part of the gradient, and rho*(x - a)
                                               and the correction of SCAFFOLD and FedDyn
    9   x = x - eta*m
    10  x = x - eta*beta*m_r                   intra-momentum fusion, in every step (DOMO-S)
    12  d = (1/P) sum_p m_{p+1}
    14  m_{r+1} = mu_s*m_r + mean of d
    15  x_{r+1} = x_r - alpha*eta*P*m_{r+1}

What the print leaves open is as in docs/algorithm.md: eta may differ from round to round and P from
silo to silo, a mean is over the participants with their weights, and alpha*eta*P of line 5 belongs
to the round that made x_r.

Source: Xu and Huang, "Coordinating Momenta for Cross-silo Federated Learning", AAAI-22.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domo.methods import Kernel

Gradient = Callable[[int, int, int, Tensor], Tensor]
"""(round, silo, step, x) -> gradient of the loss on that step's batch, without weight decay."""


class Round(NamedTuple):
    """A round: eta_r, and (omega_k, P_k) of each participant."""

    eta: float
    silos: Mapping[int, tuple[float, int]]


class Server(NamedTuple):
    """What the server has before a round: x_r, m_r, mbar_r; d_k of the round before; v_r, c_r."""

    x: Tensor
    m: Tensor
    mbar: Tensor
    d: Mapping[int, Tensor]
    v: Tensor
    c: Tensor


def local_round(
    kernel: Kernel,
    x: Tensor,
    m_r: Tensor,
    m: Tensor,
    eta: float,
    num_steps: int,
    gradient: Callable[[int, Tensor], Tensor],
    s: Tensor | float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """A client's part (lines 5-12).

    Args:
        kernel: The method's constants.
        x: x_r, shape (n,).
        m_r: Server momentum, shape (n,).
        m: m_{r,0}: zeros, or mbar_r, shape (n,).
        eta: Local step size.
        num_steps: P.
        gradient: (step, x) -> gradient.
        s: Correction of every gradient, shape (n,).

    Returns:
        d, m_{r,P} and x_{r,P}.
    """
    total, anchor = torch.zeros_like(x), x
    counted = counted_steps(kernel, num_steps)
    for p in range(num_steps):  # line 6
        if kernel.fusion == "pre" and p == 0:
            x = x - eta * kernel.beta * counted * m_r  # line 7
            anchor = x if kernel.anchor == "start" else anchor
        pull = kernel.rho * (x - anchor)
        m = kernel.mu_l * m + gradient(p, x) + kernel.wd * x + pull + s  # line 8
        x = x - eta * m  # line 9
        if kernel.fusion == "intra":
            x = x - eta * kernel.beta * m_r  # line 10
        total = total + m
    return total / counted, m, x  # line 12


def counted_steps(kernel: Kernel, num_steps: int) -> float:
    """P, or with `nova` the sum of the weights that the gradients of a round have in it."""
    if kernel.step_norm != "nova":
        return num_steps
    return sum(kernel.mu_l**age for p in range(num_steps) for age in range(num_steps - p))


def train(
    kernel: Kernel,
    x_0: Tensor,
    rounds: Sequence[Round],
    gradient: Gradient,
    total: float | None = None,
) -> list[Server]:
    """All rounds (lines 2-15).

    Args:
        kernel: The method's constants.
        x_0: Initial model, shape (n,).
        rounds: The rounds.
        gradient: Of every silo.
        total: Weight of all silos together; None: all take part in each round.

    Returns:
        The server after 0, 1, ..., R rounds.
    """
    zeros = torch.zeros_like(x_0)
    out = [Server(x_0, zeros, zeros, {}, zeros + kernel.tau**2, zeros)]  # line 2
    own: dict[int, Tensor] = {}  # c_k of SCAFFOLD, h_k of FedDyn
    x_before, scale = x_0, 1.0  # so that line 5 gives m_0 = 0
    for r, (eta, silos) in enumerate(rounds):  # line 3
        x, m, mbar, _, v, c = out[-1]
        h = eta * kernel.lr_scale
        d, ends, omegas, steps = {}, {}, {}, {}
        for k, (omegas[k], steps[k]) in silos.items():  # line 4
            m_r = (x_before - x) / scale  # line 5
            s = correction(kernel, c, own.get(k, zeros))
            here = partial(gradient, r, k)
            d[k], ends[k], _ = local_round(kernel, x, m_r, mbar, h, steps[k], here, s)
            own[k] = (kernel.rho * h * steps[k] if kernel.control == "dyn" else 1) * d[k] - s
        delta = kernel.step_norm == "delta"
        weights = {k: w * steps[k] if delta else w for k, w in omegas.items()}
        counted = {k: counted_steps(kernel, p) for k, p in steps.items()}
        x_before, scale, whole = x, kernel.alpha * h * mean(counted, omegas), mean(d, weights)
        share = sum(omegas.values()) / (total or sum(omegas.values()))
        c = c + (share if kernel.tells_control else 1) * (whole - c)
        decay = eta / kernel.eta if kernel.eta else 1.0
        if kernel.server == "momentum":
            m = kernel.mu_s * m + whole  # line 14
            x = x - scale * m  # line 15
        elif kernel.server == "exp":
            m, squares = whole, mean({k: (v**2).sum() for k, v in d.items()}, weights)
            delta = scale**2 * (whole**2).sum() + kernel.tau
            x = x - scale * max(1.0, float(scale**2 * squares / (2 * delta))) * whole
        elif kernel.server == "dyn":
            m = m + share * scale / decay * whole
            x = x - scale * whole - decay * m
        else:
            m, v, x = adaptive_step(kernel, m, v, x, scale / decay * whole, decay)
        out.append(Server(x, m, mean(ends, omegas) if kernel.average else zeros, d, v, c))
    return out


def correction(kernel: Kernel, c: Tensor, own: Tensor) -> Tensor | float:
    """What SCAFFOLD (c_r - c_k) and FedDyn (-h_k) add to each gradient."""
    if kernel.control == "none":
        return 0.0
    return c - own if kernel.control == "scaffold" else -own


def adaptive_step(
    kernel: Kernel, m: Tensor, v: Tensor, x: Tensor, delta: Tensor, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Lines 10 to 14 of Algorithm 2 of Reddi et al., ICLR 2021: m, v and x after a round.

    `delta` is how far the silos went down on average: their Delta_t has the other sign.
    """
    m = kernel.mu_s * m + (1 - kernel.mu_s) * delta
    if kernel.server == "adagrad":
        v = v + delta**2
    elif kernel.server == "yogi":
        v = v - (1 - kernel.b2) * delta**2 * torch.sign(v - delta**2)
    else:
        v = kernel.b2 * v + (1 - kernel.b2) * delta**2
    return m, v, x - decay * kernel.slr * m / (v**0.5 + kernel.tau)


def mean(values: Mapping[int, Any], omegas: Mapping[int, float]) -> Any:
    """Weighted mean over the participants."""
    return sum(omegas[k] * values[k] for k in values) / sum(omegas.values())
