import numpy as np
import pytest
import torch
from torch import Tensor

from domo.fold import PIECE, average, average_values, dot
from tests.support.played.replay import reader


def test_huge_values_are_summed_in_float64() -> None:
    a = np.full(PIECE + 1, 3e30, dtype=np.float32)
    assert dot(a, a) == pytest.approx((PIECE + 1) * float(a[0]) ** 2)
    assert dot(a, -a) == -dot(a, a)


INF, NAN = float("inf"), float("nan")


def values(*silos: list[float]) -> tuple[Tensor, int]:
    return average_values([reader(torch.tensor(v)) for v in silos], [0.1, 0.7, 0.4], len(silos[0]))


def test_what_all_agree_in_is_no_mean() -> None:
    same = torch.cat([torch.linspace(-3, 3, 1000), torch.tensor([-INF, NAN, -0.0])])
    made, bad = values(*[same.tolist()] * 3)
    assert (torch.equal(made.view(torch.int32), same.view(torch.int32)), bad) == (True, 0)
    assert not torch.equal(average([reader(same)] * 3, [0.1, 0.7, 0.4], 1000), same[:1000])


def test_where_they_differ_it_is_the_mean_and_has_to_be_finite() -> None:
    made, bad = values([1.0, 2.0, -INF], [1.0, 3.0, -INF], [1.0, 2.0, -INF])
    assert bad == 0
    assert made[[0, 2]].tolist() == [1.0, -INF]
    assert made[1] == pytest.approx((0.1 * 2 + 0.7 * 3 + 0.4 * 2) / 1.2)
    assert values([1.0, -INF, 1e38], [2.0, -INF, 2e38], [2.0, 0.0, 1e38])[1] == 1
    assert average_values([reader(torch.empty(0))], [1.0], 0)[0].numel() == 0
