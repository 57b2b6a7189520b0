"""Other optimizers inside: each method is its paper's loop, written with stock `torch.optim`."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from domo.algorithm import LocalSGD, local_steps
from domo.errors import ConfigError
from domo.methods import Hyperparameters, Kernel, make_kernel
from tests.support.played import replay

K, STEPS, ETAS = 3, (4, 4, 4), (0.05,) * 5
SHAPES = ((3, 4), (4,), (2, 3, 2), ())
N = 12 + 4 + 12 + 1
X0 = torch.linspace(-1, 1, N, dtype=torch.float64)


def run(kernel: Kernel, steps: Sequence[int] = STEPS, etas: Sequence[float] = ETAS) -> list[Tensor]:
    return replay.run(
        kernel, X0, replay.quadratics(K, N, 5), etas=etas, steps=steps, shapes=SHAPES
    ).x


def tensors(x: Tensor) -> list[Tensor]:
    """The parameters of a model of one's own, with copies of their values."""
    parts = torch.split(x, [int(torch.Size(shape).numel()) for shape in SHAPES])
    return [p.clone().view(shape) for p, shape in zip(parts, SHAPES, strict=True)]


def flat(params: Sequence[Tensor]) -> Tensor:
    return torch.cat([p.reshape(-1) for p in params])


def step_all(params: list[Tensor], optimizers: Sequence[torch.optim.Optimizer], g: Tensor) -> None:
    for p, part in zip(params, tensors(g), strict=True):
        p.grad = part.view_as(p)
    for optimizer in optimizers:
        optimizer.step()


