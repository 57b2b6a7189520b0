"""Methods that must coincide: bit for bit, to rounding, or as another paper defines them."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from domo import algorithm, fold, reference
from domo.algorithm import LocalSGD
from domo.methods import Hyperparameters, Kernel, make_kernel
from domo.model.flat import FlatModel
from domo.model.layout import Layout, Section
from tests.support.played import replay

K, P, R, N = 3, 4, 5, 5
ETA = 0.03
seeds = st.integers(0, 10_000)
constants = st.builds(
    Hyperparameters,
    server_momentum=st.floats(0.05, 0.95),
    local_momentum=st.floats(0.05, 0.9),
    fusion_coef=st.floats(0.05, 1.2),
    server_lr=st.floats(0.1, 1.2),
    weight_decay=st.sampled_from([0.0, 0.01]),
)


def start(seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(
        dtype
    )


def run(
    kernel: Kernel,
    seed: int,
    *,
    dtype: torch.dtype = torch.float64,
    num_silos: int = K,
    steps: int = P,
    eta: float = ETA,
) -> replay.Trajectory:
    gradient = replay.quadratics(num_silos, N, seed, dtype)
    return replay.run(
        kernel, start(seed, dtype), gradient, etas=[eta] * R, steps=[steps] * num_silos
    )


def assert_same_bits(a: replay.Trajectory, b: replay.Trajectory) -> None:
    assert all(torch.equal(u, v) for u, v in zip(a.x, b.x, strict=True))
    assert all(torch.equal(u, v) for u, v in zip(a.m, b.m, strict=True))
    assert not torch.equal(a.x[0], a.x[-1])


def assert_close(a: Tensor, b: Tensor) -> None:
    assert float((a - b).abs().max()) < 1e-12 * max(1.0, float(b.abs().max()))


BITWISE = [
    ("fusion_coef", "DOMO", "FedAvgSLM-Z"),
    ("fusion_coef", "DOMO-S", "FedAvgSLM-Z"),
    ("fusion_coef", "DOMO-avg", "FedAvgSLM"),
    ("fusion_coef", "DOMO-S-avg", "FedAvgSLM"),
    ("server_momentum", "FedAvgSLM", "FedAvgLM"),
    ("server_momentum", "FedAvgSLM-Z", "FedAvgLM-Z"),
    ("server_momentum", "FedAvgSM", "FedAvg"),
    ("local_momentum", "FedAvgLM", "FedAvg"),
    ("local_momentum", "FedAvgLM-Z", "FedAvg"),
    ("local_momentum", "FedAvgSLM", "FedAvgSM"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(("zero", "method", "same_as"), BITWISE)
def test_bit_for_bit(zero: str, method: str, same_as: str, dtype: torch.dtype) -> None:
    hp = replace(Hyperparameters(weight_decay=0.001), **{zero: 0.0})
    assert_same_bits(
        run(make_kernel(method, hp), 7, dtype=dtype), run(make_kernel(same_as, hp), 7, dtype=dtype)
    )


@pytest.mark.parametrize(("zero", "method", "same_as"), BITWISE)
def test_those_methods_differ_otherwise(zero: str, method: str, same_as: str) -> None:
    a, b = (run(make_kernel(m, Hyperparameters()), 7) for m in (method, same_as))
    assert float((a.x[-1] - b.x[-1]).abs().max()) > 1e-3


@given(hp=constants, seed=seeds)
def test_one_step_makes_domo_s_slm_z(hp: Hyperparameters, seed: int) -> None:
    a, b = (run(make_kernel(m, hp), seed, steps=1) for m in ("DOMO-S", "FedAvgSLM-Z"))
    assert_close(torch.stack(a.x), torch.stack(b.x))


@given(hp=constants, seed=seeds)
def test_one_silo_with_averaging_is_momentum_sgd(hp: Hyperparameters, seed: int) -> None:
    """LM with K = 1 and alpha = 1: rounds leave no trace."""
    hp = replace(hp, server_lr=1.0)
    made = run(make_kernel("FedAvgLM", hp), seed, num_silos=1)
    gradient, x = replay.quadratics(1, N, seed), start(seed)
    opt = torch.optim.SGD(
        [x], lr=ETA, momentum=hp.local_momentum, weight_decay=hp.weight_decay, foreach=True
    )
    for r in range(R):
        for p in range(P):
            x.grad = gradient(r, 0, p, x.clone())
            opt.step()
        assert_close(made.x[r + 1], x)


@given(hp=constants, seed=seeds)
def test_domo_with_beta_alpha_mu_s_is_server_nesterov(hp: Hyperparameters, seed: int) -> None:
    """The shifted start of DOMO is the iterate of torch's Nesterov SGD over LM-Z silos."""
    mu_s, alpha = hp.server_momentum, hp.server_lr
    hp = replace(hp, fusion_coef=alpha * mu_s)
    made = run(make_kernel("DOMO", hp), seed)
    silo = make_kernel("FedAvgLM-Z", hp)
    gradient = replay.quadratics(K, N, seed)
    y = start(seed)
    opt = torch.optim.SGD([y], lr=alpha * ETA * P, momentum=mu_s, nesterov=True)
    for r in range(R):
        assert_close(made.x[r] - ETA * hp.fusion_coef * P * made.m[r], y)

        def shifted(_: int, k: int, p: int, x: Tensor, at: int = r) -> Tensor:
            return gradient(at, k, p, x)

        one = replay.run(silo, y.clone(), shifted, etas=[ETA], steps=[P] * K)
        y.grad = torch.stack(list(one.d[0].values())).mean(0)
        opt.step()


