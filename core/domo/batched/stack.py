"""The weights of K silos in one vector, parameter after parameter, silo after silo in each.

A parameter of all silos is one contiguous tensor of shape (K, *shape), as batched products want it;
and one local step is the stock step on a vector of K*n entries (`domo.algorithm.LocalSGD`).
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from domo.batched.layers import Chosen, batch_layers
from domo.model.flat import FlatModel
from domo.model.layout import Section, tensors_of
from domo.model.wrappers import plain


class Stack:
    """A model of K silos.

    Args:
        flat: A model of one silo; it is copied.
        num: K.

    Attributes:
        module: Takes the batch of all silos; see `domo.batched.layers`.
        chosen: Which of the silos a batch is of.
        vector: All weights, shape (K*n,).
        params: The parameters, each of shape (K, *shape); they tile `vector`.
    """

    def __init__(self, flat: FlatModel, num: int):
        module = copy.deepcopy(plain(flat.module))
        entries = flat.layout.section(Section.TRAINABLE)
        held = tensors_of(module)
        self._sizes = [e.numel for e in entries]
        self.num, self.chosen = num, Chosen(num)
        self.vector = flat.vector.new_empty(num * sum(self._sizes))
        parts = torch.split(self.vector, [num * size for size in self._sizes])
        self.params = [
            nn.Parameter(part.view(num, *e.shape)) for part, e in zip(parts, entries, strict=True)
        ]
        stacks = {id(held[e.name][0]): p for e, p in zip(entries, self.params, strict=True)}
        self.module = batch_layers(module, stacks, self.chosen).train()

    def spread(self, vector: Tensor) -> Tensor:
        """The same vector of shape (n,) for every silo: shape (K*n,), as `vector` lies."""
        parts = torch.split(vector.to(self.vector.device), self._sizes)
        return torch.cat([part.repeat(self.num) for part in parts])

    def rows(self, stacked: Tensor) -> Tensor:
        """A vector that lies as `vector` does, silo by silo: shape (K, n), on the CPU."""
        parts = torch.split(stacked, [self.num * size for size in self._sizes])
        return torch.cat([part.view(self.num, -1) for part in parts], 1).cpu()

    def gather(self, vectors: Sequence[Tensor | None]) -> Tensor | None:
        """The reverse of `rows`: vectors of shape (n,), one a silo, None being zeros, or none."""
        there = [v for v in vectors if v is not None]
        if not there:
            return None
        whole = [torch.zeros_like(there[0]) if v is None else v for v in vectors]
        parts = torch.split(torch.stack(whole), self._sizes, 1)
        return torch.cat([part.reshape(-1) for part in parts]).to(self.vector.device)
