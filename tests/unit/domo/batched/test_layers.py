"""Layers of K silos in one call give each silo what its own layer gives."""

import pytest
import torch
from torch import nn

from domo.batched.layers import why_not
from domo.batched.stack import Stack
from domo.model.flat import FlatModel
from domo.tasks.models import mlp, resnet20, small_cnn, vgg16

K, B = 3, 4


class Tokens(nn.Module):
    """Embedding, layer norm and tied weights, on sequences."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)
        self.norm = nn.LayerNorm(6)
        self.inner = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.norm(self.inner(self.table(x)))).mean(1)


def inputs(kind):
    torch.manual_seed(1)
    if kind is Tokens:
        return torch.randint(7, (B * K, 5))
    return torch.randn(B * K, *{mlp: (1, 14, 14), small_cnn: (1, 8, 8)}.get(kind, (3, 32, 32)))


@pytest.mark.parametrize("kind", [mlp, small_cnn, resnet20, vgg16, Tokens])
def test_outputs_and_gradients_are_those_of_each_silo_alone(kind):
    torch.manual_seed(0)
    flat = FlatModel(kind())
    stack = Stack(flat, K)
    x, n = inputs(kind), flat.vector.numel()
    own = torch.stack([flat.vector + 0.01 * torch.randn(n) for _ in range(K)])
    with torch.no_grad():
        at = 0
        for p in stack.params:
            size = p[0].numel()
            p.copy_(own[:, at : at + size].view_as(p))
            at += size
    out = stack.module(x)
    out.square().mean().backward()
    found = stack.rows(torch.cat([p.grad.flatten() for p in stack.params]))
    for k in range(K):
        with torch.no_grad():
            flat.vector.copy_(own[k])
        alone = flat.module(x[k::K])
        torch.testing.assert_close(out[k::K], alone, rtol=1e-4, atol=1e-4)
        flat.module.zero_grad()
        alone.square().mean().div(K).backward()
        wanted = torch.cat([p.grad.flatten() for p in flat.params])
        assert (found[k] - wanted).norm() <= 1e-4 * wanted.norm()


def test_some_silos_of_a_stack_are_reached_by_their_places():
    flat = FlatModel(mlp())
    stack = Stack(flat, K)
    with torch.no_grad():
        stack.vector.copy_(stack.spread(flat.vector))
    stack.chosen.choose(torch.tensor([2, 0]))
    stack.module(torch.randn(2 * B, 1, 14, 14)).sum().backward()
    touched = [float(p.grad[k].abs().sum()) > 0 for p in stack.params for k in range(K)]
    assert touched == [True, False, True] * len(stack.params)


def test_frozen_layers_are_everybodys():
    module = mlp()
    module[1].requires_grad_(False)
    module[3].weight.requires_grad_(False)
    flat = FlatModel(module)
    stack = Stack(flat, K)
    with torch.no_grad():
        stack.vector.copy_(stack.spread(flat.vector))
    assert [tuple(p.shape) for p in stack.params] == [(K, 10)]
    x = torch.randn(B * K, 1, 14, 14)
    torch.testing.assert_close(stack.module(x), module(x))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), "statistics over a batch"),
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), "drops at random"),
        (nn.Sequential(nn.LSTM(2, 2)), "has weights of its own"),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="circular")), "pads with something else"),
        (nn.Sequential(nn.Embedding(3, 2, padding_idx=0)), "padding_idx"),
    ],
)
def test_what_cannot_be_batched_is_named(module, said):
    assert said in why_not(module)


def test_dropout_that_drops_nothing_is_no_obstacle():
    assert why_not(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))) is None
