"""The silo's part: lines 5 to 12, around whatever takes the steps, and with SGD."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from domo.algorithm.steps import counted_steps
from domo.errors import RoundError
from domo.methods import Kernel

Factor = Callable[[int], float]
"""Local step p -> what the step size is multiplied by; its mean over a round is 1."""


def infer_momentum(x_prev: Tensor, x: Tensor, scale: float) -> Tensor:
    """m_r from two server models (line 5): (x_{r-1} - x_r) / scale.

    Args:
        x_prev: x_{r-1}, shape (n,).
        x: x_r, shape (n,).
        scale: alpha*h*P_ref of the round that produced x_r; one float64 from the coordinator.
    """
    return (x_prev - x).div_(scale)


def infer_momentum_(x_prev: Tensor, x: Tensor, scale: float) -> Tensor:
    """`infer_momentum` in the memory of x_{r-1}; the same bits."""
    return x_prev.sub_(x).div_(scale)


class LocalSteps(torch.optim.Optimizer):
    """The local steps of one round (lines 6-12): what is around them, for any optimizer inside.

    Corrections, fusion and the proximal term are constants that are added to every gradient, or one
    shift of the weights before the first step. d is recovered from where the weights started and
    ended; nothing is summed per step.

    `step`, `zero_grad` and the first `add_param_group` are written out: torch's own import its
    compiler, `torch._dynamo`, which costs every process seconds and over 100 MB.

    Args:
        kernel: The method's constants.
        x: The flat vector that holds the weights; x_r when `begin` is called. Shape (n,).
        params: The parameters, views that tile `x` in order.
        h: Step size eta of this round.
        num_steps: P of this silo.
        m_r: Server momentum, shape (n,), gradient units; needed by fusion only.
        correction: s, shape (n,), gradient units, of `domo.algorithm.control`; only read.
        scratch: A vector like `x` that may be overwritten, to need less memory.
        spend: Whether `m_r` may be, too.
        factor: How the step size goes within the round; None: it stays.
        beside: Steps of other parameters, taken along: those that are private.
    """

    def __init__(
        self,
        kernel: Kernel,
        x: Tensor,
        params: Sequence[Tensor],
        *,
        h: float,
        num_steps: int,
        m_r: Tensor | None = None,
        correction: Tensor | None = None,
        scratch: Tensor | None = None,
        spend: bool = False,
        factor: Factor | None = None,
        beside: "LocalSteps | None" = None,
    ):
        self.beside = beside
        self.kernel, self.x, self.params = kernel, x, list(params)
        self.h, self.num_steps, self.num_done = h * kernel.lr_scale, num_steps, 0
        self._counted, self._factor = counted_steps(kernel, num_steps), factor
        self.m_r = m_r if kernel.fusion != "none" else None
        self._scratch, self._out = scratch, m_r if spend else None
        self._correction, self._fused = correction, None if m_r is None else self._fuse(m_r)
        self.shift: list[Tensor] | None = None

    def _fuse(self, m_r: Tensor) -> Tensor | None:
        """What intra-fusion adds to every gradient; only SGD has it."""
        return None

    def _views(self, vector: Tensor) -> list[Tensor]:
        parts = torch.split(vector, [p.numel() for p in self.params])
        return [v.view_as(p) for v, p in zip(parts, self.params, strict=True)]

    def begin(self) -> None:
        """Pre-momentum fusion (line 7, Option I), and remember the bits that we start from."""
        k = self.kernel
        held = self.x * -k.rho if k.rho and k.anchor == "server" else None
        if k.fusion == "pre" and self.m_r is not None:
            self._scratch = torch.mul(self.m_r, self.h * k.beta * self._counted, out=self._out)
            self.x.sub_(self._scratch)
        self.start = self.x.clone() if self._scratch is None else self._scratch.copy_(self.x)
        if k.rho and k.anchor == "start":
            held = self.start * -k.rho
        constants = [c for c in (held, self._correction, self._fused) if c is not None]
        if constants:
            self.shift = self._views(sum(constants[1:], constants[0]))

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One local step (lines 8-10). A parameter without gradient has gradient 0.

        Raises:
            RoundError: A scheduler or the caller has changed the step's constants.
        """
        self._check_constants()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grads = [self._dense_grad(p) for p in self.params]
        others = [] if self.beside is None else [self._dense_grad(p) for p in self.beside.params]
        if self.kernel.clip is not None:
            clip([*grads, *others], self.kernel.clip)
        self._advance(grads)
        if self.beside is not None:
            self.beside._advance(others)
        return loss

    def _advance(self, grads: list[Tensor]) -> None:
        if self.shift is not None:
            torch._foreach_add_(grads, self.shift)
        factor = 1.0 if self._factor is None else self._factor(self.num_done)
        self._move(grads, self.h * factor)
        self.num_done += 1

    def _check_constants(self) -> None:
        """See that nobody has changed what is the run's."""

    def _move(self, grads: list[Tensor], lr: float) -> None:
        """Take a step along the gradients, all terms in them."""
        raise NotImplementedError

    @staticmethod
    def _dense_grad(p: Tensor) -> Tensor:
        grad = p.grad
        if grad is None:
            p.grad = grad = torch.zeros_like(p)
        elif grad.is_sparse:  # of nn.Embedding(sparse=True); momentum is dense anyway
            p.grad = grad = grad.to_dense()
        return grad

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As every optimizer does: gradients become None, or zeros."""
        if not set_to_none:
            return super().zero_grad(set_to_none=False)
        for p in self.params if self.beside is None else (*self.params, *self.beside.params):
            p.grad = None
        return None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take the parameters of the vector; further ones are not the run's.

        Raises:
            RoundError: These are further ones.
        """
        if self.param_groups:  # `unscale_` and clippers look here
            theirs = [] if self.beside is None else self.beside.params
            if theirs and param_group["params"] is theirs:
                return self.param_groups.append(self.defaults | param_group)
            raise RoundError(
                "the local optimizer steps the parameters that the model had as the run began; "
                "another group would never reach the coordinator"
            )
        self.param_groups.append(self.defaults | param_group)
        return None

    @torch.no_grad()
    def finish(self) -> tuple[Tensor, Tensor | None]:
        """(d_k, m_{k,P}): the update (line 12), and the local momentum where it is averaged."""
        return self.start.sub_(self.x).div_(self.h * self._counted), None

    def kept(self) -> dict[str, Tensor]:
        """What the silo keeps of the optimizer's state, by name, after `finish`."""
        return {}

    def _path(self) -> float:
        """Sum of the step sizes of the round."""
        if self._factor is None:
            return self.h * self.num_steps
        return self.h * sum(map(self._factor, range(self.num_steps)))


