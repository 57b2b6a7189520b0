"""Hand-worked numbers: 2 silos, 2 steps, 3 parameters, 2 rounds; all constants are 1/2.

Silo A has gradient x - a, silo B 2x - b, with a = (4, 0, 8), b = (0, -8, 8), x_0 = (8, 0, 0);
eta = mu_s = mu_l = beta = 1/2, alpha = 1, P = 2. Every number is exact in float32, so == is meant.

The first parameter under DOMO. Round 0, m_0 = 0:
    A: x 8: g 4, m 4, x 6: g 2, m 4/2+2 = 4, x 4          d = (4+4)/2 = 4
    B: x 8: g 16, m 16, x 0: g 0, m 8, x -4               d = (16+8)/2 = 12
    m_1 = (4+12)/2 = 8 ; x_1 = 8 - 1/2*2*8 = 0
Round 1 starts at 0 - 1/2*1/2*2*8 = -4:
    A: g -8, m -8, x 0: g -4, m -8, x 4                   d = -8
    B: g -8, m -8, x 0: g 0, m -4, x 2                    d = -6
    m_2 = 8/2 - 7 = -3 ; x_2 = 0 + 3 = 3
Under DOMO-S round 1 starts at 0, and each step moves by another -1/2*1/2*8 = -2:
    A: g -4, m -4, x 0: g -4, m -6, x 1                   d = -5
    B: g 0, m 0, x -2: g -4, m -4, x -2                   d = -2
    m_2 = 4 - 3.5 = 0.5 ; x_2 = -0.5
"""

import pytest
import torch
from torch import Tensor

from domo import algorithm, fold
from domo.algorithm import LocalSGD
from domo.errors import DivergenceError, RoundError
from domo.methods import METHODS, Hyperparameters, Kernel, make_kernel
from tests.support.played import replay

HALF = Hyperparameters(0.5, 0.5, 0.5, 1.0)
A, B = torch.tensor([4.0, 0.0, 8.0]), torch.tensor([0.0, -8.0, 8.0])
X0 = torch.tensor([8.0, 0.0, 0.0])

PLAIN_1 = ([2.5, -2.0, 5.0], [5.5, 2.0, -5.0])
LOCAL_1 = ([0.0, -3.0, 7.0], [8.0, 3.0, -7.0])
WORKED = {  # method: (x_1, m_1), (x_2, m_2), (d_A, d_B of round 1)
    "FedAvg": (
        PLAIN_1,
        ([1.8125, -2.25, 5.625], [0.6875, 0.25, -0.625]),
        ([-1.125, -1.5, -2.25], [2.5, 2.0, 1.0]),
    ),
    "FedAvgSM": (
        PLAIN_1,
        ([-0.9375, -3.25, 8.125], [3.4375, 1.25, -3.125]),
        ([-1.125, -1.5, -2.25], [2.5, 2.0, 1.0]),
    ),
    "FedAvgLM": (
        LOCAL_1,
        ([0.875, -2.625, 6.375], [-0.875, -0.375, 0.625]),
        ([-2.5, -2.5, -2.5], [0.75, 1.75, 3.75]),
    ),
    "FedAvgLM-Z": (
        LOCAL_1,
        ([2.0, -2.25, 5.25], [-2.0, -0.75, 1.75]),
        ([-4.0, -3.0, -1.0], [0.0, 1.5, 4.5]),
    ),
    "FedAvgSLM": (
        LOCAL_1,
        ([-3.125, -4.125, 9.875], [3.125, 1.125, -2.875]),
        ([-2.5, -2.5, -2.5], [0.75, 1.75, 3.75]),
    ),
    "FedAvgSLM-Z": (
        LOCAL_1,
        ([-2.0, -3.75, 8.75], [2.0, 0.75, -1.75]),
        ([-4.0, -3.0, -1.0], [0.0, 1.5, 4.5]),
    ),
    "DOMO": (
        LOCAL_1,
        ([3.0, -1.875, 4.375], [-3.0, -1.125, 2.625]),
        ([-8.0, -4.5, 2.5], [-6.0, -0.75, 9.75]),
    ),
    "DOMO-S": (
        LOCAL_1,
        ([-0.5, -3.1875, 7.4375], [0.5, 0.1875, -0.4375]),
        ([-5.0, -3.375, -0.125], [-2.0, 0.75, 6.25]),
    ),
    "DOMO-avg": (
        LOCAL_1,
        ([1.875, -2.25, 5.5], [-1.875, -0.75, 1.5]),
        ([-6.5, -4.0, 1.0], [-5.25, -0.5, 9.0]),
    ),
    "DOMO-S-avg": (
        LOCAL_1,
        ([-1.625, -3.5625, 8.5625], [1.625, 0.5625, -1.5625]),
        ([-3.5, -2.875, -1.625], [-1.25, 1.0, 5.5]),
    ),
}


