"""The fast algorithm against the page beside the paper, over random constants."""

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from domo import reference
from domo.methods import METHODS, PRESETS, Hyperparameters, make_kernel
from tests.support.played import replay

K, N = 4, 5
ETAS = (0.03, 0.03, 0.01, 0.003)
"""It decays between rounds."""
USUAL = Hyperparameters()
constants = st.builds(
    Hyperparameters,
    server_momentum=st.floats(0, 0.95),
    local_momentum=st.floats(0, 0.9),
    fusion_coef=st.floats(0, 1.2),
    server_lr=st.floats(0.1, 1.2),
    weight_decay=st.sampled_from([0.0, 0.01]),
    step_norm=st.sampled_from(["per_silo", "delta", "nova"]),
    prox=st.sampled_from([None, 0.0, 0.1]),
)
silos = st.lists(st.integers(0, K - 1), min_size=1, max_size=K, unique=True).map(sorted)


@pytest.mark.parametrize(
    "method", [m for m in (*METHODS, *PRESETS) if make_kernel(m, USUAL).optimizer == "SGD"]
)
@settings(max_examples=15)
@given(
    hp=constants,
    seed=st.integers(0, 10_000),
    steps=st.tuples(*[st.integers(1, 6)] * K),
    omegas=st.tuples(*[st.floats(0.1, 9)] * K),
    participants=st.tuples(*[silos] * len(ETAS)),
    partial=st.booleans(),
)
def test_the_fast_one_is_the_page_beside_the_paper(
    method: str, hp: Hyperparameters, seed: int, steps, omegas, participants, partial: bool
) -> None:
    """Every x, m, mbar and d, with unlike P_k and weights, and some silos in each round."""
    gradient = replay.quadratics(K, N, seed)
    assume(hp.prox != 0 or make_kernel(method, replace(hp, prox=1.0)).control != "dyn")
    kernel = make_kernel(method, hp, partial)
    x0 = torch.linspace(-1, 1, N, dtype=torch.float64)
    fast = replay.run(
        kernel, x0, gradient, etas=ETAS, steps=steps, participants=participants, omegas=omegas
    )
    rounds = [
        reference.Round(eta, {k: (omegas[k], steps[k]) for k in present})
        for eta, present in zip(ETAS, participants, strict=True)
    ]
    servers = reference.train(kernel, x0, rounds, gradient, sum(omegas))
    for made, want in ((fast.x, "x"), (fast.m, "m"), (fast.lm, "mbar")):
        expected = torch.stack([getattr(s, want) for s in servers])
        torch.testing.assert_close(torch.stack(made), expected, rtol=1e-9, atol=1e-9)
    for made, server in zip(fast.d, servers[1:], strict=True):
        assert list(made) == list(server.d)
        for k, d in server.d.items():
            torch.testing.assert_close(made[k], d, rtol=1e-9, atol=1e-9)
