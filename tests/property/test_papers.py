"""Methods beside the paper's: each equals its own paper's loop, written out in that paper's terms.

Noisy quadratics and a softmax, float64, unlike P_k, all silos or some of them in a round.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from domo.methods import Hyperparameters, make_kernel
from tests.support.played import replay

K, N = 5, 6
ETAS = (0.03, 0.03, 0.03, 0.01, 0.01, 0.003)
ALL: Sequence[Sequence[int]] = [range(K)] * len(ETAS)
SOME = [(0, 2, 4), (1, 2, 3), (0, 1, 4), (2, 3, 4), (0, 3), (1, 2, 4)]
UNLIKE = (2, 5, 3, 6, 4)

Round = Sequence[int]
Loop = Callable[[Hyperparameters, Tensor, replay.Gradient, Sequence[Round]], list[Tensor]]


def softmax(num_silos: int, n: int, seed: int) -> replay.Gradient:
    """Logistic regression of two inputs to n/2 classes on a few unlike samples of each silo."""
    source = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_silos, 12, 2, generator=source, dtype=torch.float64)
    labels = torch.randint(n // 2, (num_silos, 12), generator=source)

    def gradient(r: int, k: int, p: int, x: Tensor) -> Tensor:
        step = torch.Generator().manual_seed(seed + 1_000_003 * r + 1_009 * k + p)
        batch = torch.randperm(12, generator=step)[:4]
        logits = inputs[k][batch] @ x.view(2, n // 2)
        wrong = torch.softmax(logits, 1) - torch.eye(n // 2, dtype=x.dtype)[labels[k][batch]]
        return (inputs[k][batch].T @ wrong / 4).flatten()

    return gradient


def mean(values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean(0)


def fedprox(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Algorithm 2: each device takes steps on F_k(w) + mu/2 |w - w_t|^2; the server averages w."""
    mu, out = hp.prox or 0.0, [x]
    for r, (eta, present) in enumerate(zip(ETAS, rounds, strict=True)):
        ends = []
        for k in present:
            w = x
            for p in range(UNLIKE[k]):
                w = w - eta * (gradient(r, k, p, w) + mu * (w - x))
            ends.append(w)
        x = mean(ends)
        out.append(x)
    return out


