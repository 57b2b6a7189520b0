"""CPU memory that a GPU reads and writes by itself: page-locked, so nobody waits for a copy."""

import torch
from torch import Tensor


def to_host(*vectors: Tensor | None) -> list[Tensor | None]:
    """Vectors on the CPU; those of a GPU are copied all at once, into page-locked memory.

    Args:
        vectors: On any device; one that is on the CPU comes back as it is.
    """
    out = [None if v is None else _copy(v) for v in vectors]
    for device in {v.device for v in vectors if v is not None and v.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    return out


def _copy(vector: Tensor) -> Tensor:
    if not vector.is_cuda:
        return vector.cpu()
    here = torch.empty(vector.shape, dtype=vector.dtype, pin_memory=True)
    return here.copy_(vector, non_blocking=True)


def page_locked(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor to be copied to a device; from the CPU to a GPU: one that need not be waited for."""
    strided = tensor.layout == torch.strided
    on_its_way = device.type == "cuda" and tensor.device.type == "cpu" and strided
    return tensor.pin_memory() if on_its_way else tensor
