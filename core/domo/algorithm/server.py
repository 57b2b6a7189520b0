"""The server's part: lines 14 and 15, and what adaptive servers have in their place."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from domo.algorithm.steps import counted_steps
from domo.errors import DivergenceError
from domo.fold import ReadBlock, blocks, dot, fold
from domo.methods import Kernel

MOST_DOT = 1 << 30
"""Entries in one dot product: on a GPU, torch takes at most 2^31 - 1."""


def reference_steps(kernel: Kernel, omegas: Sequence[float], steps: Sequence[int]) -> float:
    """P_ref = sum_k omega_k P_k / sum_k omega_k, of steps as they are counted."""
    counted = [counted_steps(kernel, p) for p in steps]
    return sum(w * p for w, p in zip(omegas, counted, strict=True)) / sum(omegas)


def inference_scale(kernel: Kernel, h: float, p_ref: float) -> float:
    """alpha*h*P_ref: x_r - x_{r+1} in units of m_{r+1}."""
    return kernel.alpha * (h * kernel.lr_scale) * p_ref


def fold_weights(kernel: Kernel, omegas: Sequence[float], steps: Sequence[int]) -> list[float]:
    """Weights of d_k in the mean: omega_k, or omega_k P_k where whole deltas are averaged."""
    delta = kernel.step_norm == "delta"
    return [w * p if delta else w for w, p in zip(omegas, steps, strict=True)]


class Vectors(NamedTuple):
    """Some or all entries of what a server keeps from round to round.

    Attributes:
        x: x_r, server model.
        m: m_r, server momentum: gradient units, or of an adaptive server and FedDyn's parameter
            units.
        v: v_r, second moment of an adaptive server, parameter units squared; None in round 0.
        c: c_r, control of SCAFFOLD where it travels, gradient units; None in round 0.
    """

    x: Tensor
    m: Tensor
    v: Tensor | None = None
    c: Tensor | None = None


def held_beside(kernel: Kernel) -> list[str]:
    """Which of `v` and `c` a server keeps from round 1 on."""
    return [*(["v"] if kernel.adapts else []), *(["c"] if kernel.tells_control else [])]


def server_block(
    kernel: Kernel, held: Vectors, mean: Tensor, scale: float, share: float, decay: float = 1.0
) -> Vectors:
    """The server step (lines 14, 15) on some entries, or that of another method's server.

    Args:
        kernel: The method's constants.
        held: What it had before, vectors of shape (b,).
        mean: D, mean of d_k, shape (b,).
        scale: alpha*h*P_ref; of FedExP times its extrapolation.
        share: The round's part of all silos, by their weights.
        decay: eta_r / eta_0, by which the step of an adaptive server and of FedDyn's falls; what
            they have is in units of eta_0, or what came before a decay would outlive it.

    Returns:
        New tensors.

    Source: Karimireddy et al., ICML 2020, Algorithm 1, line 17 (SCAFFOLD's c); Acar et al., ICLR
    2021, Algorithm 1 (FedDyn); Reddi et al., ICLR 2021, Algorithm 2 (FedAdagrad, FedYogi, FedAdam).
    """
    c = None
    if kernel.tells_control:
        c = mean * share if held.c is None else (mean - held.c).mul_(share).add_(held.c)
    if kernel.server in ("momentum", "exp"):
        m = (held.m * kernel.mu_s).add_(mean)
        return Vectors(held.x - m * scale, m, c=c)
    delta = mean * (scale / decay)
    if kernel.server == "dyn":
        m = (held.m * kernel.mu_s).add_(delta * share)
        return Vectors(held.x - delta.add_(m).mul_(decay), m)
    m = (held.m * kernel.mu_s).add_(delta * (1 - kernel.mu_s))
    square = delta * delta
    v = torch.full_like(held.x, kernel.tau**2) if held.v is None else held.v
    if kernel.server == "adam":
        v = (v * kernel.b2).add_(square * (1 - kernel.b2))
    elif kernel.server == "yogi":
        v = v - (square * (1 - kernel.b2)).mul_(torch.sign(v - square))
    else:
        v = v + square
    return Vectors(held.x - (m * (kernel.slr * decay)).div_(v.sqrt().add_(kernel.tau)), m, v)


def extrapolation(
    kernel: Kernel,
    updates: Sequence[ReadBlock],
    weights: Sequence[float],
    n: int,
    scale: float,
    each: Callable[..., Iterable[tuple[float, float]]] = map,
) -> float:
    """How much longer than the mean update the step of a round is: at least 1.

    max(1, mean of |Delta_k|^2 / (2*(|Delta|^2 + tau))), the means by the same weights, with
    Delta = scale*D and Delta_k = scale*d_k: in units of the parameters, as tau is of their square.

    Args:
        kernel: The method's constants.
        updates: Readers of d_k.
        weights: Of them.
        n: Entries of a vector.
        scale: alpha*h*P_ref.
        each: Calls a function on all blocks, in order.

    Source: Jhunjhunwala et al., FedExP, ICLR 2023, equation 2.
    """
    total = sum(weights)

    def squares(block: tuple[int, int]) -> tuple[float, float]:
        parts = [read(*block).numpy() for read in updates]
        own = sum(w * dot(part, part) for w, part in zip(weights, parts, strict=True))
        mean = fold(updates, weights, *block).numpy()
        return own / total, dot(mean, mean)

    pairs = list(each(squares, list(blocks(n))))
    own, together = (sum(side) for side in zip(*pairs, strict=True))
    square = scale * scale
    longer: float = own * square / (2 * (together * square + kernel.tau))
    return max(1.0, longer)


def num_non_finite(x: Tensor) -> int:
    """How many entries of a vector are not finite; quick where none is, and none is huge."""
    squares = [float(torch.dot(part, part)) for part in torch.split(x, MOST_DOT)]
    if math.isfinite(sum(squares)):
        return 0
    return int((~torch.isfinite(x)).sum())


@torch.no_grad()
def server_round(
    kernel: Kernel,
    held: Vectors,
    updates: Sequence[ReadBlock],
    omegas: Sequence[float],
    steps: Sequence[int],
    h: float,
    share: float = 1.0,
) -> Vectors:
    """Close a round (lines 14, 15) in memory: fold the updates, step momentum and model.

    Args:
        kernel: The method's constants.
        held: x_r, m_r and what else it has, vectors of shape (n,).
        updates: Readers of d_k, in roster order.
        omegas: Raw weights of the participants.
        steps: Their P_k.
        h: Step size eta of this round.
        share: The round's part of all silos, by their weights.

    Raises:
        DivergenceError: x_{r+1} has non-finite entries.
    """
    scale = inference_scale(kernel, h, reference_steps(kernel, omegas, steps))
    weights, decay = fold_weights(kernel, omegas, steps), kernel.decay(h)
    if kernel.server == "exp":
        scale *= extrapolation(kernel, updates, weights, held.x.numel(), scale)
    made = Vectors(
        torch.empty_like(held.x),
        torch.empty_like(held.m),
        **{name: torch.empty_like(held.x) for name in held_beside(kernel)},
    )
    bad = 0
    for lo, hi in blocks(held.x.numel()):
        mean = fold(updates, weights, lo, hi)
        before = Vectors(*(None if t is None else t[lo:hi] for t in held))  # type: ignore[arg-type]
        after = server_block(kernel, before, mean, scale, share, decay)
        for whole, part in zip(made, after, strict=True):
            if whole is not None and part is not None:
                whole[lo:hi] = part
        bad += num_non_finite(made.x[lo:hi])
    if bad:
        raise DivergenceError(f"the server model would have {bad} non-finite entries", bad)
    return made
