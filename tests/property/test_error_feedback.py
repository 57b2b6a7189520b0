"""The sum of what is sent follows the sum of what was trained, one rounding apart at most."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from domo.run_config import UpdateDtype
from domo.update_format import (
    decode,
    encode,
    round_off,
    torch_dtype,
)

N = 33
SIXTEEN: list[UpdateDtype] = ["bfloat16", "float16"]


def updates(seed: int, rounds: int, scale: float, drift: float) -> list[Tensor]:
    """d_k of each round: noise around something constant, float32."""
    source = torch.Generator().manual_seed(seed)
    mean = drift * torch.randn(N, generator=source)
    return [scale * (mean + torch.randn(N, generator=source)) for _ in range(rounds)]


def half_unit(v: Tensor, update_dtype: UpdateDtype) -> Tensor:
    """Half the distance of neighbours in the type, at each entry of v."""
    kind = torch.finfo(torch_dtype(update_dtype))
    binade = torch.pow(2.0, torch.floor(torch.log2(v.abs().clamp(min=kind.smallest_normal))))
    return binade * kind.eps / 2


@pytest.mark.parametrize("update_dtype", SIXTEEN)
@given(
    seed=st.integers(0, 10_000),
    rounds=st.integers(1, 60),
    exponent=st.integers(-18, 8),
    drift=st.sampled_from([0.0, 1.0, 10.0]),
)
def test_the_sum_that_is_sent_is_within_one_rounding(
    update_dtype: UpdateDtype, seed: int, rounds: int, exponent: int, drift: float
) -> None:
    trained, sent = torch.zeros(N, dtype=torch.float64), torch.zeros(N, dtype=torch.float64)
    adding = torch.zeros(N, dtype=torch.float64)  # float32's own rounding of d + e
    residual: Tensor | None = None
    for d in updates(seed, rounds, 2.0**exponent, drift):
        v = d if residual is None else d + residual
        adding += torch.finfo(torch.float32).eps / 2 * v.abs().double()
        trained += d.double()
        q, residual = encode(d.clone(), residual, update_dtype)
        sent += decode(q).double()
        assert residual is not None
        apart = (sent - trained).abs()
        assert bool((apart <= half_unit(v, update_dtype).double() + adding).all())
        assert bool(((trained - sent - residual.double()).abs() <= adding).all())


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_without_feedback_it_is_not(update_dtype: UpdateDtype) -> None:
    """A constant that lies between two numbers of the type is rounded the same way every time."""
    half = half_unit(torch.ones(N), update_dtype)
    d, rounds = 1 + half / 2, 40
    alone = rounds * (decode(round_off(d, update_dtype)) - d).abs()
    assert torch.equal(alone, rounds * half / 2)
    sent, residual = torch.zeros(N), None
    for _ in range(rounds):
        q, residual = encode(d.clone(), residual, update_dtype)
        sent += decode(q)
    assert bool(((sent - rounds * d).abs() <= half).all())
