import numpy as np
import pytest

from domo.fold import PIECE, dot


def test_huge_values_are_summed_in_float64() -> None:
    a = np.full(PIECE + 1, 3e30, dtype=np.float32)
    assert dot(a, a) == pytest.approx((PIECE + 1) * float(a[0]) ** 2)
    assert dot(a, -a) == -dot(a, a)
