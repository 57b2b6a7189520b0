"""What a coordinator may ask for again, and how often with something else in it."""

from dataclasses import replace
from typing import Any

import pytest

from domo.run_config import RunConfig
from domo_client.loop.header import MOST_WAYS_BACK, Agreed
from domo_client.rpc.offer import ContradictionError, Offer
from domo_proto.assignment import Action, Announced, Assignment
from domo_proto.codec import VectorId

CONFIG = RunConfig(task="digits", method="DOMO", num_rounds=9, num_silos=1, local_steps=2)
KERNEL = CONFIG.kernel
SCALE = KERNEL.alpha * CONFIG.local_lr * KERNEL.lr_scale * 2
PARTS = (VectorId.X, VectorId.X_PREV, VectorId.MEAN_MOMENTUM, VectorId.FLOAT_BUFFERS)


def agreed() -> Agreed:
    return Agreed(Offer("1-r", "r", "digits", CONFIG), "site-a", "trainer", 10, 5)


def asked(action: Action, r: int, **versions: int) -> Assignment[Announced]:
    """An assignment whose vectors are in these versions; else in that of the round."""
    trains = action is Action.TRAIN
    parts = PARTS if trains and r else (VectorId.X, VectorId.FLOAT_BUFFERS)
    parts = tuple(v for v in parts if KERNEL.average or v is not VectorId.MEAN_MOMENTUM)
    vectors = {v: Announced(4, bytes([v.value, versions.get(v.name, r)] * 8)) for v in parts}
    rest: dict[str, Any] = {"num_steps": 2, "local_lr": 0.05} if trains else {"evaluate": True}
    if trains and r:
        rest["inference_scale"] = SCALE
    return Assignment(action, "1-r", r, 9, vectors=vectors, **rest)


def times_taken(it: Agreed, told: list[Assignment[Announced]]) -> int:
    """How many of them it takes before it refuses the run."""
    for n, one in enumerate(told):
        try:
            it.check(one)
        except ContradictionError:
            return n
    return len(told)


@pytest.mark.parametrize("vector", ["X", "X_PREV", "FLOAT_BUFFERS"])
def test_a_round_that_comes_again_with_another_start_is_another_round(vector: str) -> None:
    """x_{r-1} alone decides where DOMO begins; buffers are a part of what is measured."""
    told = [asked(Action.TRAIN, 1, **{vector: n}) for n in range(20)]
    assert times_taken(agreed(), told) == 1 + MOST_WAYS_BACK


def test_a_round_that_comes_again_as_it_was_is_made_again() -> None:
    assert times_taken(agreed(), [asked(Action.TRAIN, 1)] * 20) == 20


@pytest.mark.parametrize("action", [Action.EVALUATE, Action.TRAIN])
def test_a_model_is_tested_once(action: Action) -> None:
    """A test of any model that the coordinator likes says something of any sample."""
    it = agreed()
    told = [asked(Action.EVALUATE, 3, X=n) for n in range(1, 1 + MOST_WAYS_BACK)]
    told += [replace(asked(action, 3, X=100 + n), evaluate=True) for n in range(20)]
    assert times_taken(it, told) == 1 + MOST_WAYS_BACK


def test_a_run_goes_its_way_and_a_crash_takes_it_back_a_round() -> None:
    it, told = agreed(), []
    for r in range(9):
        told += [asked(Action.EVALUATE, r), replace(asked(Action.TRAIN, r), evaluate=True)]
        told += [asked(Action.TRAIN, r - 1), asked(Action.TRAIN, r)] if r else []
    assert times_taken(it, [*told, asked(Action.EVALUATE, 9)]) == len(told) + 1