def clip(grads: list[Tensor], most: float) -> None:
    """Scale gradients in place so that their common norm is at most `most`.

    As `torch.nn.utils.clip_grad_norm_`, whose quotient has the same 1e-6 in it.
    """
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (most / (norm + 1e-6)).clamp(max=1.0))


class LocalSGD(LocalSteps, torch.optim.SGD):
    """Steps of SGD, at the cost of stock momentum SGD.

    DOMO is stock `SGD(momentum=mu_l)` after one shift of the weights. DOMO-S is stock momentum SGD
    on the buffer m + beta*m_r with the gradient g + (1 - mu_l)*beta*m_r. A proximal term is weight
    decay rho and the constant -rho*a in every gradient.

    Args:
        kernel: The method's constants.
        x: As of `LocalSteps`, and so are the others that are not named here.
        params: The parameters.
        m_start: m_{k,0} where it is not 0, shape (n,), gradient units: mbar_r, the mean local
            momentum at the end of the last round, or this silo's own.
    """

    def __init__(
        self,
        kernel: Kernel,
        x: Tensor,
        params: Sequence[Tensor],
        *,
        m_start: Tensor | None = None,
        m_r: Tensor | None = None,
        **around: Any,
    ):
        self.m: Tensor | None = None
        if kernel.mu_l:
            self.m = torch.zeros_like(x) if m_start is None else m_start.clone()
            if kernel.fusion == "intra" and m_r is not None:
                self.m.add_(m_r * kernel.beta)
        LocalSteps.__init__(self, kernel, x, params, m_r=m_r, **around)
        self._decay = kernel.wd + kernel.rho
        torch.optim.SGD.__init__(
            self,
            self.params,
            lr=self.h,
            momentum=kernel.mu_l,
            weight_decay=self._decay,
            fused=True,
        )
        self._step_supports_amp_scaling = False  # gradients are unscaled before our shift
        self._constants = (self.h, kernel.mu_l, self._decay)
        if self.m is not None:
            for p, buffer in zip(self.params, self._views(self.m), strict=True):
                self.state[p]["momentum_buffer"] = buffer

    def _fuse(self, m_r: Tensor) -> Tensor | None:
        k = self.kernel
        if k.fusion != "intra":
            return None
        return torch.mul(m_r, (1 - k.mu_l) * k.beta, out=self._out)

    def _check_constants(self) -> None:
        group = self.param_groups[0]
        if (group["lr"], group["momentum"], group["weight_decay"]) != self._constants:
            raise RoundError(
                "lr, momentum and weight_decay of the local optimizer are the run's; a schedule "
                "belongs into its configuration (lr_schedule, lr_milestones, local_lrs)"
            )

    def _move(self, grads: list[Tensor], lr: float) -> None:
        buffers = (
            [self.state[p]["momentum_buffer"] for p in self.params] if self.kernel.mu_l else []
        )
        torch._fused_sgd_(  # what torch.optim.SGD(fused=True) comes down to
            self.params,
            grads,
            buffers,
            weight_decay=self._decay,
            momentum=self.kernel.mu_l,
            lr=lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,  # each has its buffer
        )

    @torch.no_grad()
    def finish(self) -> tuple[Tensor, Tensor | None]:
        """(d_k, m_{k,P}): the update (line 12), and the local momentum where it is averaged."""
        k, m = self.kernel, self.m
        d = self.start.sub_(self.x)
        if self._fused is not None:
            if m is not None and k.round_end != "reset":
                m.sub_(self._fused * (1 / (1 - k.mu_l)))
            d.sub_(self._fused.mul_(self._path() / (1 - k.mu_l)))
        return d.div_(self.h * self._counted), m if k.average else None

    def kept(self) -> dict[str, Tensor]:
        """m_{k,P}, where the silo keeps it, after `finish`."""
        mine = self.m is not None and self.kernel.round_end == "keep"
        return {"momentum_buffer": self.m} if mine else {}  # type: ignore[dict-item]
