"""The same fault again and again is told from others, and from what may pass."""

import pytest
import torch

from domo.errors import DivergenceError
from domo_client.loop import faults
from domo_client.loop.faults import Faults


def fail(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def elsewhere(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def noted(*told: tuple[int, BaseException]) -> list[tuple[int, bool]]:
    counted, seen = Faults(), []
    for r, error in told:
        counted.note(r, error)
        seen.append((counted.times, counted.lasts))
    return seen


def test_the_third_of_the_same_lasts() -> None:
    same = [(1, fail(f"no lead {n} at 0x7f{n}a")) for n in (3, 4, 5, 6)]
    assert noted(*same) == [(1, False), (2, False), (3, True), (4, True)]
    diverged = [(1, DivergenceError("the training loss is not finite", 1))] * 3
    assert noted(*diverged)[-1] == (3, True)


@pytest.mark.parametrize(
    "other", [(2, fail("no lead")), (1, fail("no tail")), (1, elsewhere("no lead"))]
)
def test_another_round_text_or_place_is_another_fault(other: tuple[int, Exception]) -> None:
    one = (1, fail("no lead"))
    assert noted(one, one, other, one) == [(1, False), (2, False), (1, False), (1, False)]


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("x"), OSError(5, "EIO")])
def test_what_may_pass_is_counted_and_never_lasts(error: BaseException) -> None:
    assert noted(*[(0, error)] * 5)[-1] == (5, False)


def test_pauses_grow_to_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "MAX_BACKOFF_S", 5.0)
    counted, pauses = Faults(), []
    for n in range(5):
        counted.note(n, fail("any"))
        pauses.append(counted.pause_s)
    assert pauses == [1, 2, 4, 5, 5]