def close(made: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(made) == len(expected)
    apart = max(float((a - b).abs().max()) for a, b in zip(made, expected, strict=True))
    assert apart < 1e-12
    assert float((expected[-1] - expected[0]).abs().max()) > 1e-2


@pytest.mark.parametrize("keep", [True, False])
def test_diloco_is_its_papers_loop(keep: bool) -> None:
    """AdamW inside, its state kept at each worker, and stock Nesterov momentum outside."""
    alpha, mu, args = 0.7, 0.9, {"betas": (0.8, 0.95), "weight_decay": 0.01}
    hp = Hyperparameters(
        server_momentum=mu,
        server_lr=alpha,
        weight_decay=0.01,
        local_optimizer="AdamW",
        local_optimizer_args=(("betas", (0.8, 0.95)),),
        local_state="keep" if keep else "reset",
    )
    made = run(make_kernel("DiLoCo-outer", hp))
    gradient = replay.quadratics(K, N, 5)
    outer = X0.clone()
    server = torch.optim.SGD([outer], lr=alpha, momentum=mu, nesterov=True)
    silos = [tensors(X0) for _ in range(K)]
    inner = [torch.optim.AdamW(params, lr=ETAS[0], **args) for params in silos]
    # Nesterov's weights are x_r after its look-ahead
    ahead = []
    for r, eta in enumerate(ETAS):
        ends = []
        for k in range(K):
            for p, part in zip(silos[k], tensors(outer), strict=True):
                p.copy_(part)
            if not keep:
                inner[k] = torch.optim.AdamW(silos[k], lr=eta, **args)
            for p in range(STEPS[k]):
                step_all(silos[k], [inner[k]], gradient(r, k, p, flat(silos[k])))
            ends.append(flat(silos[k]))
        outer.grad = outer - sum(ends) / K
        server.step()
        ahead.append(outer.clone())
    m = [
        (a - b) / (alpha * eta * STEPS[0])
        for a, b, eta in zip(made[:-1], made[1:], ETAS, strict=True)
    ]
    beta = alpha * mu
    close(
        [X0, *(x - eta * beta * STEPS[0] * v for x, v, eta in zip(made[1:], m, ETAS, strict=True))],
        [X0, *ahead],
    )


def muon(params: list[Tensor], eta: float) -> list[torch.optim.Optimizer]:
    matrices = [p for p in params if p.ndim == 2]
    rest = [p for p in params if p.ndim != 2]
    return [
        torch.optim.Muon(matrices, lr=eta, momentum=0.9, weight_decay=0.0),
        torch.optim.SGD(rest, lr=eta),
    ]


def rmsprop(params: list[Tensor], eta: float) -> list[torch.optim.Optimizer]:
    return [torch.optim.RMSprop(params, lr=eta, alpha=0.9)]


def adagrad(params: list[Tensor], eta: float) -> list[torch.optim.Optimizer]:
    return [torch.optim.Adagrad(params, lr=eta)]


@pytest.mark.parametrize(
    ("name", "args", "make", "prox"),
    [
        ("Muon", {"momentum": 0.9}, muon, 0.0),
        ("RMSprop", {"alpha": 0.9}, rmsprop, 0.0),
        ("Adagrad", {}, adagrad, 0.3),
    ],
)
def test_fedavg_with_an_optimizer_inside_is_the_mean_of_its_models(
    name: str,
    args: dict[str, Any],
    make: Callable[..., list[torch.optim.Optimizer]],
    prox: float,
) -> None:
    """A kernel of three dimensions is a matrix of outputs by all inputs to Muon.

    A proximal term goes into the gradient, of any optimizer.
    """
    hp = Hyperparameters(local_optimizer=name, local_optimizer_args=tuple(args.items()), prox=prox)
    made, gradient, x = run(make_kernel("FedAvg", hp)), replay.quadratics(K, N, 5), X0
    expected = [x]
    for r, eta in enumerate(ETAS):
        ends = []
        for k in range(K):
            params = tensors(x)
            stepped = [p.flatten(1) if p.ndim > 2 else p for p in params]
            optimizers = make(stepped, eta)
            for p in range(STEPS[k]):
                y = flat(stepped)
                step_all(stepped, optimizers, gradient(r, k, p, y) + prox * (y - x))
            ends.append(flat(stepped))
        x = sum(ends) / K
        expected.append(x)
    close(made, expected)


def test_momentum_that_a_silo_keeps_goes_on_over_rounds() -> None:
    """FedAvgLM-Z with one silo, kept: stock momentum SGD without rounds."""
    hp = Hyperparameters(local_state="keep")
    gradient = replay.quadratics(1, N, 5)
    kernel = make_kernel("FedAvgLM-Z", hp)
    made = replay.run(kernel, X0, gradient, etas=ETAS, steps=[4], shapes=SHAPES).x
    params = tensors(X0)
    optimizer, expected = torch.optim.SGD(params, lr=ETAS[0], momentum=0.6), [X0]
    for r in range(len(ETAS)):
        for p in range(4):
            step_all(params, [optimizer], gradient(r, 0, p, flat(params)))
        expected.append(flat(params))
    close(made, expected)


@pytest.mark.parametrize("method", ["DOMO", "DOMO-S"])
@pytest.mark.parametrize("mu_l", [0.0, 0.6])
def test_a_schedule_within_the_round_is_that_of_the_steps(method: str, mu_l: float) -> None:
    """x goes by lr_p*(m + beta*m_r) in each step (DOMO-S), d has what momentum did of it."""
    kernel = make_kernel(method, Hyperparameters(local_momentum=mu_l))
    gradient, h, steps = replay.quadratics(1, N, 5), 0.1, 5
    rates = [h * f for f in (0.5, 0.75, 1.0, 1.25, 1.5)]
    m_r = torch.linspace(1, 2, N, dtype=torch.float64)
    w = X0.clone()
    params = [v.view(s) for v, s in zip(torch.split(w, [12, 4, 12, 1]), SHAPES, strict=True)]
    opt = LocalSGD(kernel, w, params, h=h, num_steps=steps, m_r=m_r, factor=lambda p: rates[p] / h)
    opt.begin()
    x, m, moved = X0.clone(), torch.zeros_like(X0), torch.zeros_like(X0)
    if method == "DOMO":
        x = x - h * kernel.beta * steps * m_r
    for p in range(steps):
        g = gradient(0, 0, p, x)
        for param, part in zip(params, tensors(gradient(0, 0, p, w.clone())), strict=True):
            param.grad = part
        opt.step()
        m = mu_l * m + g
        moved = moved + rates[p] * m
        x = x - rates[p] * m
        if method == "DOMO-S":
            x = x - rates[p] * kernel.beta * m_r
    torch.testing.assert_close(w, x, rtol=0, atol=1e-12)
    torch.testing.assert_close(opt.finish()[0], moved / (h * steps), rtol=0, atol=1e-12)


def test_a_long_gradient_is_scaled_down_before_anything_is_added_to_it() -> None:
    kernel = make_kernel("DOMO-S", Hyperparameters(local_momentum=0.0, clip_norm=0.5))
    m_r, w = torch.full((4,), 2.0), torch.zeros(4)
    opt = LocalSGD(kernel, w, [w], h=1.0, num_steps=2, m_r=m_r)
    opt.begin()
    for g in (torch.tensor([3.0, 0, 0, 4.0]), torch.tensor([0.1, 0, 0, 0])):
        w.grad = g.clone()
        opt.step()
    expected = torch.tensor([0.3 + 0.1, 0, 0, 0.4]) / 2
    torch.testing.assert_close(opt.finish()[0], expected, atol=1e-6, rtol=1e-5)


def test_what_does_not_go_together() -> None:
    with pytest.raises(ConfigError, match="only that of SGD is averaged"):
        make_kernel("DOMO", Hyperparameters(local_optimizer="AdamW", local_state="average"))
    for method in ("DOMO-S", "SCAFFOLD"):
        with pytest.raises(ConfigError, match="SGD"):
            make_kernel(method, Hyperparameters(local_optimizer="AdamW"))


@pytest.mark.parametrize(
    "name", ["Adam", "AdamW", "RAdam", "Adamax", "Adagrad", "Adadelta", "Muon"]
)
def test_state_that_is_kept_is_all_of_it(name: str) -> None:
    """A round in two halves, the second with what the first has kept: the bits of one round."""
    hp = Hyperparameters(local_optimizer=name, local_state="keep")
    kernel, ends = make_kernel("FedAvg", hp), []
    for halves in (1, 2):
        w, state = X0.float(), dict[str, Tensor]()
        for half in range(halves):
            params = [
                v.view(s) for v, s in zip(torch.split(w, [12, 4, 12, 1]), SHAPES, strict=True)
            ]
            num = 6 // halves
            opt = local_steps(kernel, w, params, state=state, h=0.1, num_steps=num)
            opt.begin()
            for p in range(num):
                for param in params:
                    param.grad = (param * (1.5 + p + num * half)).clone()
                opt.step()
            opt.finish()
            state = opt.kept()
        ends.append(w)
    assert torch.equal(*ends)
