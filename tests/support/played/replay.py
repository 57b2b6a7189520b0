"""A small federation, replayed through `domo.algorithm` as the coordinator and silos would."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from domo import algorithm
from domo.algorithm import (
    Vectors,
    correction,
    following,
    inference_scale,
    local_steps,
    pulled,
    reference_steps,
    server_round,
)
from domo.fold import ReadBlock, average
from domo.methods import Kernel
from domo.training.devices import to_host

Gradient = Callable[[int, int, int, Tensor], Tensor]
"""(round, silo, step, x) -> gradient of the loss on that step's batch, without weight decay."""


@dataclass
class Trajectory:
    """What a run left: x_0..x_R, m_0..m_R, lm_0..lm_R (mbar_r), and by round d, P_ref and locals.

    `local_x[r][k]` is x_{r,0..P} of a silo (x_{r,0} after pre-fusion), `local_m[r][k]` its
    m_{r,0..P}, without any beta*m_r, and `grads[r][k]` its P gradients, weight decay included.
    """

    x: list[Tensor]
    m: list[Tensor]
    lm: list[Tensor]
    d: list[dict[int, Tensor]] = field(default_factory=list)
    p_ref: list[float] = field(default_factory=list)
    local_x: list[dict[int, list[Tensor]]] = field(default_factory=list)
    local_m: list[dict[int, list[Tensor]]] = field(default_factory=list)
    grads: list[dict[int, list[Tensor]]] = field(default_factory=list)


def pieces(vector: Tensor, shapes: Sequence[Sequence[int]] | None = None) -> list[Tensor]:
    """Views that tile a vector unevenly, as the parameters of a module do."""
    n = vector.numel()
    if shapes is None:
        return list(torch.split(vector, [1, n - 1] if n > 1 else [n]))
    parts = torch.split(vector, [torch.Size(shape).numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def reader(vector: Tensor) -> ReadBlock:
    return lambda lo, hi: vector[lo:hi]


def run(
    kernel: Kernel,
    x0: Tensor,
    gradient: Gradient,
    *,
    etas: Sequence[float],
    steps: Sequence[int],
    participants: Sequence[Sequence[int]] | None = None,
    omegas: Sequence[float] | None = None,
    device: str = "cpu",
    shapes: Sequence[Sequence[int]] | None = None,
) -> Trajectory:
    """R = len(etas) rounds; `steps` and `omegas` have one entry for each silo.

    `shapes` are those of the parameters.

    Silos step on `device`; gradients and the server are on the CPU.
    """
    out = Trajectory([x0.clone()], [torch.zeros_like(x0)], [torch.zeros_like(x0)])
    mbar: Tensor | None = None
    scale: float | None = None
    held = Vectors(out.x[0], out.m[0])
    own: dict[int, Tensor] = {}  # c_k or h_k
    states: dict[int, dict[str, Tensor]] = {}
    all_silos = sum(omegas) if omegas else len(steps)
    for r, h in enumerate(etas):
        x_r = out.x[r]
        m_r = None
        if scale is not None:
            m_r = algorithm.infer_momentum(out.x[r - 1].to(device), x_r.to(device), scale)
        mbar_r = mbar.to(device) if mbar is not None else None
        present = list(participants[r]) if participants else list(range(len(steps)))
        weights = [float(omegas[k]) if omegas else 1.0 for k in present]
        counts = [steps[k] for k in present]
        for log in (out.d, out.local_x, out.local_m, out.grads):
            log.append({})
        momenta = {}
        for k in present:
            w = x_r.to(device, copy=True)
            params = pieces(w, shapes)
            told = held.c if kernel.tells_control else m_r
            s = correction(kernel, told, own.get(k))
            opt = local_steps(
                kernel,
                w,
                params,
                state=states.get(k, {}),
                mbar_r=mbar_r,
                h=h,
                num_steps=steps[k],
                m_r=m_r,
                correction=s,
            )
            m = getattr(opt, "m", None)
            in_buffer = opt.m_r * kernel.beta if kernel.fusion == "intra" and m_r is not None else 0
            opt.begin()
            out.local_x[r][k] = [w.clone().cpu()]
            out.local_m[r][k] = [(m - in_buffer).cpu()] if m is not None else []
            out.grads[r][k] = []
            for p in range(steps[k]):
                g = gradient(r, k, p, w.clone().cpu())
                out.grads[r][k].append(g + kernel.wd * w.cpu())
                for param, part in zip(
                    params, pieces(g.to(device, copy=True), shapes), strict=True
                ):
                    param.grad = part
                opt.step()
                out.local_x[r][k].append(w.clone().cpu())
                if m is not None:
                    out.local_m[r][k].append((m - in_buffer).cpu())
            out.d[r][k], momenta[k] = to_host(*opt.finish())
            states[k] = opt.kept()
            if (part := pulled(kernel, h, steps[k])) != 0:
                own[k] = following(s, out.d[r][k], part)
        reads = [reader(out.d[r][k]) for k in present]
        share = sum(weights) / all_silos
        held = server_round(kernel, held, reads, weights, counts, h, share)
        if kernel.average:
            mbar = average([reader(momenta[k]) for k in present], weights, x0.numel())
        out.x.append(held.x)
        out.m.append(held.m)
        out.lm.append(mbar if mbar is not None else torch.zeros_like(x0))
        out.p_ref.append(reference_steps(kernel, weights, counts))
        scale = inference_scale(kernel, h, out.p_ref[r])
    return out


def quadratics(
    num_silos: int, n: int, seed: int, dtype: torch.dtype = torch.float64, noise: float = 0.3
) -> Gradient:
    """Unlike strongly convex quadratics at the silos, with noise that depends on (r, k, p)."""
    source = torch.Generator().manual_seed(seed)
    half = torch.randn(num_silos, n, n, generator=source, dtype=dtype) / n**0.5
    curve = half @ half.transpose(1, 2) + 0.3 * torch.eye(n, dtype=dtype)
    centre = torch.randn(num_silos, n, generator=source, dtype=dtype)

    def gradient(r: int, k: int, p: int, x: Tensor) -> Tensor:
        step = torch.Generator().manual_seed(seed + 1_000_003 * r + 1_009 * k + p)
        return curve[k] @ (x - centre[k]) + noise * torch.randn(n, generator=step, dtype=dtype)

    return gradient