def by_hand(r: int, k: int, p: int, x: Tensor) -> Tensor:
    return x - A if k == 0 else 2 * x - B


@pytest.mark.parametrize("method", WORKED)
def test_two_rounds_by_hand(method: str) -> None:
    t = replay.run(make_kernel(method, HALF), X0, by_hand, etas=[0.5, 0.5], steps=[2, 2])
    (x_1, m_1), (x_2, m_2), (d_a, d_b) = WORKED[method]
    assert t.x[1].tolist() == x_1
    assert t.m[1].tolist() == m_1
    assert t.d[1][0].tolist() == d_a
    assert t.d[1][1].tolist() == d_b
    assert t.x[2].tolist() == x_2
    assert t.m[2].tolist() == m_2
    if METHODS[method].round_end == "average":
        assert t.lm[1].tolist() == [6.0, 2.0, -6.0]


def test_unequal_steps_and_weights_by_hand() -> None:
    """FedAvg, one parameter: A makes 1 step with weight 3, B 2 steps with weight 1."""
    x0 = X0[:1]

    def gradient(r: int, k: int, p: int, x: Tensor) -> Tensor:
        return by_hand(r, k, p, x)[:1] if k else x - A[:1]

    def step(norm: str) -> replay.Trajectory:
        hp = Hyperparameters(0.5, 0.5, 0.5, 1.0, step_norm=norm)
        kernel = make_kernel("FedAvg", hp)
        return replay.run(kernel, x0, gradient, etas=[0.5], steps=[1, 2], omegas=[3.0, 1.0])

    # A: d = 4. B: 16, then x = 0 and 0: d = 8. P_ref = (3*1 + 1*2)/4 = 1.25
    printed, delta = step("per_silo"), step("delta")
    assert printed.p_ref == delta.p_ref == [1.25]
    assert printed.m[1].tolist() == [5.0]  # (3*4 + 8)/4
    assert printed.x[1].tolist() == [8 - 0.5 * 1.25 * 5]
    assert delta.m[1].tolist() == pytest.approx([5.6])  # (3*4 + 2*8)/(3 + 2)
    assert delta.x[1].tolist() == pytest.approx([4.5])  # the mean model: (3*6 + 1*0)/4


def test_weight_decay_is_inside_the_gradient() -> None:
    hp = Hyperparameters(0.5, 0.5, 0.5, 1.0, weight_decay=0.5)
    t = replay.run(
        make_kernel("FedAvgLM-Z", hp), X0[:1], lambda *a: a[3] - 4, etas=[0.5], steps=[2]
    )
    # x 8: g 4 + 4, m 8, x 4: g 0 + 2, m 6
    assert t.d[0][0].tolist() == [7.0]


def test_momentum_is_inferred_in_gradient_units() -> None:
    kernel = make_kernel("DOMO", Hyperparameters(server_lr=0.5))
    scale = algorithm.inference_scale(kernel, 0.25, 4.0)
    assert scale == 0.5
    x_prev, x = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert algorithm.infer_momentum(x_prev, x, scale).tolist() == [2.0, -4.0]
    assert x_prev.tolist() == [1.0, 2.0]


def test_the_preset_s_step_size_is_part_of_the_scale() -> None:
    kernel = make_kernel("FedCM", Hyperparameters(server_momentum=0.75))
    assert algorithm.inference_scale(kernel, 1.0, 2.0) == 0.5


def sgd(method: str = "DOMO", *, num_steps: int = 2, **more: Tensor | None) -> LocalSGD:
    x = X0.clone()
    return LocalSGD(
        make_kernel(method, HALF), x, replay.pieces(x), h=0.5, num_steps=num_steps, **more
    )


def test_pre_fusion_shifts_once_by_the_silo_s_own_steps() -> None:
    opt = sgd(num_steps=4, m_r=torch.ones(3))
    opt.begin()
    assert opt.x.tolist() == [7.0, -1.0, -1.0]  # eta*beta*P = 1


