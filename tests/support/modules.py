"""Small modules with all that a model may have."""

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """A linear layer that is used, one that is not, and batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(3, 1)
        self.unused = nn.Linear(2, 1)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.used(self.norm(x))
        return out


class Everything(nn.Module):
    """One tensor of each kind, in dtypes that are not the usual ones, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 2)
        self.frozen = nn.Parameter(torch.tensor([1.5, -2.0], dtype=torch.float16), False)
        self.b = nn.Linear(3, 2, bias=False)
        self.b.weight = self.a.weight
        self.register_buffer("mean", torch.tensor([[0.25], [0.5]], dtype=torch.float64))
        self.register_buffer("seen", torch.tensor(3))
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("scratch", torch.zeros(4), persistent=False)
