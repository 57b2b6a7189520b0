"""Which process has which silos, and how many processes pay."""

import pytest
import torch

from domo.run_config import RunConfig
from domo.simulating import share
from domo.simulating.visit import SimulatedSilo
from domo.tasks.base import ArrayDataset
from domo.training.batches import BatchLoader


def silo(name: str, num_train: int, num_tests: int = 0) -> SimulatedSilo:
    def data(n: int) -> BatchLoader:
        return BatchLoader(ArrayDataset(torch.zeros(n, 2), torch.zeros(n)))

    tests = data(num_tests) if num_tests else None
    return SimulatedSilo(name, data(num_train) if num_train else None, tests)


CONFIG = RunConfig(task="linear", num_rounds=2, num_silos=4, batch_size=4)


def test_equal_silos_are_dealt_out_in_turn() -> None:
    silos = [silo(c, 40) for c in "abcde"]
    assert share.balanced(CONFIG, silos, 2) == [[0, 2, 4], [1, 3]]
    assert share.balanced(CONFIG, silos, 9) == [[0], [1], [2], [3], [4]]


def test_a_large_one_has_a_process_to_itself() -> None:
    silos = [silo("a", 20), silo("b", 100), silo("c", 20), silo("d", 20), silo("z", 0, 30)]
    assert share.balanced(CONFIG, silos, 2) == [[1], [0, 2, 3, 4]]


def test_a_step_costs_three_passes_of_its_batch_and_a_test_one() -> None:
    one = silo("a", 40, 10)
    assert share.work(CONFIG, one, 5, tests=True) == 3 * 5 * 4 + 10
    assert share.work(CONFIG, one, 0, tests=False) == 0


def test_processes_pay_where_they_save_twice_what_they_cost() -> None:
    most = 2 * share.START_S
    assert share.pays(2.01 * most, 2)
    assert not share.pays(1.99 * most, 2)
    assert share.pays(1.2 * most, 16)


def test_no_more_than_silos_or_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "cores", lambda config: 8)
    assert share.most_here(CONFIG, "cpu", 16) == (8, "")
    assert share.most_here(CONFIG, "cpu", 3) == (3, "")
    assert share.most_here(CONFIG, "cuda", 16) == (1, "all silos are computed on cuda")
    assert share.most_here(CONFIG, "cpu", 1)[0] == 1


def test_threads_of_a_run_take_cores_from_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert share.cores(CONFIG) == 8
    assert share.cores(CONFIG.model_copy(update={"threads": 3})) == 2
    assert share.cores(CONFIG.model_copy(update={"threads": 16})) == 1