def fednova(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Equations 6 and 8: x -= tau_eff * sum p_i eta d_i, d_i = G_i a_i / |a_i|_1, momentum rho.

    a_i = [1 - rho^tau, 1 - rho^(tau-1), ..., 1 - rho] / (1 - rho); tau_eff = sum p_i |a_i|_1.
    """
    rho, out = hp.local_momentum, [x]
    for r, (eta, present) in enumerate(zip(ETAS, rounds, strict=True)):
        directions, lengths = [], []
        for k in present:
            tau, w, m = UNLIKE[k], x, torch.zeros_like(x)
            a = [(1 - rho ** (tau - p)) / (1 - rho) for p in range(tau)]
            total = torch.zeros_like(x)
            for p in range(tau):
                g = gradient(r, k, p, w)
                total = total + a[p] * g
                m = rho * m + g
                w = w - eta * m
            directions.append(total / sum(a))
            lengths.append(sum(a))
        x = x - sum(lengths) / len(lengths) * eta * mean(directions)
        out.append(x)
    return out


def fedacg(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Algorithm 1: start at x + lambda*m, hold it with beta/2; m' = lambda*m + mean(end - start).

    All silos make as many steps, and eta stays: the paper knows no other case.
    """
    lam, beta, out, m = hp.server_momentum, hp.prox or 0.0, [x], torch.zeros_like(x)
    for r, present in enumerate(rounds):
        start, moved = x + lam * m, []
        for k in present:
            w = start
            for p in range(4):
                w = w - ETAS[0] * (gradient(r, k, p, w) + beta * (w - start))
            moved.append(w - start)
        m = lam * m + mean(moved)
        x = x + m
        out.append(x)
    return out


def fedopt(second_moment: Callable[[Tensor, Tensor, float], Tensor]) -> Loop:
    """Algorithm 2 of Reddi et al.: Delta_t is the mean of x_{i,K} - x_t, v_{-1} = tau^2."""

    def loop(
        hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
    ) -> list[Tensor]:
        out, m, v = [x], torch.zeros_like(x), torch.full_like(x, hp.adaptive_tau**2)
        for r, (eta, present) in enumerate(zip(ETAS, rounds, strict=True)):
            moved = []
            for k in present:
                w = x
                for p in range(UNLIKE[k]):
                    w = w - eta * gradient(r, k, p, w)
                moved.append(w - x)
            delta = mean(moved)
            m = hp.server_momentum * m + (1 - hp.server_momentum) * delta
            v = second_moment(v, delta, hp.adaptive_beta2)
            x = x + hp.adaptive_lr * m / (v.sqrt() + hp.adaptive_tau)
            out.append(x)
        return out

    return loop


def adam(v: Tensor, delta: Tensor, b2: float) -> Tensor:
    return b2 * v + (1 - b2) * delta**2


def yogi(v: Tensor, delta: Tensor, b2: float) -> Tensor:
    return v - (1 - b2) * delta**2 * torch.sign(v - delta**2)


def adagrad(v: Tensor, delta: Tensor, b2: float) -> Tensor:
    return v + delta**2


def fedexp(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Algorithm 1 with its eta_g = max(1, sum |Delta_i|^2 / (2 M (|mean Delta|^2 + epsilon))).

    All silos make as many steps: the paper knows no other case.
    """
    out, rho = [x], hp.local_momentum
    for r, (eta, present) in enumerate(zip(ETAS, rounds, strict=True)):
        moved = []
        for k in present:
            w, m = x, torch.zeros_like(x)
            for p in range(4):
                m = rho * m + gradient(r, k, p, w)
                w = w - eta * m
            moved.append(x - w)
        squares = sum(float((d**2).sum()) for d in moved)
        below = float((mean(moved) ** 2).sum()) + hp.adaptive_tau
        longer = squares / (2 * len(moved) * below)
        x = x - max(1.0, longer) * mean(moved)
        out.append(x)
    return out


def scaffold(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Algorithm 1 with option II; eta_g = 1, y_i - x over its own K_i, times the mean of K_i.

    The paper has one K. Silos hold momentum where the run has it, which the paper does not know:
    then K_i is the weight that all gradients of a round have in y_i - x.
    """
    rho, out, c = hp.local_momentum, [x], torch.zeros_like(x)
    own = [torch.zeros_like(x) for _ in range(K)]
    for r, (eta, present) in enumerate(zip(ETAS, rounds, strict=True)):
        moved, changed, lengths = [], [], []
        for k in present:
            y, m, steps = x, torch.zeros_like(x), UNLIKE[k]
            length = sum((1 - rho ** (steps - p)) / (1 - rho) for p in range(steps))
            for p in range(steps):
                m = rho * m + gradient(r, k, p, y) - own[k] + c
                y = y - eta * m
            own_next = own[k] - c + (x - y) / (length * eta)
            moved.append((y - x) / length)
            lengths.append(length)
            changed.append(own_next - own[k])
            own[k] = own_next
        x = x + sum(lengths) / len(lengths) * mean(moved)
        c = c + len(present) / K * mean(changed)
        out.append(x)
    return out


def feddyn(
    hp: Hyperparameters, x: Tensor, gradient: replay.Gradient, rounds: Sequence[Round]
) -> list[Tensor]:
    """Algorithm 1: theta_k by gradient steps on L_k - <g_k, theta> + alpha/2 |theta - theta_t|^2.

    With momentum in those steps where the run has it; of one step size, all other settings alike.
    """
    alpha, rho, out, h = hp.prox or 0.0, hp.local_momentum, [x], torch.zeros_like(x)
    own = [torch.zeros_like(x) for _ in range(K)]
    for r, present in enumerate(rounds):
        ends = []
        for k in present:
            theta, m = x, torch.zeros_like(x)
            for p in range(UNLIKE[k]):
                m = rho * m + gradient(r, k, p, theta) - own[k] + alpha * (theta - x)
                theta = theta - ETAS[0] * m
            own[k] = own[k] - alpha * (theta - x)
            ends.append(theta)
        h = h - alpha / K * sum(theta - x for theta in ends)
        x = mean(ends) - h / alpha
        out.append(x)
    return out


OPT = Hyperparameters(0.8, step_norm="delta", adaptive_lr=0.1, adaptive_beta2=0.9)
CASES: dict[str, tuple[Loop, Hyperparameters]] = {
    "FedProx": (fedprox, Hyperparameters(prox=0.3, step_norm="delta")),
    "FedNova": (fednova, Hyperparameters(local_momentum=0.6)),
    "FedACG": (fedacg, Hyperparameters(prox=0.3)),
    "FedAdam": (fedopt(adam), OPT),
    "FedYogi": (fedopt(yogi), OPT),
    "FedAdagrad": (fedopt(adagrad), OPT),
    "SCAFFOLD": (scaffold, Hyperparameters(local_momentum=0.0)),
    "SCAFFOLD-LM-Z": (scaffold, Hyperparameters(local_momentum=0.6)),
    "FedExP": (fedexp, Hyperparameters(local_momentum=0.0)),
    "FedExP-LM-Z": (fedexp, Hyperparameters(local_momentum=0.6)),
    "FedDyn": (feddyn, Hyperparameters(local_momentum=0.0, prox=0.3)),
    "FedDyn-LM-Z": (feddyn, Hyperparameters(local_momentum=0.6, prox=0.3)),
}


EQUAL = {"FedACG", "FedExP", "FedExP-LM-Z"}
"""Whose papers know silos with one number of steps alone."""


CONSTANT = {"FedACG", "FedDyn", "FedDyn-LM-Z"}
"""Whose papers know one step size alone."""


@pytest.mark.parametrize("kind", [replay.quadratics, softmax], ids=["quadratics", "softmax"])
@pytest.mark.parametrize("rounds", [ALL, SOME], ids=["all", "some"])
@pytest.mark.parametrize("method", CASES)
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), rho=st.sampled_from([0.05, 0.3, 1.0]))
def test_it_is_the_papers_loop(
    method: str,
    rounds: Sequence[Round],
    kind: Callable[..., replay.Gradient],
    seed: int,
    rho: float,
) -> None:
    loop, hp = CASES[method]
    hp = replace(hp, prox=rho) if hp.prox else hp
    gradient = kind(K, N, seed)
    x_0 = torch.linspace(-1, 1, N, dtype=torch.float64)
    equal, falls = method in EQUAL, method not in CONSTANT
    made = replay.run(
        make_kernel(method, hp, partial=rounds is SOME),
        x_0,
        gradient,
        etas=ETAS if falls else ETAS[:1] * len(ETAS),
        steps=[4] * K if equal else UNLIKE,
        participants=rounds,
    )
    expected = torch.stack(loop(hp, x_0, gradient, rounds))
    apart = (torch.stack(made.x) - expected).abs().max()
    assert float(apart) < 1e-12 * max(1.0, float(expected.abs().max()))
    assert float((expected[-1] - x_0).abs().max()) > 1e-2


@pytest.mark.parametrize("method", ["FedAvg", "DOMO", "DOMO-S", "FedACG"])
def test_nothing_is_held_where_rho_is_0(method: str) -> None:
    """Bit for bit what it is without the term."""
    gradient, x_0 = replay.quadratics(K, N, 3), torch.linspace(-1, 1, N, dtype=torch.float64)
    plain, zero, held = (
        replay.run(
            make_kernel(method, Hyperparameters(prox=rho)),
            x_0,
            gradient,
            etas=ETAS,
            steps=UNLIKE,
        )
        for rho in (None, 0.0, 0.1)
    )
    assert torch.equal(torch.stack(plain.x), torch.stack(zero.x))
    assert not torch.equal(plain.x[-1], held.x[-1])
