"""Rounding to 16 bits, what it leaves, and what float32 does not notice."""

import numpy as np
import pytest
import torch
from torch import Tensor

from domo import fold
from domo.errors import DivergenceError
from domo.run_config import UpdateDtype
from domo.training.round_data import LocalResult
from domo.update_format import (
    decode,
    encode,
    encode_result,
    itemsize,
    round_off,
    torch_dtype,
)

SIXTEEN: list[UpdateDtype] = ["bfloat16", "float16"]
N = fold.BLOCK + 1001


def spread(seed: int, n: int = N) -> Tensor:
    """Both signs, magnitudes from below the smallest float16 to near the largest."""
    source = torch.Generator().manual_seed(seed)
    exponent = torch.randint(-30, 13, (n,), generator=source)
    return torch.randn(n, generator=source) * torch.pow(2.0, exponent.float())


def expected_bits(v: Tensor, update_dtype: UpdateDtype) -> np.ndarray:
    """Round to nearest even without torch."""
    if update_dtype == "float16":
        return v.numpy().astype(np.float16).view(np.uint16)
    bits = v.numpy().view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bits(q: Tensor) -> np.ndarray:
    return q.view(torch.int16).numpy().view(np.uint16)


def same_bytes(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def test_dtypes_and_their_sizes() -> None:
    assert [torch_dtype(u) for u in SIXTEEN] == [torch.bfloat16, torch.float16]
    assert torch_dtype("float32") == torch.float32
    assert [itemsize(u) for u in ("float32", *SIXTEEN)] == [4, 2, 2]


@pytest.mark.parametrize(
    ("update_dtype", "ulp"), [("bfloat16", 2.0**-7), ("float16", 2.0**-10)], ids=SIXTEEN
)
def test_ties_go_to_even(update_dtype: UpdateDtype, ulp: float) -> None:
    d = torch.tensor([1 + ulp / 2, 1 + 3 * ulp / 2, -1 - ulp / 2, 1 + ulp / 2 + 2.0**-20, 3.0])
    q, left = encode(d, None, update_dtype)
    assert left is not None
    assert decode(q).tolist() == [1.0, 1 + 2 * ulp, -1.0, 1 + ulp, 3.0]
    assert left.tolist() == [ulp / 2, -ulp / 2, -ulp / 2, 2.0**-20 - ulp / 2, 0.0]


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_every_entry_is_rounded_to_nearest_even(update_dtype: UpdateDtype) -> None:
    d, e = spread(0), 0.01 * spread(1)
    v = d + e
    q, left = encode(d.clone(), e, update_dtype)
    assert q.dtype == torch_dtype(update_dtype)
    assert np.array_equal(bits(q), expected_bits(v, update_dtype))
    assert left is not None
    assert torch.equal(left.double(), v.double() - q.double()), "v - q is exact"
    assert torch.equal(decode(q) + left, v), "nothing is lost"
    assert int((left != 0).sum()) > N // 2


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_the_residual_of_the_round_is_only_read(update_dtype: UpdateDtype) -> None:
    """So a round that is done again sends the same bytes; the next residual is where d was."""
    d, e = spread(2), 0.01 * spread(3)
    first, again, before = d.clone(), d.clone(), e.clone()
    q, left = encode(first, e, update_dtype)
    assert same_bytes(e, before)
    assert left is not None
    assert left.data_ptr() == first.data_ptr()
    q_again, left_again = encode(again, e, update_dtype)
    assert left_again is not None
    assert same_bytes(q, q_again)
    assert same_bytes(left, left_again)
    q_next, _ = encode(d.clone(), left, update_dtype)
    assert not same_bytes(q, q_next), "the next round starts from another residual"


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_no_residual_is_one_of_zeros(update_dtype: UpdateDtype) -> None:
    d = torch.cat([torch.tensor([-0.0, 0.0, -1e-30]), spread(4, 100)])
    one, two = encode(d.clone(), None, update_dtype), encode(d, torch.zeros(103), update_dtype)
    assert one[1] is not None
    assert two[1] is not None
    assert same_bytes(one[0], two[0])
    assert same_bytes(one[1], two[1])


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_blocks_one_by_one_are_the_whole(
    update_dtype: UpdateDtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, e = spread(5, 1001), 0.01 * spread(6, 1001)
    q, left = encode(d.clone(), e, update_dtype)
    assert left is not None
    pieces = [encode(d[lo : lo + 7].clone(), e[lo : lo + 7], update_dtype) for lo in (0, 7, 994)]
    for lo, (part, rest) in zip((0, 7, 994), pieces, strict=True):
        assert rest is not None
        assert same_bytes(part, q[lo : lo + 7])
        assert same_bytes(rest, left[lo : lo + 7])
    m = round_off(d, update_dtype)
    monkeypatch.setattr(fold, "BLOCK", 64)
    assert same_bytes(round_off(d, update_dtype), m)
    assert same_bytes(encode(d, e, update_dtype)[0], q)


def test_float16_is_clamped_and_later_rounds_send_the_rest() -> None:
    d = torch.tensor([65504.0, 65519.0, 65520.0, 1e5, -2e5, 1.0])
    q, left = encode(d, None, "float16")
    assert left is not None
    assert q.tolist() == [65504.0] * 4 + [-65504.0, 1.0]
    assert left.tolist() == [0.0, 15.0, 16.0, 34496.0, -134496.0, 0.0]
    sent = decode(q).double()
    for _ in range(4):
        q, left = encode(torch.zeros(6), left, "float16")
        sent += decode(q).double()
    assert sent.tolist() == [65504.0, 65519.0, 65520.0, 1e5, -2e5, 1.0]


def test_bfloat16_is_clamped_where_it_would_round_up_to_infinity() -> None:
    d = torch.tensor([3.4e38, -3.4e38])
    q, left = encode(d.clone(), None, "bfloat16")
    assert left is not None
    most = torch.finfo(torch.bfloat16).max
    assert q.tolist() == [most, -most]
    assert torch.equal(decode(q).double() + left.double(), d.double())


@pytest.mark.parametrize("update_dtype", SIXTEEN)
@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_is_refused(update_dtype: UpdateDtype, bad: float) -> None:
    with pytest.raises(DivergenceError, match="has 2 non-finite entries") as caught:
        encode(torch.tensor([1.0, bad, bad]), None, update_dtype)
    assert caught.value.count == 2
    with pytest.raises(DivergenceError, match="local momentum has 1 non-finite entries"):
        round_off(torch.tensor([1.0, bad]), update_dtype)


def test_a_sum_beyond_float32_is_refused() -> None:
    with pytest.raises(DivergenceError, match="what earlier rounds left of it, has 1 non-finite"):
        encode(torch.tensor([3e38, 1.0]), torch.tensor([3e38, 1.0]), "float16")


def test_vectors_that_do_not_fit_are_refused() -> None:
    for d, e in (
        (torch.ones(3), torch.ones(1)),
        (torch.ones(3, dtype=torch.bfloat16), None),  # encoded already
        (torch.ones(3, dtype=torch.float64), None),
    ):
        with pytest.raises(ValueError, match="float32 vectors of one length"):
            encode(d, e, "bfloat16")


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_the_local_momentum_is_rounded_without_feedback(update_dtype: UpdateDtype) -> None:
    m = spread(7)
    before = m.clone()
    q = round_off(m, update_dtype)
    assert same_bytes(m, before)
    assert np.array_equal(bits(q), expected_bits(m, update_dtype))
    assert round_off(torch.tensor([1e6]), "float16").tolist() == [65504.0]


def test_float32_is_left_alone() -> None:
    """Not a byte changes, -0.0 and what is not finite included; there is no copy either."""
    d = torch.cat([torch.tensor([-0.0, float("inf"), float("nan")]), spread(8)])
    before = d.clone()
    q, left = encode(d, None, "float32")
    assert q is d
    assert left is None
    assert round_off(d, "float32") is d
    assert decode(d) is d
    assert same_bytes(d, before)


@pytest.mark.parametrize("update_dtype", SIXTEEN)
def test_the_fold_of_decoded_blocks_is_that_of_float32_vectors(update_dtype: UpdateDtype) -> None:
    qs = [round_off(spread(s), update_dtype) for s in (9, 10, 11)]
    omegas = [1.0, 3.0, 0.7]
    readers = [lambda lo, hi, q=q: decode(q[lo:hi]) for q in qs]
    whole = fold.average([lambda lo, hi, v=q.float(): v[lo:hi] for q in qs], omegas, N)
    made = fold.average(readers, omegas, N)
    assert made.dtype == torch.float32
    assert same_bytes(made, whole)


@pytest.mark.parametrize("averages", [True, False])
def test_a_result_is_encoded_as_its_vectors_are(averages: bool) -> None:
    d, m, e = spread(12, 50), spread(13, 50), 0.01 * spread(14, 50)
    buffers, counts = torch.randn(3), torch.tensor([1, 2], dtype=torch.uint8)
    result = LocalResult(d.clone(), m.clone() if averages else None, buffers, counts, 4)
    kept = encode_result(result, e, "bfloat16")
    q, want = encode(d, e, "bfloat16")
    assert list(kept) == ["residual"]
    assert want is not None
    assert same_bytes(result.update, q)
    assert same_bytes(kept["residual"], want)
    if averages:
        assert result.momentum is not None
        assert same_bytes(result.momentum, m.bfloat16())
    else:
        assert result.momentum is None
    assert result.float_buffers is buffers
    assert result.integer_buffers is counts
    with pytest.raises(ValueError, match="float32"):
        encode_result(result, e, "bfloat16")


@pytest.mark.parametrize("update_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("corrected", [True, False])
def test_what_corrects_gradients_follows_from_what_is_sent(
    update_dtype: UpdateDtype, corrected: bool
) -> None:
    d, s = spread(12, 50), spread(13, 50) if corrected else None
    result = LocalResult(d.clone(), None, torch.empty(0), torch.empty(0, dtype=torch.uint8), 4)
    result.correction, result.pulled = s, 0.25
    kept = encode_result(result, None, update_dtype)
    expected = result.update.float() * 0.25
    assert same_bytes(kept["control"], expected if s is None else expected - s)
    assert ("residual" in kept) == (update_dtype != "float32")
