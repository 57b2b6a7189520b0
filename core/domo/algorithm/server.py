"""The server's part: lines 14 and 15, and what adaptive servers have in their place."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from domo.algorithm.steps import counted_steps
from domo.errors import DivergenceError
from domo.fold import ReadBlock, blocks, fold
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


class Stepped(NamedTuple):
    """Some or all entries of x_{r+1}, m_{r+1} and, of an adaptive server, v_{r+1}."""

    x: Tensor
    m: Tensor
    v: Tensor | None = None


def server_block(
    kernel: Kernel, x_r: Tensor, m_r: Tensor, v_r: Tensor | None, mean: Tensor, scale: float
) -> Stepped:
    """The server step (lines 14, 15) on some entries, or that of an adaptive server.

    Args:
        kernel: The method's constants.
        x_r: Server model, shape (b,).
        m_r: Server momentum, shape (b,): gradient units, or of an adaptive server parameter units.
        v_r: Its second moment, shape (b,), parameter units squared; None: tau^2, that of round 0.
        mean: Mean of d_k, shape (b,).
        scale: alpha*h*P_ref.

    Returns:
        New tensors.

    Source: Reddi et al., ICLR 2021, Algorithm 2 (FedAdagrad, FedYogi, FedAdam).
    """
    if kernel.server == "momentum":
        m = (m_r * kernel.mu_s).add_(mean)
        return Stepped(x_r - m * scale, m)
    delta = mean * scale
    m = (m_r * kernel.mu_s).add_(delta * (1 - kernel.mu_s))
    square = delta * delta
    v = torch.full_like(x_r, kernel.tau**2) if v_r is None else v_r
    if kernel.server == "adam":
        v = (v * kernel.b2).add_(square * (1 - kernel.b2))
    elif kernel.server == "yogi":
        v = v - (square * (1 - kernel.b2)).mul_(torch.sign(v - square))
    else:
        v = v + square
    return Stepped(x_r - (m * kernel.slr).div_(v.sqrt().add_(kernel.tau)), m, v)


def num_non_finite(x: Tensor) -> int:
    """How many entries of a vector are not finite; quick where none is, and none is huge."""
    squares = [float(torch.dot(part, part)) for part in torch.split(x, MOST_DOT)]
    if math.isfinite(sum(squares)):
        return 0
    return int((~torch.isfinite(x)).sum())


@torch.no_grad()
def server_round(
    kernel: Kernel,
    x_r: Tensor,
    m_r: Tensor,
    updates: Sequence[ReadBlock],
    omegas: Sequence[float],
    steps: Sequence[int],
    h: float,
    v_r: Tensor | None = None,
) -> Stepped:
    """Close a round (lines 14, 15) in memory: fold the updates, step momentum and model.

    Args:
        kernel: The method's constants.
        x_r: Server model, shape (n,).
        m_r: Server momentum, shape (n,), gradient units.
        updates: Readers of d_k, in roster order.
        omegas: Raw weights of the participants.
        steps: Their P_k.
        h: Step size eta of this round.
        v_r: Second moment of an adaptive server, shape (n,); None in round 0.

    Raises:
        DivergenceError: x_{r+1} has non-finite entries.
    """
    scale = inference_scale(kernel, h, reference_steps(kernel, omegas, steps))
    weights = fold_weights(kernel, omegas, steps)
    x, m, bad = torch.empty_like(x_r), torch.empty_like(m_r), 0
    v = None if kernel.server == "momentum" else torch.empty_like(x_r)
    for lo, hi in blocks(x_r.numel()):
        mean = fold(updates, weights, lo, hi)
        v_block = None if v_r is None else v_r[lo:hi]
        made = server_block(kernel, x_r[lo:hi], m_r[lo:hi], v_block, mean, scale)
        x[lo:hi], m[lo:hi] = made.x, made.m
        if v is not None and made.v is not None:
            v[lo:hi] = made.v
        bad += num_non_finite(x[lo:hi])
    if bad:
        raise DivergenceError(f"the server model would have {bad} non-finite entries", bad)
    return Stepped(x, m, v)
