"""What a training loop may do, and what it is told when it does something else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from domo.errors import (
    DivergenceError,
    IncompleteRoundError,
    RoundError,
    StrayParameterError,
    TaskError,
)
from domo.methods import Kernel
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.tasks.base import Sum
from domo.training import local_round as training
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from tests.support.modules import Net
from tests.support.played.one_round import DATA, X, Y, local_round, loss_of, numbers, train

# --- the loop ---


def test_a_round_is_a_function_of_its_inputs() -> None:
    a, b = train(local_round()), train(local_round())
    assert torch.equal(a.update, b.update)
    assert torch.equal(a.float_buffers, b.float_buffers)
    assert a.num_steps == 4
    assert a.momentum is None
    assert not torch.equal(a.update, train(local_round(silo_id="b")).update)


def test_the_shift_happens_when_the_batch_loop_starts() -> None:
    rnd = local_round()
    x_r = rnd.flat.vector.clone()
    rnd.optimizer()
    assert torch.equal(rnd.flat.vector, x_r)
    batches = rnd.batches(DATA)
    assert torch.equal(rnd.flat.vector, x_r)
    next(batches)
    shift = 0.05 * 0.5 * 4 * 0.1  # eta*beta*P*m_r
    torch.testing.assert_close(rnd.flat.vector, x_r - shift)


def test_x_prev_without_its_scale() -> None:
    with pytest.raises(RoundError, match="came without its inference scale"):
        local_round(inference_scale=None)


def test_methods_without_fusion_need_no_x_prev() -> None:
    assert train(local_round("FedAvgSLM", inference_scale=None)).momentum is not None


def test_server_buffers_are_loaded_and_ours_are_sent() -> None:
    flat = FlatModel(Net())
    x, counted = torch.zeros(flat.layout.num_params), torch.tensor([5]).view(torch.uint8)
    buffers = {Section.FLOAT_BUFFER: torch.arange(6.0), Section.INTEGER_BUFFER: counted}
    rnd = LocalRound(flat, numbers("FedAvg"), x, buffers=buffers)
    assert rnd.model.norm.running_mean.tolist() == [0.0, 1.0, 2.0]
    result = train(rnd)
    assert result.integer_buffers.view(torch.int64).tolist() == [9]
    assert result.float_buffers.shape == (6,)
    assert result.float_buffers.tolist() != list(range(6))


def test_leaving_too_early() -> None:
    rnd = local_round()
    opt = rnd.optimizer()
    for batch in rnd.batches(DATA):
        loss_of(rnd, batch).backward()
        opt.step()
        if opt.num_done == 3:
            break
    with pytest.raises(IncompleteRoundError) as caught:
        rnd.finish()
    assert str(caught.value) == "round 3 was left after 3 of 4 local steps; nothing was sent"
    assert (caught.value.done, caught.value.wanted) == (3, 4)


def test_finishing_without_a_loop() -> None:
    rnd = local_round()
    rnd.optimizer()
    with pytest.raises(IncompleteRoundError, match="after 0 of 4"):
        rnd.finish()


def test_a_step_too_many() -> None:
    rnd = local_round()
    opt = rnd.optimizer()
    for batch in rnd.batches(DATA):
        loss_of(rnd, batch).backward()
        opt.step()
    opt.step()
    with pytest.raises(RoundError, match="wants 4 local steps and 5 were made"):
        rnd.finish()


def test_a_forgotten_optimizer_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MAX_ACCUMULATION", 6)
    rnd = local_round()
    batches = rnd.batches(DATA)
    assert len([next(batches) for _ in range(6)]) == 6
    with pytest.raises(RoundError, match=r"opt.step\(\) was not called for 6 batches"):
        next(batches)


def trained(monkeypatch: pytest.MonkeyPatch, is_own: bool) -> None:
    """A loop whose first step alone is made by the optimizer of the round."""
    monkeypatch.setattr(training, "MAX_ACCUMULATION", 3)
    rnd = local_round()
    opt, other = rnd.optimizer(), torch.optim.AdamW(rnd.model.parameters())
    for i, batch in enumerate(rnd.batches(DATA)):
        loss_of(rnd, batch).backward()
        if i == 0:
            opt.step()
        elif is_own:
            other.step()


def test_the_step_of_another_optimizer_is_told_from_a_forgotten_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = r"rnd.optimizer\(\) made no step in 3 batches, and another one changed the weights"
    with pytest.raises(RoundError, match=text):
        trained(monkeypatch, is_own=True)
    with pytest.raises(RoundError, match=r"opt.step\(\) was not called for 3 batches"):
        trained(monkeypatch, is_own=False)


def test_steps_in_between_start_the_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MAX_ACCUMULATION", 3)
    rnd = local_round()
    opt = rnd.optimizer()
    for i, _ in enumerate(rnd.batches(DATA)):
        if i % 2:
            opt.step()
    assert rnd.finish().num_steps == 4


def test_gradient_accumulation() -> None:
    """Two batches of 2 to a step are one batch of 4."""
    rnd, whole = (local_round("DOMO-S", module=nn.Linear(3, 1)) for _ in range(2))
    opt, parts = rnd.optimizer(), [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 2], [1, 3], [5, 7]]
    for i, batch in enumerate(rnd.batches(DATA, plan=parts)):
        (loss_of(rnd, batch) / 2).backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
    merged = [parts[i] + parts[i + 1] for i in range(0, 8, 2)]
    torch.testing.assert_close(rnd.finish().update, train(whole, plan=merged).update)


def test_gradients_of_an_attempt_that_came_to_nothing_are_forgotten() -> None:
    """Whether it was abandoned between two steps, or failed after `backward`."""
    flat = FlatModel(nn.Linear(3, 1))
    x_r, plan = torch.linspace(-0.5, 0.5, 4), [[i] for i in range(8)]

    def attempt(end: Callable[[int], Any] = lambda batches: None) -> LocalRound:
        batches = 0
        rnd = LocalRound(
            flat, numbers("FedAvg"), x_r.clone(), on_step=lambda *_: end(batches) != "abandon"
        )
        for batch in rnd.batches(DATA, plan=plan):
            loss_of(rnd, batch).backward()
            batches += 1
            assert end(batches) != "fail"
            if batches % 2 == 0:
                rnd.optimizer().step()
                rnd.optimizer().zero_grad()
        return rnd

    clean = attempt().finish().update
    assert attempt(lambda batches: "abandon" if batches == 3 else None).abandoned
    assert torch.equal(attempt().finish().update, clean)
    with pytest.raises(AssertionError):
        attempt(lambda batches: "fail" if batches == 1 else None)
    assert torch.equal(attempt().finish().update, clean)


@pytest.mark.parametrize("method", ["DOMO", "DOMO-S"])
def test_a_grad_scaler_may_skip_and_changes_nothing(method: str) -> None:
    """The first step overflows and is skipped; gradients are unscaled before the shift."""
    rnd, plain = (local_round(method, module=nn.Linear(3, 1)) for _ in range(2))
    opt = rnd.optimizer()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-117)
    plan = [[9, 8], [0, 1], [2, 3], [4, 5], [6, 7]]
    for batch in rnd.batches(DATA, plan=plan):
        scaler.scale(loss_of(rnd, batch)).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    assert scaler.get_scale() == 2.0**10
    assert torch.equal(rnd.finish().update, train(plain, plan=plan[1:]).update)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_parameters_that_get_no_gradient(set_to_none: bool) -> None:
    rnd = local_round("DOMO-S")
    opt, x_r = rnd.optimizer(), rnd.flat.vector.clone()
    for batch in rnd.batches(DATA):
        opt.zero_grad(set_to_none=set_to_none)
        loss_of(rnd, batch).backward()
        opt.step()
    moved = (x_r - rnd.flat.vector)[4:7]  # `unused`: only the shift, 4 times eta*beta*m_r
    torch.testing.assert_close(moved, torch.full((3,), 4 * 0.05 * 0.5 * 0.1))
    assert rnd.finish().update[4:7].abs().max() < 1e-5


def test_parameters_replaced_before_the_loop() -> None:
    rnd = local_round()
    rnd.model.used.weight = nn.Parameter(torch.zeros(1, 3))
    with pytest.raises(StrayParameterError, match=r"handed over: used\.weight\.") as caught:
        rnd.optimizer()
    assert caught.value.names == ("used.weight",)


def test_a_model_moved_inside_the_loop() -> None:
    rnd = local_round(module=nn.Linear(3, 1))
    opt = rnd.optimizer()
    for batch in rnd.batches(DATA):
        loss_of(rnd, batch).backward()
        opt.step()
        opt.zero_grad()
    rnd.model.double()
    with pytest.raises(StrayParameterError, match="handed over: weight, bias"):
        rnd.finish()


def test_a_stray_model_does_not_start_a_round() -> None:
    flat = FlatModel(nn.Linear(3, 1))
    flat.module.bias = nn.Parameter(torch.zeros(1))
    with pytest.raises(StrayParameterError):
        LocalRound(flat, numbers(), torch.zeros(4))


def test_abandoned() -> None:
    calls: list[int] = []

    def on_step(rnd: LocalRound, done: int) -> bool:
        calls.append(done)
        return done < 2

    rnd = local_round(on_step=on_step)
    with pytest.raises(IncompleteRoundError, match="2 of 4"):
        train(rnd)
    assert rnd.abandoned
    assert calls == [0, 1, 2]


def test_progress_is_told_before_each_batch_and_at_the_end() -> None:
    calls: list[int] = []
    rnd = local_round(on_step=lambda rnd, done: calls.append(done) is None)
    train(rnd)
    assert calls == [0, 1, 2, 3, 4]
    assert not rnd.abandoned


def test_divergence_is_an_error_with_advice() -> None:
    with pytest.raises(DivergenceError, match=r"4 of 4 entries .* smaller local_lr") as caught:
        train(local_round("FedAvg", module=nn.Linear(3, 1), local_lr=1e30))
    assert caught.value.count == 4


def test_finishing_twice_gives_the_same_result() -> None:
    rnd = local_round("DOMO-S-avg")
    result = train(rnd)
    before = result.update.clone()
    assert rnd.finish() is result
    assert torch.equal(result.update, before)


def test_logged_numbers_come_back() -> None:
    rnd = local_round()
    rnd.log(loss=1)
    rnd.log(loss=torch.tensor(2.0), other=3)
    assert train(rnd).metrics == {"loss": 2.0, "other": 3.0}


def test_a_learning_rate_schedule_is_refused() -> None:
    rnd = local_round()
    opt = rnd.optimizer()
    opt.param_groups[0]["lr"] *= 0.5
    for batch in rnd.batches(DATA):
        loss_of(rnd, batch).backward()
        with pytest.raises(RoundError, match="a schedule belongs into its configuration"):
            opt.step()
        break


# --- evaluation ---


def squares(model: nn.Module, batch: Any) -> dict[str, Sum | tuple[float, float]]:
    assert not torch.is_grad_enabled()
    assert not any(m.training for m in model.modules())
    error = (model(batch[0]) - batch[1]).square().sum()
    return {"mse": Sum(float(error), len(batch[0])), "seen": (float(len(batch[0])), 1.0)}


def test_evaluation_is_on_x_r_and_exact() -> None:
    rnd = local_round()
    rnd.model.train()
    rnd.model.norm.eval()
    x_r = rnd.flat.vector.clone()
    means = rnd.evaluate(squares, BatchLoader(DATA).sequential(4))
    assert torch.equal(rnd.flat.vector, x_r)
    rnd.model.eval()
    with torch.no_grad():
        want = float((rnd.model(X) - Y).square().sum())
    rnd.model.train()
    assert means["mse"] == pytest.approx(want / 10)
    assert rnd.evaluation["mse"] == Sum(pytest.approx(want), 10.0)
    assert rnd.evaluation["seen"] == Sum(10.0, 3.0)


def test_evaluation_is_skipped_where_the_run_wants_no_numbers() -> None:
    rnd = local_round(evaluates=False)
    assert rnd.evaluate(squares, BatchLoader(DATA).sequential()) == {}
    assert rnd.evaluation == {}


def test_sums_are_handed_on_at_once() -> None:
    got: list[Any] = []
    flat = FlatModel(Net())
    rnd = LocalRound(flat, numbers("FedAvg"), flat.vector.clone(), on_evaluation=got.append)
    rnd.evaluate(squares, BatchLoader(DATA).sequential())
    assert got == [rnd.evaluation]
    assert got[0]["seen"] == Sum(10.0, 1.0)


def test_several_evaluations_are_reported_together() -> None:
    got: list[Any] = []
    flat = FlatModel(Net())
    rnd = LocalRound(
        flat, numbers("FedAvg"), flat.vector.clone(), on_evaluation=lambda s: got.append({**s})
    )
    rnd.evaluate(squares, BatchLoader(DATA).sequential())
    assert rnd.evaluate(lambda m, b: {"rare": (1.0, 2.0), "seen": (8.0, 4.0)}, [X]) == {
        "rare": 0.5,
        "seen": 2.0,
    }
    assert [set(sums) for sums in got] == [{"mse", "seen"}, {"mse", "seen", "rare"}]
    assert got[1]["seen"] == Sum(8.0, 4.0)


def test_evaluation_leaves_each_module_in_its_mode() -> None:
    rnd = local_round()
    rnd.model.train()
    rnd.model.norm.eval()
    rnd.evaluate(squares, BatchLoader(DATA).sequential())
    modes = [m.training for m in rnd.model.modules()]
    assert modes == [True, True, True, False]
    with pytest.raises(ZeroDivisionError):
        rnd.evaluate(lambda m, b: {"x": (1 / 0, 1.0)}, BatchLoader(DATA).sequential())
    assert [m.training for m in rnd.model.modules()] == modes


def test_evaluation_belongs_before_the_loop() -> None:
    rnd = local_round()
    for _ in rnd.batches(DATA):
        with pytest.raises(RoundError, match=r"evaluate\(\) belongs before the batch loop"):
            rnd.evaluate(squares, BatchLoader(DATA).sequential())
        break
    with pytest.raises(RoundError):
        rnd.evaluate(squares, [])


def test_a_round_that_only_evaluates_gives_no_batches() -> None:
    rnd = local_round(num_steps=0)
    assert rnd.evaluate(squares, BatchLoader(DATA).sequential())
    assert list(rnd.batches(DATA)) == []


def test_kernels_are_plain_values() -> None:
    assert numbers().kernel == Kernel(0.5, 0.5, 0.5, 1.0, 0.0, "pre", "reset")


def test_what_a_loop_of_ones_own_gives_is_said_in_words() -> None:
    rnd = local_round()
    with pytest.raises(TaskError, match=r"must give metric -> \(sum, count\), and gives 0\.5"):
        rnd.evaluate(lambda model, batch: 0.5, [torch.zeros(1)])
    with pytest.raises(TaskError, match="must be a sum and its count"):
        rnd.evaluate(lambda model, batch: {"accuracy": 0.5}, [torch.zeros(1)])
    with pytest.raises(TaskError, match="list_iterator is no map-style dataset"):
        next(rnd.batches(iter([1, 2])))
