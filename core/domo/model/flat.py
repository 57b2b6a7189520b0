"""A module bound to one vector, and what the bytes of vectors are named by."""

from collections.abc import Mapping
from typing import Any

import torch
import xxhash
from torch import Tensor, nn

from domo.errors import StrayParameterError, TaskError
from domo.model.layout import Layout, Section, tensors_of


def as_bytes(tensors: list[Tensor]) -> Tensor:
    """Tensors of any dtype as one uint8 vector, little-endian, in order."""
    parts = [t.detach().cpu().contiguous().view(-1).view(torch.uint8) for t in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def byte_view(vector: Tensor) -> memoryview:
    """The bytes of a contiguous CPU vector, without a copy."""
    array: Any = vector.detach().contiguous().view(torch.uint8).numpy()
    return memoryview(array)


def digest(vector: Tensor) -> str:
    """Hex xxh3-128 of a vector's bytes: names content, and finds damage. It is no signature."""
    return xxhash.xxh3_128_hexdigest(byte_view(vector))


def combine(digests: Mapping[str, str]) -> str:
    """Hex xxh3-128 of named digests, in the order of the names."""
    text = "".join(f"{name}:{digests[name]};" for name in sorted(digests))
    return xxhash.xxh3_128_hexdigest(text.encode())


def digest_all(vectors: Mapping[str, Tensor]) -> str:
    """Hex digest of several vectors and their names."""
    return combine({name: digest(v) for name, v in vectors.items()})


class FlatModel:
    """A module whose trainable parameters are views into one flat float32 vector.

    Attributes:
        module: The module; its parameters were re-bound in place.
        layout: Where each tensor lies.
        vector: The weights, shape (n,), float32, on the module's device.
        params: The trainable parameters in the vector's order.
    """

    def __init__(self, module: nn.Module):
        self.module = module
        self.layout = Layout.of(module)
        tensors = tensors_of(module)
        trainable = [tensors[e.name][0] for e in self.layout.section(Section.TRAINABLE)]
        devices = {t.device for t in trainable}
        if len(devices) != 1:
            raise TaskError(f"the model is spread over devices {sorted(map(str, devices))}")
        self.params = trainable
        self.vector = torch.cat([p.detach().reshape(-1) for p in trainable])
        sizes = [p.numel() for p in trainable]
        for p, view in zip(trainable, torch.split(self.vector, sizes), strict=True):
            p.data = view.view(p.shape)
            p.grad = None
        self._addresses = [p.data_ptr() for p in trainable]
        self._tensors = {s: [t for t, k in tensors.values() if k is s] for s in Section}

    def check(self) -> None:
        """See that every parameter still lies in the vector.

        Raises:
            StrayParameterError: Names those that were replaced or moved.
        """
        if all(p.data_ptr() == a for p, a in zip(self.params, self._addresses, strict=True)):
            current = dict(self.module.named_parameters())
            names = [e.name for e in self.layout.section(Section.TRAINABLE)]
            if all(current.get(n) is p for n, p in zip(names, self.params, strict=True)):
                return
        current = dict(self.module.named_parameters())
        entries = self.layout.section(Section.TRAINABLE)
        stray = [
            e.name
            for e, p, a in zip(entries, self.params, self._addresses, strict=True)
            if current.get(e.name) is not p or p.data_ptr() != a
        ]
        raise StrayParameterError(stray)

    @torch.no_grad()
    def load(self, section: Section, values: Tensor) -> None:
        """Put a section's vector (see `Layout.split`) into the module."""
        if section is Section.TRAINABLE:
            self.vector.copy_(values, non_blocking=self.vector.is_cuda)
            return
        named = self.layout.split(section, values)
        for tensor, value in zip(self._tensors[section], named.values(), strict=True):
            tensor.copy_(value)

    @torch.no_grad()
    def read(self, section: Section) -> Tensor:
        """A copy of a section's vector on the CPU: float32, or bytes for integer and frozen."""
        tensors = self._tensors[section]
        if section is Section.TRAINABLE:
            return self.vector.detach().cpu().clone()
        if section is Section.FLOAT_BUFFER:
            parts = [t.detach().float().reshape(-1) for t in tensors]
            return torch.cat(parts).cpu() if parts else torch.empty(0)
        return as_bytes(tensors)

    def read_all(self) -> dict[Section, Tensor]:
        """Copies of all sections."""
        return {s: self.read(s) for s in Section}