def literal_round(
    hp: Hyperparameters, method: str, x: Tensor, m_r: Tensor, gradient: replay.Gradient, at: object
) -> tuple[Tensor, Tensor]:
    """Lines 6-12 as printed: (d, x_{r,P})."""
    kernel = make_kernel(method, hp)
    here = partial(gradient, *at)
    d, _, end = reference.local_round(kernel, x, m_r, torch.zeros_like(x), ETA, P, here)
    return d, end


@pytest.mark.parametrize("method", ["DOMO", "DOMO-S"])
@given(hp=constants, seed=seeds)
def test_fusion_is_stock_sgd_with_a_shift(method: str, hp: Hyperparameters, seed: int) -> None:
    """A local round against the printed loop: same end point and same d."""
    gradient, x_r, m_r = replay.quadratics(K, N, seed), start(seed), start(seed + 1)
    w = x_r.clone()
    params = replay.pieces(w)
    opt = LocalSGD(make_kernel(method, hp), w, params, h=ETA, num_steps=P, m_r=m_r)
    opt.begin()
    for p in range(P):
        for param, g in zip(params, replay.pieces(gradient(2, 1, p, w.clone())), strict=True):
            param.grad = g.clone()
        opt.step()
    d, x_end = literal_round(hp, method, x_r, m_r, gradient, (2, 1))
    assert_close(w, x_end)
    assert float((opt.finish()[0] - d).abs().max()) < 1e-12 * max(1, float(d.abs().max()))


@given(hp=constants, seed=seeds)
def test_domo_s_by_stock_sgd_alone(hp: Hyperparameters, seed: int) -> None:
    """Fresh buffer: + beta*m_r on the first gradient, + (1-mu_l)*beta*m_r on the others."""
    gradient, x, m_r = replay.quadratics(K, N, seed), start(seed), start(seed + 1)
    _, x_end = literal_round(hp, "DOMO-S", x, m_r, gradient, (0, 0))
    opt = torch.optim.SGD([x], ETA, momentum=hp.local_momentum, weight_decay=hp.weight_decay)
    for p in range(P):
        share = 1.0 if p == 0 else 1 - hp.local_momentum
        x.grad = gradient(0, 0, p, x.clone()) + share * hp.fusion_coef * m_r
        opt.step()
    assert_close(x, x_end)


# --- presets, each against its own definition in a few lines ---


def local_sgd(x: Tensor, r: int, k: int, gradient: replay.Gradient, lr: float) -> Tensor:
    for p in range(P):
        x = x - lr * gradient(r, k, p, x)
    return x