@pytest.mark.parametrize("method", [m for m in METHODS if METHODS[m].fusion != "pre"])
def test_only_pre_fusion_shifts_the_start(method: str) -> None:
    opt = sgd(method, m_r=torch.ones(3))
    opt.begin()
    assert torch.equal(opt.x, X0)


@pytest.mark.parametrize("method", ["DOMO", "DOMO-S", "DOMO-avg", "DOMO-S-avg"])
def test_round_0_has_nothing_to_fuse(method: str) -> None:
    opt = sgd(method, m_r=None)
    opt.begin()
    for p in opt.params:
        p.grad = torch.ones_like(p)
    opt.step()
    assert opt.x.tolist() == (X0 - 0.5).tolist()


def test_a_missing_gradient_is_zero() -> None:
    opt = sgd("DOMO-S", m_r=torch.full((3,), 4.0))
    opt.begin()
    first, second = opt.params
    second.grad = torch.ones(2)
    opt.step()
    assert opt.x.tolist() == [7.0, -1.5, -1.5]  # eta*beta*m_r = 1 everywhere
    assert first.grad is not None


def test_a_closure_is_called_with_gradients_on() -> None:
    opt = sgd("FedAvg")
    opt.begin()

    def closure() -> float:
        assert torch.is_grad_enabled()
        for p in opt.params:
            p.grad = torch.ones_like(p)
        return 1.25

    assert opt.step(closure) == 1.25
    assert opt.num_done == 1


@pytest.mark.parametrize("mu", [0.0, 0.6])
def test_a_step_is_one_of_stock_fused_sgd_bit_for_bit(mu: float) -> None:
    hp = Hyperparameters(0.9, mu, 0.9, 1.0, weight_decay=5e-4)
    x, draw = torch.linspace(-1, 1, 37), torch.Generator().manual_seed(0)
    own = LocalSGD(make_kernel("FedAvgLM-Z", hp), x, [x], h=0.1, num_steps=3)
    y = x.clone()
    stock = torch.optim.SGD([y], lr=0.1, momentum=mu, weight_decay=5e-4, fused=True)
    stock.state[y]["momentum_buffer"] = torch.zeros_like(y)
    own.begin()
    for _ in range(3):
        x.grad = torch.randn(37, generator=draw)
        y.grad = x.grad.clone()
        own.step()
        stock.step()
    assert torch.equal(x, y)


def test_it_is_an_optimizer_to_schedulers_and_frameworks() -> None:
    opt = sgd()
    assert isinstance(opt, torch.optim.SGD)
    torch.optim.lr_scheduler.ConstantLR(opt, factor=1.0)
    assert opt.param_groups[0]["params"] == opt.params
    assert opt.state_dict()["param_groups"][0]["momentum"] == HALF.local_momentum
    called = []
    opt.register_step_post_hook(lambda *given: called.append(given))
    opt.begin()
    opt.step()
    assert len(called) == 1


def test_a_loaded_momentum_is_the_one_that_is_stepped_with() -> None:
    opt = sgd("FedAvgLM-Z", m_r=None)
    state = opt.state_dict()
    for entry in state["state"].values():
        entry["momentum_buffer"] = entry["momentum_buffer"] + 4
    opt.load_state_dict(state)
    opt.begin()
    opt.step()
    assert opt.x.tolist() == (X0 - 1).tolist()  # eta*mu_l*4


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_are_taken_away_or_become_zero(set_to_none: bool) -> None:
    opt = sgd()
    for p in opt.params:
        p.grad = torch.ones_like(p)
    opt.zero_grad(set_to_none)
    grads = [p.grad for p in opt.params]
    assert all((g is None) == set_to_none for g in grads)
    assert not any(g.any() for g in grads if g is not None)


def test_parameters_that_are_not_the_run_s_are_refused() -> None:
    with pytest.raises(RoundError, match="would never reach the coordinator"):
        sgd().add_param_group({"params": [torch.zeros(2)]})


def test_mbar_is_not_written_to() -> None:
    mbar = torch.ones(3)
    opt = sgd("DOMO-S-avg", m_r=torch.ones(3), m_start=mbar)
    opt.begin()
    for p in opt.params:
        p.grad = torch.ones_like(p)
    opt.step()
    _, m = opt.finish()
    assert mbar.tolist() == [1.0] * 3
    assert m is not None
    assert m.tolist() == [1.5] * 3  # mu_l*1 + 1, without beta*m_r


