"""Batches are a function of where they are, and come from any kind of dataset."""

import itertools
import os
import sys
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils import deterministic
from torch.utils.data import TensorDataset

from domo.errors import (
    IncompleteRoundError,
    RoundError,
)
from domo.outside.faults import NO_SHARED_MEMORY
from domo.training.batches import (
    BatchLoader,
    configure_torch,
    random_plan,
    to_device,
    torch_as_it_was,
)
from domo.training.task_errors import text_of
from tests.support.played.one_round import DATA, X, Y, local_round, loss_of, train


def test_a_plan_is_a_fresh_permutation_with_its_short_last_batch() -> None:
    plan = list(itertools.islice(random_plan(10, 4, 0, "a", 0), 6))
    assert [len(b) for b in plan] == [4, 4, 2, 4, 4, 2]
    first, second = (list(itertools.chain(*plan[i : i + 3])) for i in (0, 3))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert plan == list(itertools.islice(random_plan(10, 4, 0, "a", 0), 6))


@pytest.mark.parametrize("other", [(1, "a", 0), (0, "b", 0), (0, "a", 1)])
def test_plans_differ_by_seed_silo_and_round(other: tuple[int, str, int]) -> None:
    assert next(random_plan(50, 50, 0, "a", 0)) != next(random_plan(50, 50, *other))


def test_a_plan_for_less_than_a_batch() -> None:
    assert [sorted(b) for b in itertools.islice(random_plan(3, 8, 0, "a", 0), 2)] == [[0, 1, 2]] * 2


def test_the_global_generator_is_seeded_for_each_batch() -> None:
    """Dropout does not depend on what else used random numbers."""

    def draws(disturb: bool) -> list[float]:
        rnd, out = local_round(), []
        for batch in rnd.batches(DATA):
            out.append(float(torch.rand(())))
            if disturb:
                torch.rand(17)
            loss_of(rnd, batch).backward()
            rnd.optimizer().step()
        return out

    assert draws(False) == draws(True)
    assert len(set(draws(False))) == 4


def test_augmentation_is_per_batch_and_deterministic() -> None:
    def noise(batch: Any, generator: torch.Generator) -> Any:
        return batch[0] + torch.randn(batch[0].shape, generator=generator), batch[1]

    def batches(**changes: Any) -> list[Tensor]:
        rnd, out = local_round(**changes), []
        opt = rnd.optimizer()
        for batch in rnd.batches(DATA, augment=noise, plan=[[0, 1]] * 4):
            out.append(batch[0] - X[:2])
            opt.step()
        return out

    first = batches()
    assert all(torch.equal(a, b) for a, b in zip(first, batches(), strict=True))
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(first))
    assert not torch.equal(first[0], batches(silo_id="b")[0])
    assert not torch.equal(first[0], batches(round_index=3)[0])


def test_configure_torch() -> None:
    try:
        configure_torch(1)
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
        assert not deterministic.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)
        deterministic.fill_uninitialized_memory = True


def test_torch_s_compiler_is_told_whether_it_is_loaded_before_or_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_DETERMINISTIC", "of the user's")
    loaded = SimpleNamespace(deterministic=False)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", loaded)
    with torch_as_it_was():
        configure_torch(1)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["TORCHINDUCTOR_DETERMINISTIC"] == "1"
        assert loaded.deterministic
    assert deterministic.fill_uninitialized_memory
    assert os.environ["TORCHINDUCTOR_DETERMINISTIC"] == "of the user's"
    assert not loaded.deterministic
    monkeypatch.delenv("TORCHINDUCTOR_DETERMINISTIC")
    with torch_as_it_was():
        configure_torch(1)
    assert "TORCHINDUCTOR_DETERMINISTIC" not in os.environ


def test_this_process_reads_batches_without_torch_s_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domo.training.batches.DataLoader", None)
    assert len(list(BatchLoader(DATA).sequential(4))) == 3


class Pair(NamedTuple):
    inputs: Tensor
    labels: list[Tensor]


def test_batches_of_any_shape_are_moved() -> None:
    device = torch.device("meta")
    batch = {"x": (torch.zeros(2), [torch.ones(1)]), "n": 3, "p": Pair(torch.zeros(1), [X])}
    moved = to_device(batch, device)
    assert moved["x"][0].is_meta
    assert moved["x"][1][0].is_meta
    assert moved["n"] == 3
    assert isinstance(moved["p"], Pair)
    assert moved["p"].inputs.is_meta
    assert moved["p"].labels[0].is_meta


def test_a_whole_pass_in_order() -> None:
    got = [b[0] for b in BatchLoader(DATA).sequential(4)]
    assert [len(b) for b in got] == [4, 4, 2]
    assert torch.equal(torch.cat(got), X)


def test_an_own_plan_replaces_the_permutation() -> None:
    rnd = local_round(num_steps=2)
    opt, seen = rnd.optimizer(), []
    for batch in rnd.batches(DATA, plan=[[3, 3], [1]]):
        seen.append(batch[0])
        opt.step()
    assert torch.equal(seen[0], X[[3, 3]])
    assert torch.equal(seen[1], X[[1]])


def test_a_plan_that_ends_early_is_an_incomplete_round() -> None:
    rnd = local_round()
    with pytest.raises(IncompleteRoundError, match="2 of 4"):
        train(rnd, plan=[[0, 1], [2, 3]])


def test_an_empty_dataset_is_refused() -> None:
    rnd = local_round()
    with pytest.raises(RoundError, match="the training data is empty"):
        next(iter(rnd.batches(TensorDataset(X[:0], Y[:0]))))


@pytest.mark.parametrize(
    "raised",
    [
        "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call "
        "last):\nRuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_0>",
        "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that its "
        "workers are out of shared memory. Please try to raise the limit.",
    ],
)
def test_a_batch_without_room_says_what_to_do(raised: str) -> None:
    assert text_of(RuntimeError(raised)) == NO_SHARED_MEMORY