def mean(values: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(0)


def fedcm(hp: Hyperparameters, x: Tensor, gradient: replay.Gradient) -> list[Tensor]:
    """v = a*g + (1-a)*Delta; x -= eta_l*v; Delta = mean (x_r - x_k)/(eta_l*P); eta_g = eta_l*P."""
    a, out, delta = 1 - hp.server_momentum, [x], torch.zeros_like(x)
    for r in range(R):
        moved = []
        for k in range(K):
            w = x
            for p in range(P):
                w = w - ETA * (a * gradient(r, k, p, w) + (1 - a) * delta)
            moved.append((x - w) / (ETA * P))
        delta = mean(moved)
        x = x - ETA * P * delta
        out.append(x)
    return out


def fedacg(hp: Hyperparameters, x: Tensor, gradient: replay.Gradient) -> list[Tensor]:
    """Silos start from theta + lambda*m; m = lambda*m + mean(Delta); theta += m."""
    out, m = [x], torch.zeros_like(x)
    for r in range(R):
        ahead = x + hp.server_momentum * m
        m = hp.server_momentum * m + mean(
            [local_sgd(ahead, r, k, gradient, ETA) - ahead for k in range(K)]
        )
        x = x + m
        out.append(x)
    return out


def fedadc(hp: Hyperparameters, x: Tensor, gradient: replay.Gradient) -> list[Tensor]:
    """mbar = beta_l*m/H; w -= eta*(g + mbar); m = mean (x - w)/eta + (beta_g-beta_l)*m."""
    out, m, beta_l = [x], torch.zeros_like(x), hp.fusion_coef
    for r in range(R):
        moved = []
        for k in range(K):
            w = x
            for p in range(P):
                w = w - ETA * (gradient(r, k, p, w) + beta_l * m / P)
            moved.append((x - w) / ETA)
        m = mean(moved) + (hp.server_momentum - beta_l) * m
        x = x - hp.server_lr * ETA * m
        out.append(x)
    return out


def slowmo(hp: Hyperparameters, x: Tensor, gradient: replay.Gradient) -> list[Tensor]:
    """Base optimizer momentum SGD, buffers reset; u = beta*u + (x - xbar)/gamma; x -= a*gamma*u."""
    out, u = [x], torch.zeros_like(x)
    for r in range(R):
        ends = []
        for k in range(K):
            w, m = x, torch.zeros_like(x)
            for p in range(P):
                m = hp.local_momentum * m + gradient(r, k, p, w)
                w = w - ETA * m
            ends.append(w)
        u = hp.server_momentum * u + (x - mean(ends)) / ETA
        x = x - hp.server_lr * ETA * u
        out.append(x)
    return out


def diloco(hp: Hyperparameters, x: Tensor, gradient: replay.Gradient) -> list[Tensor]:
    """Outer Nesterov on x - mean(x_k), SGD inside."""
    x = x.clone()
    opt = torch.optim.SGD([x], lr=hp.server_lr, momentum=hp.server_momentum, nesterov=True)
    out = [x.clone()]
    for r in range(R):
        x.grad = x - mean([local_sgd(x.clone(), r, k, gradient, ETA) for k in range(K)])
        opt.step()
        out.append(x.clone())
    return out


@pytest.mark.parametrize(
    ("preset", "literal"),
    [
        ("FedCM", fedcm),
        ("FedACG", fedacg),
        ("FedADC", fedadc),
        ("SlowMo", slowmo),
        ("DiLoCo-outer", diloco),
    ],
)
@given(hp=constants, seed=seeds)
def test_preset(preset: str, literal, hp: Hyperparameters, seed: int) -> None:
    hp = replace(hp, weight_decay=0.0)
    kernel = make_kernel(preset, hp)
    made = run(kernel, seed)
    points = made.x
    if preset == "DiLoCo-outer":  # its iterate is the point that DOMO's silos start from
        points = [x - ETA * kernel.beta * P * m for x, m in zip(made.x, made.m, strict=True)]
    want = literal(hp, start(seed), replay.quadratics(K, N, seed))
    assert_close(torch.stack(points), torch.stack(want))


# --- the fold, float32, layouts ---


@pytest.mark.parametrize("block", [1, 7, 64, 1000, 1 << 18])
def test_results_do_not_depend_on_the_block_size(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, weights, steps = 1001, [3.0, 1.0, 7.7], [3, 5, 2]
    vectors = [torch.randn(n) for _ in weights]
    reads = [replay.reader(v) for v in vectors]
    x, m = torch.randn(n), torch.randn(n)
    kernel = make_kernel("DOMO", Hyperparameters(server_momentum=0.7, server_lr=0.3))

    def both() -> list[Tensor]:
        x1, m1, *_ = algorithm.server_round(
            kernel, algorithm.Vectors(x, m), reads, weights, steps, 0.013
        )
        return [x1, m1, fold.average(reads, weights, n)]

    whole = both()
    monkeypatch.setattr(fold, "BLOCK", block)
    assert len(list(fold.blocks(n))) == -(-n // block)
    assert all(torch.equal(a, b) for a, b in zip(both(), whole, strict=True))


def test_the_fold_depends_on_the_order_of_silos() -> None:
    """So the roster order is part of what is promised."""
    vectors = [torch.randn(1000) for _ in range(5)]
    there, back = (
        fold.average([replay.reader(v) for v in order], [1.0] * 5, 1000)
        for order in (vectors, vectors[::-1])
    )
    assert not torch.equal(there, back)
    torch.testing.assert_close(there, back)


@pytest.mark.parametrize("method", ["FedAvgSLM-Z", "DOMO", "DOMO-S"])
@pytest.mark.parametrize(
    ("eta", "bound"), [(0.1, 7e-5), (0.01, 7e-5), (1e-3, 1.5e-3)], ids=["0.1", "0.01", "0.001"]
)
def test_float32_error_of_the_recovered_update(method: str, eta: float, bound: float) -> None:
    """d from the model's movement against d summed in float64 along the same steps.

    Gradients are a hundredth of the weights, as in a network; larger ones are recovered better.
    """
    n, steps = 2000, 20
    gradient = replay.quadratics(1, n, 3, torch.float32)
    kernel = make_kernel(method, Hyperparameters())
    w, m_r = torch.randn(n), 0.01 * torch.randn(n)
    opt = LocalSGD(kernel, w, [w], h=eta, num_steps=steps, m_r=m_r)
    opt.begin()
    m, acc = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for p in range(steps):
        w.grad = 0.01 * gradient(0, 0, p, w)
        m = kernel.mu_l * m + w.grad
        acc += m
        opt.step()
    d, want = opt.finish()[0].double(), acc / steps
    assert float((d - want).norm() / want.norm()) < bound
    assert float((d - want).abs().max()) * eta * steps < 3e-6


class Tied(nn.Module):
    """Tied weights, a float, an integer and a non-persistent buffer, and a frozen layer."""

    scale: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(3, 4, bias=False)
        self.decode = nn.Linear(3, 4, bias=False)
        self.decode.weight = self.encode.weight
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("scale", torch.tensor([1.5, 2.5]))
        self.register_buffer("count", torch.tensor(7))
        self.register_buffer("scratch", torch.zeros(9), persistent=False)


def test_sections_of_a_layout() -> None:
    layout = Layout.of(Tied())
    assert layout.num_params == 12
    assert layout.aliases == {"decode.weight": "encode.weight"}
    names = {s: [e.name for e in layout.section(s)] for s in Section}
    assert names == {
        Section.TRAINABLE: ["encode.weight"],
        Section.FLOAT_BUFFER: ["scale"],
        Section.INTEGER_BUFFER: ["count"],
        Section.FROZEN: ["frozen.weight", "frozen.bias"],
        Section.PRIVATE: [],
    }


@given(shapes=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=4))
def test_a_layout_is_its_json(shapes: list[list[int]]) -> None:
    module = nn.ParameterList([nn.Parameter(torch.randn(s)) for s in shapes])
    layout = Layout.of(module)
    again = Layout.from_json(layout.to_json())
    assert again == layout
    assert again.digest == layout.digest
    flat = FlatModel(module)
    before = [p.detach().clone() for p in module]
    flat.load(Section.TRAINABLE, flat.read(Section.TRAINABLE) * 2)
    assert all(torch.equal(p, 2 * b) for p, b in zip(module, before, strict=True))


def test_the_digest_changes_with_name_shape_dtype_and_section() -> None:
    def linear(**changes: object) -> str:
        module = nn.Module()
        name = str(changes.get("name", "w"))
        shape = changes.get("shape", (2, 3))
        setattr(module, name, nn.Parameter(torch.zeros(shape)))
        module.other = nn.Parameter(
            torch.zeros(1, dtype=changes.get("dtype", torch.float32)),
            requires_grad=bool(changes.get("grad", False)),
        )
        return Layout.of(module).digest

    same = linear()
    others = [
        linear(name="v"),
        linear(shape=(3, 2)),
        linear(dtype=torch.float16),
        linear(grad=True),
    ]
    assert linear() == same
    assert len({same, *others}) == 5
