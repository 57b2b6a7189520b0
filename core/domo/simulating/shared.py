"""Memory that several processes see: the vectors of a round, and what silos are made of.

It has no name in the file system, so nothing of it is left, however a process ends.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import torch
from torch import Tensor

from domo.model.flat import byte_view
from domo.model.layout import Layout, Section
from domo.model.private import private_size
from domo.run_config import RunConfig
from domo.update_format import torch_dtype

ALIGNED = 64
"""Bytes; where a vector begins."""

Spec = Mapping[str, tuple[int, torch.dtype]]
"""Names of vectors, their lengths and dtypes."""


def sent_spec(config: RunConfig, layout: Layout) -> Spec:
    """What goes to all silos in a round: x_r, x_{r-1}, mbar_r, c_r, buffers."""
    n = layout.num_params
    spec = {"x": (n, torch.float32), "x_prev": (n, torch.float32)}
    if config.kernel.average:
        spec["mbar"] = (n, torch.float32)
    if config.kernel.tells_control:
        spec["c"] = (n, torch.float32)
    return spec | _buffers(layout)


def back_spec(config: RunConfig, layout: Layout) -> Spec:
    """What a silo gives in a round: d_k, m_{k,P}, what it keeps, buffers."""
    n, dtype = layout.num_params, torch_dtype(config.update_dtype)
    spec = {"update": (n, dtype)}
    if config.kernel.average:
        spec["momentum"] = (n, dtype)
    spec |= {
        name: (size, torch.float32)
        for name, size in config.kept_sizes(n, private_size(layout)).items()
    }
    return spec | _buffers(layout)


def _buffers(layout: Layout) -> dict[str, tuple[int, torch.dtype]]:
    floats, integers = Section.FLOAT_BUFFER, Section.INTEGER_BUFFER
    return {
        floats.value: (layout.num_bytes(floats) // 4, torch.float32),
        integers.value: (layout.num_bytes(integers), torch.uint8),
    }


def shared_block(num_bytes: int) -> Tensor:
    """Bytes that other processes see once they are handed the tensor.

    Raises:
        RuntimeError: The machine, or its container, has not so much shared memory.
    """
    storage = torch.UntypedStorage._new_shared(max(1, num_bytes))  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def room_for(specs: Iterable[Spec]) -> int:
    """Bytes that the vectors of some specs take, one after another."""
    return sum(_up(n * dtype.itemsize) for spec in specs for n, dtype in spec.values())


def cut(block: Tensor, specs: Iterable[Spec]) -> Iterator[dict[str, Tensor]]:
    """The vectors of each spec: views of the block."""
    at = 0
    for spec in specs:
        named = {}
        for name, (n, dtype) in spec.items():
            named[name] = block[at : at + n * dtype.itemsize].view(dtype)
            at += _up(n * dtype.itemsize)
        yield named


def _up(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNED) * ALIGNED


class Packed(NamedTuple):
    """Objects as they go to several processes: each of their arrays lies in memory once for all.

    Attributes:
        text: The pickle, without the contents of arrays and tensors.
        block: The contents, one after another.
        sizes: Bytes of each.
    """

    text: bytes
    block: Tensor
    sizes: Sequence[int]


def pack(value: Any) -> Packed:
    """Objects for other processes.

    Raises:
        Exception: Of whatever kind: something in it cannot be pickled, or there is no room.
    """
    out, buffers = BytesIO(), list[pickle.PickleBuffer]()
    _Packer(out, protocol=5, buffer_callback=buffers.append).dump(value)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    block = shared_block(sum(map(_up, sizes)))
    at = 0
    for view in views:
        if view.nbytes:
            block.numpy()[at : at + view.nbytes] = memoryview(view)
        at += _up(view.nbytes)
    return Packed(out.getvalue(), block, sizes)


def unpack(packed: Packed) -> Any:
    """The objects again; their arrays are views of the common memory."""
    whole, at, views = byte_view(packed.block), 0, []
    for size in packed.sizes:
        views.append(whole[at : at + size])
        at += _up(size)
    return pickle.loads(packed.text, buffers=views)


class _Storage:
    """The memory of one tensor, or of several: pickle sees one object, and packs it once."""

    def __init__(self, tensor: Tensor):
        self._raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return _memory, (pickle.PickleBuffer(byte_view(self._raw)),)


class _Packer(pickle.Pickler):
    """Pickles plain tensors as numpy does its arrays: their contents apart."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._storages: dict[int, _Storage] = {}

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or not _is_plain(value):
            return NotImplemented
        address = value.untyped_storage().data_ptr()
        if address not in self._storages:
            self._storages[address] = _Storage(value)
        where = (value.storage_offset(), value.size(), value.stride())
        return _tensor, (self._storages[address], value.dtype, *where)


def _is_plain(tensor: Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.untyped_storage().nbytes() > 0
    )


def _memory(buffer: Any) -> Tensor:
    return torch.frombuffer(buffer, dtype=torch.uint8)


def _tensor(memory: Tensor, dtype: torch.dtype, at: int, size: Any, stride: Any) -> Tensor:
    return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), at, size, stride)
