"""Lemma 1 and the exact form of Lemma 2, on runs made by domo.algorithm in float64.

    y_r      = x_r - mu_s/(1-mu_s) * alpha*eta*P*m_r
    yhat_r,p = x_0 - alpha*eta/((1-mu_s)K) * (all steps of past rounds, and p of this one) of Sum m
    z_r,p    = yhat_r,p - mu_l*alpha*eta/((1-mu_l)(1-mu_s)K) * Sum_k m_r,p

The print sums only p steps of each past round in yhat; its own proof (yhat_r,P = y_{r+1}) needs P.
"""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domo.methods import Hyperparameters, make_kernel
from tests.support.played import replay

N = 4
AVERAGE = ("FedAvgSLM", "DOMO-avg", "DOMO-S-avg")
RESET = ("FedAvgSLM-Z", "DOMO", "DOMO-S")


@dataclass(frozen=True)
class Setting:
    """Constants of one run; K silos, P steps, eta constant."""

    hp: Hyperparameters
    num_silos: int
    steps: int
    eta: float
    seed: int
    rounds: int = 4


settings = st.builds(
    Setting,
    hp=st.builds(
        Hyperparameters,
        server_momentum=st.floats(0.0, 0.95),
        local_momentum=st.floats(0.05, 0.95),
        fusion_coef=st.floats(0.0, 1.5),
        server_lr=st.floats(0.05, 1.5),
        weight_decay=st.sampled_from([0.0, 0.01]),
    ),
    num_silos=st.integers(1, 4),
    steps=st.integers(1, 5),
    eta=st.floats(0.002, 0.05),
    seed=st.integers(0, 10_000),
)


def trajectory(method: str, s: Setting) -> replay.Trajectory:
    x0 = torch.randn(N, generator=torch.Generator().manual_seed(s.seed), dtype=torch.float64)
    return replay.run(
        make_kernel(method, s.hp),
        x0,
        replay.quadratics(s.num_silos, N, s.seed),
        etas=[s.eta] * s.rounds,
        steps=[s.steps] * s.num_silos,
    )


def total(by_silo: dict[int, list[Tensor]], p: int) -> Tensor:
    """Sum over the silos of entry p."""
    return torch.stack([values[p] for values in by_silo.values()]).sum(0)


def auxiliary(t: replay.Trajectory, s: Setting) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
    """yhat_{r,p} and z_{r,p} for p = 0..P, from their definitions."""
    c = s.hp.server_lr * s.eta / ((1 - s.hp.server_momentum) * s.num_silos)
    look = s.hp.local_momentum / (1 - s.hp.local_momentum)
    yhats, zs = [], []
    at = t.x[0]
    for r in range(s.rounds):
        yhat = [at]
        for p in range(s.steps):
            yhat.append(yhat[-1] - c * total(t.local_m[r], p + 1))
        at = yhat[-1]
        yhats.append(yhat)
        zs.append([y - look * c * total(t.local_m[r], p) for p, y in enumerate(yhat)])
    return yhats, zs


def assert_close(got: Tensor, want: Tensor, unit: float) -> None:
    """Equal up to rounding in numbers as large as `unit`."""
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12 * unit)


def size(t: replay.Trajectory, s: Setting) -> float:
    """The largest number that takes part in the sums below; 1 or more."""
    look = 1 / ((1 - s.hp.local_momentum) * (1 - s.hp.server_momentum))
    return max(1.0, look * max(float(v.abs().max()) for v in [*t.x, *t.m]))


@pytest.mark.parametrize("method", AVERAGE + RESET)
@given(s=settings)
def test_yhat_starts_each_round_at_y(method: str, s: Setting) -> None:
    t = trajectory(method, s)
    yhat, _ = auxiliary(t, s)
    c = s.hp.server_momentum / (1 - s.hp.server_momentum) * s.hp.server_lr * s.eta * s.steps
    for r in range(s.rounds):
        assert_close(yhat[r][0], t.x[r] - c * t.m[r], size(t, s))
        assert_close(yhat[r][s.steps], t.x[r + 1] - c * t.m[r + 1], size(t, s))


