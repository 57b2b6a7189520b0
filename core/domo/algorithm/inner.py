"""Other optimizers inside a local round: any class of `torch.optim` that steps by gradients.

d_k is then how far the weights went, in units of the step size: a pseudo-gradient, which server,
fusion and wire treat as they do a gradient. Muon takes what is a matrix; the rest is plain SGD.

Source: Douillard et al., 2023, arXiv:2311.08105 (AdamW inside, DiLoCo); Therien et al., 2025,
arXiv:2505.23725 (Muon inside); Jordan et al., 2024 (Muon).
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from domo.algorithm.local import LocalSGD, LocalSteps
from domo.errors import ConfigError
from domo.methods import STATE, STEPS, Kernel

OURS = frozenset({"params", "lr", "weight_decay", "maximize", "capturable", "differentiable"})
"""Arguments that are settings of the run, or of no use in it."""
WITHOUT = frozenset({"Optimizer", "LBFGS", "SparseAdam"})
"""Names in `torch.optim` of what takes no plain gradient step."""


def make_optimizer(
    name: str, args: Mapping[str, Any], params: Sequence[Tensor], lr: float, wd: float
) -> torch.optim.Optimizer:
    """An optimizer of `torch.optim` by name.

    Args:
        name: Of the class.
        args: Its own arguments.
        params: What it steps.
        lr: Step size.
        wd: Weight decay, as that optimizer has it.

    Raises:
        ConfigError: There is no such class, or it does not take these arguments; says what it does.
    """
    cls = getattr(torch.optim, name, None)
    known = sorted(
        n
        for n, c in vars(torch.optim).items()
        if isinstance(c, type) and issubclass(c, torch.optim.Optimizer) and n not in WITHOUT
    )
    if name not in known or cls is None:
        raise ConfigError(f"no local_optimizer {name!r} (known: {', '.join(known)})")
    takes = [p for p in inspect.signature(cls).parameters if p not in OURS]
    for key in args:
        if key not in takes:
            text = f"{name} takes no {key!r} in local_optimizer_args (it takes {', '.join(takes)})"
            raise ConfigError(text)
    has = inspect.signature(cls).parameters
    if wd and "weight_decay" not in has:
        raise ConfigError(f"{name} has no weight decay: set weight_decay to 0")
    usual = ({"weight_decay": wd} if "weight_decay" in has else {}) | (
        {"fused": True} if "fused" in has else {}  # one call a step, and quicker
    )
    try:
        return cls(params, lr=lr, **(usual | dict(args)))  # type: ignore[no-any-return]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{name} does not take local_optimizer_args {dict(args)}: {error}"
        ) from None


def check_optimizer(kernel: Kernel) -> None:
    """See that the optimizer of a run can be made.

    Raises:
        ConfigError: It cannot; or its state cannot be kept.
    """
    weight = torch.zeros(2, 2)
    make_optimizer(kernel.optimizer, dict(kernel.optimizer_args), [weight], 1.0, kernel.wd)
    if kernel.round_end == "keep" and kernel.optimizer not in STATE:
        known = ", ".join(STATE)
        raise ConfigError(f"the state of {kernel.optimizer} cannot be kept, only that of {known}")


class LocalInner(LocalSteps):
    """Steps of another optimizer than SGD.

    Args:
        kernel: The method's constants.
        x: As of `LocalSteps`, and so are the others that are not named here.
        params: The parameters.
        state: What this silo has kept of it, as of `state`; None: nothing yet.
    """

    def __init__(
        self,
        kernel: Kernel,
        x: Tensor,
        params: Sequence[Tensor],
        *,
        state: Mapping[str, Tensor] | None = None,
        **around: Any,
    ):
        super().__init__(kernel, x, params, **around)
        torch.optim.Optimizer.__init__(self, self.params, {"lr": self.h})
        matrices = kernel.optimizer == "Muon"
        self._moved = [_matrix(p) if matrices else p.detach() for p in self.params]
        mine = [p for p in self._moved if not matrices or p.ndim == 2]
        if not mine:
            raise ConfigError(
                "Muon steps weights of two or more dimensions, and the model has none"
            )
        args = dict(kernel.optimizer_args)
        self._inner = [make_optimizer(kernel.optimizer, args, mine, self.h, kernel.wd)]
        if len(mine) < len(self._moved):
            rest = [p for p in self._moved if p.ndim != 2]
            self._inner.append(torch.optim.SGD(rest, lr=self.h, weight_decay=kernel.wd))
        if state:
            for name in STATE[kernel.optimizer]:
                self._restore(mine, name, state)

    def _restore(self, mine: Sequence[Tensor], name: str, state: Mapping[str, Tensor]) -> None:
        views = self._views(state[name].to(self.x.device, copy=True))
        own = {id(p) for p in mine}
        for p, view in zip(self._moved, views, strict=True):
            if id(p) in own:
                entry = self._inner[0].state[p]
                entry[name] = view.view_as(p)
                if STEPS in state:
                    entry[STEPS] = state[STEPS].clone().view(())

    def _move(self, grads: list[Tensor], lr: float) -> None:
        if self.kernel.rho:
            torch._foreach_add_(grads, self.params, alpha=self.kernel.rho)
        for p, grad in zip(self._moved, grads, strict=True):
            p.grad = grad.view_as(p)
        for inner in self._inner:
            for group in inner.param_groups:
                group["lr"] = lr
            inner.step()

    def kept(self) -> dict[str, Tensor]:
        """Its state by name: vectors of shape (n,), 0 where there is none, and how many steps."""
        if self.kernel.round_end != "keep":
            return {}
        out, states = {}, self._inner[0].state
        for name in STATE[self.kernel.optimizer]:
            parts = [states.get(p, {}).get(name) for p in self._moved]
            zeros = (p.detach() * 0 for p in self._moved)
            whole = [z if part is None else part for part, z in zip(parts, zeros, strict=True)]
            out[name] = torch.cat([part.reshape(-1) for part in whole])
        counts = [state[STEPS] for state in states.values() if STEPS in state]
        if counts:
            out[STEPS] = torch.as_tensor(float(counts[0])).reshape(1)
        return out


def local_steps(
    kernel: Kernel,
    x: Tensor,
    params: Sequence[Tensor],
    *,
    state: Mapping[str, Tensor],
    mbar_r: Tensor | None = None,
    own: tuple[Tensor, Sequence[Tensor]] | None = None,
    **around: Any,
) -> LocalSteps:
    """What takes the local steps of a round.

    Args:
        kernel: The method's constants.
        x: As of `LocalSteps`, and so are the others that are not named here.
        params: The parameters.
        state: What this silo has kept of its optimizer; empty: nothing yet.
        mbar_r: Mean local momentum, shape (n,); average rows only.
        own: The private weights and parameters of the model, as `x` and `params`.
    """
    if own is not None and own[1]:
        alone = private_kernel(kernel)
        few = {key: around[key] for key in ("h", "num_steps", "factor") if key in around}
        around["beside"] = local_steps(alone, *own, state={}, **few)
    made = _local_steps(kernel, x, params, state, mbar_r, around)
    if made.beside is not None:
        made.add_param_group({"params": made.beside.params})
    return made


def private_kernel(kernel: Kernel) -> Kernel:
    """How private parameters are trained: by the same steps, with nothing of the federation in."""
    return replace(
        kernel,
        beta=0.0,
        fusion="none",
        round_end="reset",
        rho=0.0,
        anchor="server",
        control="none",
        tells_control=False,
        clip=None,
    )


def personal_kernel(kernel: Kernel, strength: float) -> Kernel:
    """The same, held near a model that is given: -strength*x_r comes as FedDyn's -h_k does."""
    return replace(private_kernel(kernel), rho=strength, anchor="given", control="dyn")


def _local_steps(
    kernel: Kernel,
    x: Tensor,
    params: Sequence[Tensor],
    state: Mapping[str, Tensor],
    mbar_r: Tensor | None,
    around: Mapping[str, Any],
) -> LocalSteps:
    if kernel.optimizer != "SGD":
        return LocalInner(kernel, x, params, state=state, **around)
    own = state.get(STATE["SGD"][0])
    m_start = mbar_r if own is None else own.to(x.device)
    return LocalSGD(kernel, x, params, m_start=m_start, **around)


def _matrix(p: Tensor) -> Tensor:
    """A view of two dimensions where a parameter has more: outputs by all inputs."""
    return p.detach().flatten(1) if p.ndim > 2 else p.detach()
