"""Layers that hold the weights of K silos, and work on the batches of all of them in one call.

The samples of K silos lie in one batch, sample i of silo k at row i*K + k. What has no weights
(activations, pooling, reshaping, a module's own `forward`) works on samples, whosever they are, and
stays as it is; only layers with trainable weights are replaced. So K convolutions are one grouped
convolution on a view of the same memory, and K linear layers one batched product of matrices.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from domo.model.wrappers import plain


class Chosen:
    """Which silos the batch is of: all by default, or those of `index`, in its order."""

    def __init__(self, num: int):
        self.num = self._all = num
        self.index: Tensor | None = None

    def choose(self, index: Tensor | None) -> None:
        """Take some silos; None: all."""
        self.index = index
        self.num = self._all if index is None else len(index)

    def __call__(self, weights: Tensor) -> Tensor:
        """Their weights, shape (silos, ...)."""
        return weights if self.index is None else weights[self.index]


class StackedLayer(nn.Module):
    """A layer whose weights have a first dimension more, of silos.

    Args:
        layer: The layer that it takes the place of.
        weights: Names of its parameters, to tensors of shape (K, *shape).
        chosen: Which silos the batch is of.
    """

    def __init__(self, layer: nn.Module, weights: Mapping[str, Tensor], chosen: Chosen):
        super().__init__()
        self.layer = {"": layer}  # hidden from torch: its own weights are nobody's
        self.weights, self.chosen = dict(weights), chosen
        self.run = LAYERS[type(layer)]

    def forward(self, x: Tensor) -> Tensor:
        """A batch of shape (b*K, ...), and the same of the layer's outputs."""
        weights = {name: self.chosen(w) for name, w in self.weights.items()}
        return self.run(self.layer[""], x, self.chosen.num, **weights)


def _linear(layer: Any, x: Tensor, num: int, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rest = x.shape[1:-1]
    rows = x.reshape(-1, num, rest.numel(), x.shape[-1]).transpose(0, 1).flatten(1, 2)
    turned = rows.transpose(1, 2)  # so that the weights' gradient lies as they do
    out = weight.bmm(turned) if bias is None else bias.unsqueeze(2).baddbmm(weight, turned)
    out = out.view(num, out.shape[1], -1, rest.numel()).permute(2, 0, 3, 1)
    return out.reshape(-1, *rest, out.shape[-1])


def _conv2d(layer: Any, x: Tensor, num: int, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    side_by_side = x.reshape(-1, num * x.shape[1], *x.shape[2:])
    out = functional.conv2d(
        side_by_side,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        layer.stride,
        layer.padding,
        layer.dilation,
        num * layer.groups,
    )
    return out.reshape(len(x), -1, *out.shape[2:])


def _group_norm(layer: Any, x: Tensor, num: int, weight: Tensor, bias: Tensor) -> Tensor:
    side_by_side = x.reshape(-1, num * x.shape[1], *x.shape[2:])
    groups, eps = num * layer.num_groups, layer.eps
    return functional.group_norm(
        side_by_side, groups, weight.flatten(), bias.flatten(), eps
    ).reshape(x.shape)


def _layer_norm(
    layer: Any, x: Tensor, num: int, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    out = functional.layer_norm(x, layer.normalized_shape, None, None, layer.eps)
    shape = (num, *(1 for _ in x.shape[1 : x.dim() - len(layer.normalized_shape)]))
    out = out.view(-1, num, *x.shape[1:]) * weight.view(*shape, *layer.normalized_shape)
    if bias is not None:
        out = out + bias.view(*shape, *layer.normalized_shape)
    return out.view_as(x)


def _embedding(layer: Any, x: Tensor, num: int, weight: Tensor) -> Tensor:
    first = x.new_tensor(range(0, num * layer.num_embeddings, layer.num_embeddings))
    at = x.view(-1, num, *x.shape[1:]) + first.view(num, *(1 for _ in x.shape[1:]))
    return functional.embedding(at.view_as(x), weight.flatten(0, 1))


LAYERS: Mapping[type[nn.Module], Callable[..., Tensor]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv2d,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
}
"""Layers with weights that can be batched."""


def why_not(module: nn.Module) -> str | None:
    """Why a module's layers cannot be batched over silos; None: nothing is known against it."""
    for name, layer in plain(module).named_modules():
        kind = type(layer).__name__
        what = f"the layer {name} ({kind})" if name else f"the model ({kind})"
        trained = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if isinstance(layer, nn.modules.batchnorm._NormBase):
            return f"{what} takes its statistics over a batch, which holds all silos here"
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0:
            return f"{what} drops at random, and would drop others here"
        if trained and type(layer) not in LAYERS:
            known = ", ".join(t.__name__ for t in LAYERS)
            return f"{what} has weights of its own; known are {known}"
        if getattr(layer, "padding_mode", "zeros") != "zeros":
            return f"{what} pads with something else than zeros"
        if isinstance(layer, nn.Embedding) and (
            layer.padding_idx is not None or layer.max_norm is not None or layer.sparse
        ):
            return f"{what} has padding_idx, max_norm or sparse gradients"
    return None


def batch_layers(module: nn.Module, stacks: Mapping[int, Tensor], chosen: Chosen) -> nn.Module:
    """Put batched layers in the place of those that are trained.

    Args:
        module: It is changed.
        stacks: The id of each trainable parameter, to a tensor of shape (K, *shape).
        chosen: Which silos the batch is of.

    Returns:
        The module, or what stands in its place.
    """
    made: dict[int, nn.Module] = {}
    for layer in module.modules():
        own = dict(layer.named_parameters(recurse=False))
        if any(id(p) in stacks for p in own.values()):
            weights = {
                n: stacks[id(p)] if id(p) in stacks else p.detach().expand(chosen.num, *p.shape)
                for n, p in own.items()
            }
            made[id(layer)] = StackedLayer(layer, weights, chosen)
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if child is not None and id(child) in made:
                parent._modules[name] = made[id(child)]
    return made.get(id(module), module)