@pytest.mark.parametrize("method", AVERAGE + RESET)
@given(s=settings)
def test_lemma_1_inside_a_round(method: str, s: Setting) -> None:
    """z moves by SGD on the mean gradient, for any alpha and beta."""
    t = trajectory(method, s)
    _, z = auxiliary(t, s)
    mu_l, mu_s = s.hp.local_momentum, s.hp.server_momentum
    c = s.hp.server_lr * s.eta / ((1 - mu_l) * (1 - mu_s) * s.num_silos)
    for r in range(s.rounds):
        for p in range(s.steps):
            assert_close(z[r][p + 1], z[r][p] - c * total(t.grads[r], p), size(t, s))


@pytest.mark.parametrize("method", AVERAGE)
@given(s=settings)
def test_lemma_1_between_rounds_with_averaging(method: str, s: Setting) -> None:
    t = trajectory(method, s)
    _, z = auxiliary(t, s)
    for r in range(s.rounds - 1):
        assert_close(z[r + 1][0], z[r][s.steps], size(t, s))


@pytest.mark.parametrize("method", RESET)
@given(s=settings)
def test_lemma_1_jumps_between_rounds_with_reset(method: str, s: Setting) -> None:
    """The paper claims z_{r,P} = z_{r+1,0} here too; what z jumps by is not 0."""
    t = trajectory(method, s)
    yhat, z = auxiliary(t, s)
    mu_l, mu_s = s.hp.local_momentum, s.hp.server_momentum
    c = mu_l * s.hp.server_lr * s.eta / ((1 - mu_l) * (1 - mu_s) * s.num_silos)
    for r in range(s.rounds - 1):
        jump = c * total(t.local_m[r], s.steps)
        assert torch.equal(z[r + 1][0], yhat[r + 1][0])
        assert_close(z[r + 1][0], z[r][s.steps] + jump, size(t, s))
        assert jump.abs().max() > 1e-9


def inconsistency(t: replay.Trajectory, s: Setting) -> list[list[Tensor]]:
    """z_{r,p} - xbar_{r,p} for p = 0..P."""
    _, z = auxiliary(t, s)
    return [
        [z[r][p] - total(t.local_x[r], p) / s.num_silos for p in range(s.steps + 1)]
        for r in range(s.rounds)
    ]


def steps_so_far(t: replay.Trajectory, r: int, p: int) -> Tensor:
    """Sum over silos and p' < p of m_{r,p'+1}."""
    return sum((total(t.local_m[r], i + 1) for i in range(p)), torch.zeros_like(t.x[0]))


@pytest.mark.parametrize("method", ["FedAvgSLM", "FedAvgSLM-Z", "DOMO", "DOMO-avg"])
@given(s=settings)
def test_lemma_2_general_form(method: str, s: Setting) -> None:
    t = trajectory(method, s)
    hp, eta, k = s.hp, s.eta, s.num_silos
    beta = make_kernel(method, hp).beta
    share = hp.server_lr / (1 - hp.server_momentum)
    look = hp.local_momentum / (1 - hp.local_momentum)
    gap = inconsistency(t, s)
    for r in range(s.rounds):
        for p in range(s.steps + 1):
            want = (
                (beta - hp.server_momentum * share) * eta * s.steps * t.m[r]
                + (1 - share) * eta / k * steps_so_far(t, r, p)
                - look * share * eta / k * total(t.local_m[r], p)
            )
            assert_close(gap[r][p], want, size(t, s))


@pytest.mark.parametrize("method", ["DOMO", "DOMO-avg"])
@given(s=settings)
def test_lemma_2_as_printed(method: str, s: Setting) -> None:
    """The printed form holds where alpha = 1 - mu_s and beta = mu_s: then only the last term is.

    Without fusion the term mu_s/(1-mu_s)*alpha*eta*P*m_r comes on top, with a minus.
    """
    mu_s = s.hp.server_momentum
    s = replace(s, hp=replace(s.hp, server_lr=1 - mu_s, fusion_coef=mu_s))
    look = s.hp.local_momentum / (1 - s.hp.local_momentum)
    plain = {"DOMO": "FedAvgSLM-Z", "DOMO-avg": "FedAvgSLM"}[method]
    for name, extra in ((method, 0.0), (plain, mu_s)):
        t = trajectory(name, s)
        gap = inconsistency(t, s)
        for r in range(s.rounds):
            for p in range(s.steps + 1):
                want = -look * s.eta / s.num_silos * total(t.local_m[r], p)
                want = want - extra * s.eta * s.steps * t.m[r]
                assert_close(gap[r][p], want, size(t, s))
