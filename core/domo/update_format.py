"""How d_k and m_{k,P} travel: float32, or 16 bits with error feedback for d_k; and what stays.

With residual e_k, 0 at first and kept at the silo:

    v = d_k + e_k ; q = v rounded to nearest, ties to even ; e_k' = v - q

q is sent and folded as float32; e_k' is exact, so what one round rounds away is in the next one's
v, and the sum of q over the rounds follows the sum of d_k within one rounding. A residual belongs
to its round: a round that is done again starts from the same e_k, and e_k' takes its place once the
round is committed with this silo's update in it. m_{k,P} is rounded without feedback, as every
round makes it anew. Values beyond the range of the type are clamped to it, and e_k' has the rest.

c_k' of SCAFFOLD and h_k' of FedDyn follow from q, and belong to their round as e_k' does.

Silos and simulation call the same functions. All of them work entry by entry, so a vector may be
cut into blocks anywhere.
"""

import torch
from torch import Tensor

from domo.algorithm import following, num_non_finite
from domo.errors import DivergenceError
from domo.fold import ReadBlock, blocks
from domo.run_config import UpdateDtype
from domo.training.round_data import CONTROL, RESIDUAL, LocalResult


def torch_dtype(update_dtype: UpdateDtype) -> torch.dtype:
    """The dtype of the vectors that travel."""
    return getattr(torch, update_dtype)  # type: ignore[no-any-return]


def itemsize(update_dtype: UpdateDtype) -> int:
    """Bytes of an entry on the wire: 4 or 2."""
    return torch_dtype(update_dtype).itemsize


def encode_result(
    result: LocalResult, residual: Tensor | ReadBlock | None, update_dtype: UpdateDtype
) -> dict[str, Tensor]:
    """Put d_k and m_{k,P} of a local round into the form in which they travel.

    Args:
        result: Of `LocalRound.finish`; its vectors are replaced, and so may be encoded only once.
        residual: e_k, as of `encode`.
        update_dtype: How they travel.

    Returns:
        What the silo keeps: e_k', as of `encode`, c_k' or h_k', and the state of its optimizer,
        where the run has them.

    Raises:
        DivergenceError: Something is not finite.
    """
    result.update, left = encode(result.update, residual, update_dtype)
    kept = {} if left is None else {RESIDUAL: left}
    if result.momentum is not None:
        result.momentum = round_off(result.momentum, update_dtype)
    if result.pulled:
        kept[CONTROL] = following(result.correction, result.update, result.pulled)
        result.correction = None
    return kept | result.state


@torch.no_grad()
def encode(
    d: Tensor, residual: Tensor | ReadBlock | None, update_dtype: UpdateDtype
) -> tuple[Tensor, Tensor | None]:
    """Round d_k + e_k to what is sent, and say what that leaves for the next round.

    Under float32 d_k itself is sent and nothing is left. Else d_k is overwritten, with e_k';
    `residual` is only read, so that the round can be done again. Beside the two this takes half of
    d_k for q, and a few blocks.

    Args:
        d: d_k, shape (n,), float32, gradient units. Overwritten.
        residual: e_k, shape (n,), float32, or what reads blocks of it; None for zeros.
        update_dtype: How it travels.

    Returns:
        (q, e_k'), shape (n,): q in the type of the wire, e_k' in the memory of `d`, float32;
        or (d_k, None).

    Raises:
        DivergenceError: d_k + e_k has non-finite entries. `d` is of no use then.
    """
    if d.dtype != torch.float32 or (isinstance(residual, Tensor) and residual.shape != d.shape):
        raise ValueError("needs float32 vectors of one length")
    if update_dtype == "float32":
        return d, None
    q, bad = torch.empty_like(d, dtype=torch_dtype(update_dtype)), 0
    for lo, hi in blocks(d.numel()):
        v = d[lo:hi]
        v.add_(_block(residual, lo, hi))
        v.sub_(_round(v, q[lo:hi]))
        bad += num_non_finite(v)
    if bad:
        text = f"the update, with what earlier rounds left of it, has {bad} non-finite entries"
        raise DivergenceError(text, bad)
    return q, d


@torch.no_grad()
def round_off(m: Tensor, update_dtype: UpdateDtype) -> Tensor:
    """m_{k,P} as it travels: rounded, nothing kept; under float32 m_{k,P} itself.

    Args:
        m: m_{k,P}, shape (n,), float32, gradient units.
        update_dtype: How it travels.

    Raises:
        DivergenceError: m_{k,P} has non-finite entries.
    """
    if update_dtype == "float32":
        return m
    q, bad = torch.empty_like(m, dtype=torch_dtype(update_dtype)), 0
    for lo, hi in blocks(m.numel()):
        _round(m[lo:hi], q[lo:hi])
        bad += num_non_finite(m[lo:hi])
    if bad:
        raise DivergenceError(f"the local momentum has {bad} non-finite entries", bad)
    return q


def decode(q: Tensor) -> Tensor:
    """What the fold reads: a block of any of the types as float32; float32 as it is, no copy."""
    return q.to(torch.float32)


def _block(residual: Tensor | ReadBlock | None, lo: int, hi: int) -> Tensor | float:
    if residual is None:
        return 0.0  # added all the same: -0.0 becomes 0.0 either way
    return residual[lo:hi] if isinstance(residual, Tensor) else residual(lo, hi)


def _round(v: Tensor, q: Tensor) -> Tensor:
    """Round a block of float32 into q; what q is, as float32."""
    most = torch.finfo(q.dtype).max
    return q.copy_(v.clamp(-most, most)).to(torch.float32)