def test_momentum_is_sent_by_averaging_methods_only() -> None:
    for method, row in METHODS.items():
        opt = sgd(method)
        opt.begin()
        assert (opt.finish()[1] is not None) == (row.round_end == "average")


def test_finish_leaves_the_weights_where_training_ended() -> None:
    opt = sgd()
    opt.begin()
    for p in opt.params:
        p.grad = torch.ones_like(p)
    opt.step()
    before = opt.x.clone()
    opt.finish()
    assert torch.equal(opt.x, before)


def test_fold_is_a_weighted_mean() -> None:
    reads = [replay.reader(v) for v in (A, B)]
    assert fold.fold(reads, [1.0, 3.0], 0, 3).tolist() == [1.0, -6.0, 8.0]
    assert fold.fold(reads, [1.0, 3.0], 1, 2).tolist() == [-6.0]
    assert A.tolist() == [4.0, 0.0, 8.0]


def test_fold_needs_somebody_and_one_weight_each() -> None:
    with pytest.raises(ValueError, match="nobody to average over"):
        fold.fold([], [], 0, 1)
    with pytest.raises(ValueError, match="zip"):
        fold.fold([replay.reader(A)], [1.0, 1.0], 0, 3)


def test_average_of_an_empty_section() -> None:
    assert fold.average([replay.reader(torch.empty(0))], [1.0], 0).numel() == 0


def test_blocks_cover_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BLOCK", 4)
    assert list(fold.blocks(9)) == [(0, 4), (4, 8), (8, 9)]
    assert list(fold.blocks(8)) == [(0, 4), (4, 8)]
    assert list(fold.blocks(0)) == []


def test_a_diverged_round_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "BLOCK", 2)
    kernel: Kernel = make_kernel("FedAvg", HALF)
    bad = torch.tensor([float("nan"), 0.0, float("inf")])
    with pytest.raises(DivergenceError, match="would have 2 non-finite entries") as caught:
        algorithm.server_round(
            kernel, algorithm.Vectors(X0, X0), [replay.reader(bad)], [1.0], [1], 0.5
        )
    assert caught.value.count == 2


def test_server_round_leaves_its_arguments_alone() -> None:
    x, m, d = X0.clone(), torch.ones(3), A.clone()
    held = algorithm.Vectors(x, m)
    algorithm.server_round(make_kernel("DOMO", HALF), held, [replay.reader(d)], [2.0], [2], 0.5)
    assert torch.equal(x, X0)
    assert torch.equal(m, torch.ones(3))
    assert torch.equal(d, A)


@pytest.mark.parametrize("bad", [[], [0], [3, 4, 9]])
def test_non_finite_entries_of_a_vector_too_long_for_one_dot_product(
    bad: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    dot = torch.dot

    def short_dot(a: Tensor, b: Tensor) -> Tensor:
        assert a.numel() <= 4, "dot needs n <= INT_MAX"  # what CUDA says beyond 2^31 - 1
        return dot(a, b)

    monkeypatch.setattr(torch, "dot", short_dot)
    monkeypatch.setattr(algorithm.server, "MOST_DOT", 4)
    x = torch.arange(10.0)
    x[bad] = float("nan")
    assert algorithm.num_non_finite(x) == len(bad)


@pytest.mark.parametrize("method", ["FedAdam", "FedYogi", "FedAdagrad", "FedDyn"])
def test_the_step_of_an_adaptive_server_falls_with_eta(method: str) -> None:
    """A tenth of eta, of the same gradients: a tenth of the step, and the same m and v."""
    kernel = make_kernel(method, Hyperparameters(local_lr=0.5))
    held = algorithm.Vectors(X0, 0.1 * X0, v=X0 * X0)
    mean = torch.linspace(-1, 2, len(X0))
    whole = algorithm.server_block(kernel, held, mean, 2.0, 1.0, kernel.decay(0.5))
    tenth = algorithm.server_block(kernel, held, mean, 0.2, 1.0, kernel.decay(0.05))
    torch.testing.assert_close(tenth.x - X0, 0.1 * (whole.x - X0))
    torch.testing.assert_close(tenth.m, whole.m)
    assert float((whole.x - X0).abs().max()) > 1e-3
