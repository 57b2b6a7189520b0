"""Models and tasks as people have them: each trains, or is refused before round 1 in words.

None ends in an error of torch's alone, and none in silence.
"""

import itertools
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import domo
from domo.simulation import SimulationResult
from domo.training.task_errors import text_of

INF = float("inf")
WORKS = ""
X = torch.linspace(-1, 1, 160).view(40, 4)
Y = torch.arange(40) % 3


class Plain:
    """A linear classifier of four numbers, and all that a row changes."""

    made: Callable[[], Any] = staticmethod(lambda: nn.Linear(4, 3))

    def build_model(self) -> Any:
        return self.made()

    def train_data(self, root: Any, shard: Any) -> Any:
        return TensorDataset(X, Y)

    def eval_data(self, root: Any, shard: Any) -> Any:
        return TensorDataset(X, Y)

    loss: Any = staticmethod(domo.cross_entropy_loss)
    evaluate: Any = staticmethod(domo.classification_sums)


def model(build: Callable[[], Any]) -> Plain:
    return type("Task", (Plain,), {"made": staticmethod(build)})()


def task(**methods: Any) -> Plain:
    static = {name: staticmethod(of) for name, of in methods.items()}
    return type("Task", (Plain,), static)()


def data(train: Any, test: Any = None) -> Plain:
    tests = TensorDataset(X, Y) if test is None else test
    given = {"train_data": lambda root, shard: train, "eval_data": lambda root, shard: tests}
    return task(**given)


def measured(value: Any) -> Plain:
    return task(evaluate=lambda m, b: value)


def run(tried: Any, **settings: Any) -> SimulationResult:
    """Two silos, two rounds, as `domo simulate` does them."""
    given = {"num_rounds": 2, "num_silos": 2, "batch_size": 8, "local_lr": 0.05, **settings}
    return domo.simulate(tried, **given)


def buffered(**buffers: Tensor) -> nn.Module:
    layer = nn.Linear(4, 3)
    for name, value in buffers.items():
        layer.register_buffer(name, value)
    return layer


class Hidden(nn.Module):
    """A layer between two, made by a row."""

    def __init__(self, between: nn.Module):
        super().__init__()
        self.first, self.between, self.last = nn.Linear(4, 8), between, nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(self.first(x)))
        return out


class Attention(nn.Module):
    """A causal transformer block over the four numbers, its mask of -inf among the buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Linear(1, 8), nn.Linear(8, 3)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.register_buffer("mask", torch.full((4, 4), -INF).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.block(self.embed(x[..., None]), src_mask=self.mask)
        out: Tensor = self.out(hidden.mean(1))
        return out


class Words(nn.Module):
    """An embedding table of which a batch touches few rows."""

    def __init__(self, **how: Any):
        super().__init__()
        self.table, self.out = nn.Embedding(50, 4, **how), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.table((10 * x.abs()).long()).mean(1))
        return out


class Replaced(nn.Linear):
    """A parameter that `forward` puts another one in the place of."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.weight = nn.Parameter(0.9 * self.weight.detach())
        self.bias = nn.Parameter(0.9 * self.bias.detach())
        return super().forward(x)


class Changing(nn.Module):
    """A buffer that `forward` assigns anew."""

    def __init__(self, grows: bool = False):
        super().__init__()
        self.layer, self.grows = nn.Linear(4, 3), grows
        self.register_buffer("ema", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            ema = 0.9 * self.ema[:4] + 0.1 * x.mean(0)
            self.ema = torch.cat([ema, ema]) if self.grows else ema
        out: Tensor = self.layer(x - self.ema[:4])
        return out


class Adapter(nn.Module):
    """Two narrow matrices beside a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(4, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.base(x) + self.up(self.down(x))
        return out


class Teacher(nn.Module):
    """A frozen copy that follows the model."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.teacher.weight.data.mul_(0.9).add_(self.layer.weight.detach(), alpha=0.1)
        out: Tensor = self.layer(x) + self.teacher(x)
        return out


class Unfreezing(nn.Module):
    """A frozen layer that is to be trained later."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.first.requires_grad_(True)
        out: Tensor = self.last(self.first(x))
        return out


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 5, num_layers=2, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.lstm.flatten_parameters()
        out: Tensor = self.out(self.lstm(x[..., None])[0][:, -1])
        return out


class Keeps(nn.Linear):
    def get_extra_state(self) -> Any:
        return {"calls": 3}

    def set_extra_state(self, state: Any) -> None:
        pass


def tied() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 3))
    net[2].weight = net[0].weight
    return net


def shared() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(4, 3))


def half_frozen() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    net[0].requires_grad_(False)
    return net


def unused() -> nn.Module:
    net = nn.Linear(4, 3)
    net.idle = nn.Linear(2, 2)
    return net


def empty_parameter() -> nn.Module:
    net = nn.Linear(4, 3)
    net.none = nn.Parameter(torch.zeros(0, 4))
    return net


def hooked() -> nn.Module:
    net = nn.Linear(4, 3)
    net.register_forward_hook(lambda module, given, out: 2 * out)
    net.register_full_backward_hook(lambda module, into, out: None)
    return net


def initialised() -> nn.Module:
    net = nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(3))
    net(torch.zeros(2, 4))
    return net


def quantised() -> nn.Module:
    net = nn.Linear(4, 3)
    net.register_buffer("q", torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8))
    return net


def not_finite() -> nn.Module:
    net = nn.Linear(4, 3)
    with torch.no_grad():
        net.weight[0, 0] = math.nan
    return net


def inference() -> nn.Module:
    with torch.inference_mode():
        ready = torch.arange(3.0)
    return buffered(table=ready)


MODELS: dict[str, tuple[Any, str]] = {
    "a causal mask of -inf among the buffers": (model(Attention), WORKS),
    "NaN among the buffers": (model(lambda: buffered(b=torch.tensor([math.nan, 1.0]))), WORKS),
    "a buffer that forward assigns anew": (model(Changing), WORKS),
    "a parameter that forward assigns anew": (
        model(Replaced),
        "parameters were replaced or moved after the model was handed over: weight",
    ),
    "a buffer that forward makes larger": (
        model(lambda: Changing(True)),
        "the model has changed since the run began: ema was a buffer float32[4] and is a buffer",
    ),
    "a buffer that is not persistent": (
        model(lambda: nn.Sequential(OrderedDict(a=nn.Linear(4, 3), b=Scratch()))),
        WORKS,
    ),
    "a buffer made by expand": (
        model(lambda: buffered(b=torch.tensor(2.0).expand(5))),
        WORKS,
    ),
    "a buffer made in inference mode": (model(inference), WORKS),
    "a float64 buffer that float32 holds": (
        model(lambda: buffered(b=torch.tensor([0.5, INF]).double())),
        WORKS,
    ),
    "a float64 buffer that float32 would round": (
        model(lambda: buffered(b=torch.tensor([0.1], dtype=torch.float64))),
        "tensor b is float64 with values that float32 cannot hold",
    ),
    "float16 and complex buffers": (
        model(lambda: buffered(h=torch.ones(2).half(), c=torch.ones(2, dtype=torch.complex64))),
        WORKS,
    ),
    "a sparse buffer": (
        model(lambda: buffered(s=torch.eye(3).to_sparse())),
        "tensor s is sparse, and travels only as a dense tensor",
    ),
    "a quantised buffer": (model(quantised), "tensor q is quint8, and travels only as a dense"),
    "nn.Embedding(sparse=True)": (model(lambda: Words(sparse=True)), WORKS),
    "nn.Embedding(max_norm=1), which changes weights in forward": (
        model(lambda: Words(max_norm=1.0)),
        WORKS,
    ),
    "tied weights": (model(tied), WORKS),
    "a module in two places": (model(shared), WORKS),
    "frozen parameters": (model(half_frozen), WORKS),
    "a frozen teacher that follows the model": (
        model(Teacher),
        "the frozen parameter teacher.weight changes in training, and would not travel",
    ),
    "a layer that is unfrozen later": (
        model(Unfreezing),
        "first.weight was a frozen parameter float32[4, 4] and is a parameter float32[4, 4]",
    ),
    "pruned weights": (
        model(lambda: prune.random_unstructured(nn.Linear(4, 3), "weight", 0.5)),
        WORKS,
    ),
    "an observer that begins at inf and -inf": (model(lambda: Hidden(Ranged())), WORKS),
    "an adapter on frozen weights": (model(Adapter), WORKS),
    "all parameters frozen": (
        model(lambda: nn.Linear(4, 3).requires_grad_(False)),
        "no trainable parameter (requires_grad is off for all)",
    ),
    "a module without a parameter": (
        model(nn.Flatten),
        "the model has no trainable parameter: it has no tensor",
    ),
    "parameters that forward does not use": (model(unused), WORKS),
    "a parameter without entries": (model(empty_parameter), WORKS),
    "float64 parameters": (
        model(lambda: nn.Linear(4, 3).double()),
        "parameter weight is float64; domo keeps float32 master weights",
    ),
    "float16 parameters": (
        model(lambda: nn.Linear(4, 3).half()),
        "parameter weight is float16; domo keeps float32 master weights",
    ),
    "bfloat16 parameters": (
        model(lambda: nn.Linear(4, 3).bfloat16()),
        "parameter weight is bfloat16; domo keeps float32 master weights",
    ),
    "complex parameters": (
        model(lambda: nn.Linear(4, 3, dtype=torch.complex64)),
        "parameter weight is complex64; domo keeps float32 master weights",
    ),
    "parameters that are not finite": (model(not_finite), "parameter weight has values that are"),
    "lazy modules": (
        model(lambda: nn.LazyLinear(3)),
        "weight has no shape yet (a lazy module): run a batch through the model in build_model",
    ),
    "lazy modules that have seen a batch": (model(initialised), WORKS),
    "parameters on the device meta": (
        model(lambda: nn.Linear(4, 3, device="meta")),
        "the model is on the device meta: its parameters have no values",
    ),
    "state beside the tensors (get_extra_state)": (
        model(lambda: nn.Sequential(Keeps(4, 3))),
        "0 keeps state of its own (get_extra_state), which would stay behind",
    ),
    "a compiled model": (
        model(lambda: torch.compile(nn.Linear(4, 3), backend="eager")),
        WORKS,
    ),
    "nn.DataParallel": (model(lambda: nn.DataParallel(nn.Linear(4, 3))), WORKS),
    "a model in eval mode": (model(lambda: Hidden(nn.BatchNorm1d(8)).eval()), WORKS),
    "BatchNorm": (model(lambda: Hidden(nn.BatchNorm1d(8))), WORKS),
    "weight_norm as a parametrization": (
        model(lambda: parametrizations.weight_norm(nn.Linear(4, 3))),
        WORKS,
    ),
    "spectral_norm as a parametrization": (
        model(lambda: parametrizations.spectral_norm(nn.Linear(4, 3))),
        WORKS,
    ),
    "spectral_norm of old": (model(lambda: nn.utils.spectral_norm(nn.Linear(4, 3))), WORKS),
    "an LSTM that flattens its parameters": (model(Recurrent), WORKS),
    "module hooks": (model(hooked), WORKS),
    "TorchScript": (model(lambda: torch.jit.trace(nn.Linear(4, 3), X[:2])), WORKS),
    "dropout": (model(lambda: Hidden(nn.Dropout(0.5))), WORKS),
    "build_model that gives None": (
        model(lambda: None),
        "build_model() must give a torch.nn.Module, and gives None",
    ),
    "build_model that gives a class": (
        model(lambda: nn.Linear),
        "build_model() must give a torch.nn.Module, and gives an object of type type",
    ),
    "build_model that gives a state dict": (
        model(lambda: nn.Linear(4, 3).state_dict()),
        "and gives an object of type OrderedDict",
    ),
    "build_model that raises": (
        model(lambda: 1 // 0),
        "build_model() fails: ZeroDivisionError: integer division or modulo by zero",
    ),
    "a forward that does not fit the data": (
        model(lambda: nn.Linear(5, 3)),
        "silo-0: evaluate(model, batch) fails: RuntimeError: mat1 and mat2 shapes",
    ),
}


class Ranged(nn.Module):
    """What quantisation keeps of its inputs: the least and the largest value."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("least", torch.tensor(INF))
        self.register_buffer("most", torch.tensor(-INF))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.least = torch.minimum(self.least, x.detach().min())
            self.most.copy_(torch.maximum(self.most, x.detach().max()))
        return x


class Scratch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return x


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(TensorDataset(X, Y))


class Sized(Dataset[Any]):
    """Items by index, and a length that a row gives."""

    def __init__(self, length: Any, item: Callable[[int], Any] = lambda i: (X[i], Y[i])):
        self.length, self.item = length, item

    def __len__(self) -> Any:
        return self.length() if callable(self.length) else self.length

    def __getitem__(self, index: int) -> Any:
        return self.item(index)


def raises(*_: Any) -> Any:
    raise OSError("the drive is gone")


def later(of: Callable[..., Any], after: int) -> Callable[..., Any]:
    """The same, until it has been called so often."""
    calls = itertools.count()
    return lambda *given: of(*given) if next(calls) < after else raises()


def named_inputs(net: nn.Module, batch: Any) -> Tensor:
    return functional.cross_entropy(net(batch["x"]), batch["y"])


IN_NAMES = task(
    train_data=lambda root, shard: Sized(40, lambda i: {"x": X[i], "y": Y[i]}),
    eval_data=lambda root, shard: None,
    loss=named_inputs,
)
ONE_HOT = functional.one_hot(Y, 3).float()
LOGITS = task(loss=lambda m, b: functional.mse_loss(m(b[0]).mean(1), b[1].float()))

DATA: dict[str, tuple[Any, str]] = {
    "items that are dicts": (IN_NAMES, WORKS),
    "items that are arrays of numpy": (
        data(Sized(40, lambda i: (X[i].numpy(), np.int64(Y[i])))),
        WORKS,
    ),
    "labels of Python's int": (data(Sized(40, lambda i: (X[i], int(Y[i])))), WORKS),
    "labels that are one-hot": (
        task(
            train_data=lambda root, shard: TensorDataset(X, ONE_HOT),
            eval_data=lambda root, shard: None,
        ),
        WORKS,
    ),
    "labels that are floats": (
        data(Sized(40, lambda i: (X[i], float(Y[i])))),
        "silo-0: loss(model, batch) fails: RuntimeError: ",
    ),
    "labels outside the classes": (
        data(TensorDataset(X, Y + 5)),
        "silo-0: loss(model, batch) fails: IndexError: Target 5 is out of bounds. Labels are "
        "numbered from 0, and the model has no output for this one",
    ),
    "a list in place of a dataset": (data([(X[i], Y[i]) for i in range(40)]), WORKS),
    "an iterable dataset": (
        data(Stream()),
        "Stream is no map-style dataset: it has to have a length, and items by index",
    ),
    "a DataLoader in place of a dataset": (
        data(torch.utils.data.DataLoader(TensorDataset(X, Y), batch_size=8)),
        "DataLoader is no map-style dataset",
    ),
    "a generator": (data(X[i] for i in range(3)), "generator is no map-style dataset"),
    "train_data that gives None": (data(None), "None is no map-style dataset"),
    "train_data that raises": (
        task(train_data=raises),
        "train_data(root, shard) fails: OSError: the drive is gone",
    ),
    "a length that raises": (
        data(Sized(raises)),
        "the dataset of train_data cannot be read: OSError: the drive is gone",
    ),
    "a length that is no number": (
        data(Sized("forty")),
        "the dataset of train_data cannot be read: TypeError: 'str' object cannot be",
    ),
    "an empty dataset": (data(Sized(0)), "the training data of silo-0 are empty"),
    "items of unequal lengths": (
        data(Sized(40, lambda i: (X[i, : 1 + i % 3], Y[i]))),
        "samples of train_data cannot be put into a batch: RuntimeError: stack expects each",
    ),
    "items that are None": (
        data(Sized(40, lambda i: None)),
        "samples of train_data cannot be put into a batch: TypeError: default_collate",
    ),
    "an item that raises": (
        data(Sized(40, lambda i: raises())),
        "samples of train_data cannot be put into a batch: OSError: the drive is gone",
    ),
    "inputs that are NaN": (
        data(TensorDataset(X * math.nan, Y)),
        "loss(model, batch) is nan on the first batch: look for samples that are not finite",
    ),
    "a test set that is empty": (data(TensorDataset(X, Y), Sized(0)), WORKS),
    "no test set": (task(eval_data=lambda root, shard: None), WORKS),
    "a last batch of one sample": (data(TensorDataset(X[:33], Y[:33])), WORKS),
    "a last batch of one sample, with BatchNorm": (
        type(
            "Lone",
            (Plain,),
            {
                "made": staticmethod(lambda: Hidden(nn.BatchNorm1d(8))),
                "train_data": lambda self, root, shard: TensorDataset(X[:33], Y[:33]),
            },
        )(),
        "fails with a batch of one sample, which is the last of 33 samples by 8: ValueError: Ex",
    ),
}

LOSSES: dict[str, tuple[Any, str]] = {
    "a loss of each sample": (
        task(loss=lambda m, b: functional.cross_entropy(m(b[0]), b[1], reduction="none")),
        "loss(model, batch) must give one number, and gives a tensor of shape [8]: take its mean",
    ),
    "a loss that is a number of Python": (
        task(loss=lambda m, b: domo.cross_entropy_loss(m, b).item()),
        "as a tensor, and gives 1.",
    ),
    "a loss that is detached": (
        task(loss=lambda m, b: domo.cross_entropy_loss(m, b).detach()),
        "must give one number with a gradient, and this one has none: leave out .detach()",
    ),
    "a loss of None": (
        task(loss=lambda m, b: None),
        "must give one number with a gradient, as a tensor, and gives None",
    ),
    "a loss with its outputs, as a tuple": (
        task(loss=lambda m, b: (domo.cross_entropy_loss(m, b), m(b[0]))),
        "as a tensor, and gives an object of type tuple",
    ),
    "a loss that is NaN": (
        task(loss=lambda m, b: domo.cross_entropy_loss(m, b) * math.nan),
        "loss(model, batch) is nan on the first batch",
    ),
    "a loss of shape [1]": (
        task(loss=lambda m, b: domo.cross_entropy_loss(m, b).view(1)),
        WORKS,
    ),
    "a loss in float64": (task(loss=lambda m, b: domo.cross_entropy_loss(m, b).double()), WORKS),
    "a loss in bfloat16": (
        task(loss=lambda m, b: domo.cross_entropy_loss(m, b).bfloat16()),
        WORKS,
    ),
    "a loss of another model": (
        task(loss=lambda m, b: torch.ones((), requires_grad=True) * 2),
        "loss(model, batch) reaches no parameter of the model",
    ),
    "a loss whose gradient is not finite": (
        task(loss=lambda m, b: (m(b[0]) * 0).abs().sqrt().mean()),
        "the gradient of weight is not finite on the first batch",
    ),
    "a loss that has no backward": (
        task(loss=lambda m, b: Stuck.apply(m(b[0])).mean()),
        "loss(model, batch).backward() fails: NotImplementedError: it has none",
    ),
    "a loss that raises later": (
        task(loss=later(domo.cross_entropy_loss, 5)),
        "round 1, silo-0: OSError: the drive is gone",
    ),
    "a loss that calls backward itself": (
        task(loss=lambda m, b: backward_too(m, b)),
        "loss(model, batch).backward() fails: RuntimeError: Trying to backward through",
    ),
    "autocast to bfloat16 inside the loss": (
        task(loss=lambda m, b: in_bfloat16(m, b)),
        WORKS,
    ),
}


class Stuck(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("it has none")


def backward_too(net: nn.Module, batch: Any) -> Tensor:
    loss = domo.cross_entropy_loss(net, batch).square()
    loss.backward()
    return loss


def in_bfloat16(net: nn.Module, batch: Any) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return domo.cross_entropy_loss(net, batch)


def hits(net: nn.Module, batch: Any) -> Tensor:
    return (net(batch[0]).argmax(1) == batch[1]).sum()


MEASURED: dict[str, tuple[Any, str]] = {
    "evaluate: a number": (
        measured(0.9),
        "evaluate(model, batch) must give metric -> (sum, count), and gives 0.9",
    ),
    "evaluate: None": (measured(None), "must give metric -> (sum, count), and gives None"),
    "evaluate: a tuple": (measured((3, 8)), "and gives an object of type tuple"),
    "evaluate: plain numbers by name": (
        measured({"accuracy": 0.9}),
        "evaluate(model, batch)['accuracy'] must be (sum, count), and is 0.9: give domo.Sum(total",
    ),
    "evaluate: a scalar of numpy": (
        measured({"f1": np.float64(0.5)}),
        "['f1'] must be (sum, count), and is 0.5: give domo.Sum",
    ),
    "evaluate: a tensor of one number": (
        measured({"accuracy": torch.tensor(0.9)}),
        "['accuracy'] must be (sum, count), and is a tensor of shape []: give domo.Sum",
    ),
    "evaluate: a tensor of many numbers": (
        measured({"accuracy": torch.ones(8)}),
        "['accuracy'] must be (sum, count), and is a tensor of shape [8]",
    ),
    "evaluate: a text": (measured({"accuracy": "12"}), "must be (sum, count), and is a text"),
    "evaluate: a dict of dicts": (
        measured({"all": {"accuracy": (3, 8)}}),
        "['all'] must be (sum, count), and is an object of type dict",
    ),
    "evaluate: NaN": (measured({"x": (math.nan, 8)}), "['x'] is (nan, 8) on the first batch"),
    "evaluate: a count below 0": (measured({"x": (3, -8)}), "['x'] is (3, -8) on the first"),
    "evaluate: a count of 0, of a class that is not there": (
        task(evaluate=lambda m, b: {"accuracy": (hits(m, b), len(b[1])), "rare": (0, 0)}),
        WORKS,
    ),
    "evaluate: names that are no text": (
        measured({3: (3, 8)}),
        "evaluate(model, batch)[3]: the name of a metric is a text",
    ),
    "evaluate: nothing, though there are test data": (
        measured({}),
        "gives no metric, though there are test data: give domo.Sum(total, num)",
    ),
    "evaluate: sums as tensors": (
        task(evaluate=lambda m, b: {"accuracy": (hits(m, b), torch.tensor(len(b[1])))}),
        WORKS,
    ),
    "evaluate: it raises": (
        task(evaluate=raises),
        "evaluate(model, batch) fails: OSError: the drive is gone",
    ),
    "evaluate: a set, which has no order": (
        measured({"accuracy": {3, 8}}),
        "['accuracy'] must be (sum, count), and is an object of type set",
    ),
    "evaluate: it raises later": (
        task(evaluate=later(domo.classification_sums, 3)),
        "round 1, silo-1: OSError: the drive is gone",
    ),
    "augment: it raises": (
        task(augment=raises),
        "augment(batch, generator) fails: OSError: the drive is gone",
    ),
}

PLAN = "batch_plan(round_index, num_steps)"
PLANS: dict[str, tuple[Any, str]] = {
    "a plan of lists": (task(batch_plan=lambda r, n: [[0, 1, 2]] * n), WORKS),
    "a plan without an end": (task(batch_plan=lambda r, n: itertools.repeat([0, 5])), WORKS),
    "a plan as an array": (task(batch_plan=lambda r, n: np.zeros((n, 2), int)), WORKS),
    "a plan that leaves the order as it is": (task(batch_plan=lambda r, n: None), WORKS),
    "a plan of numbers": (
        task(batch_plan=lambda r, n: list(range(n))),
        f"{PLAN} must give lists of the indices of samples, and gives 0",
    ),
    "a plan of texts": (
        task(batch_plan=lambda r, n: ["ab"] * n),
        f"{PLAN} must give lists of the indices of samples: ValueError",
    ),
    "a plan with too few batches": (
        task(batch_plan=lambda r, n: [[0]]),
        f"{PLAN} gives 1 batch, and a round has 5 steps",
    ),
    "a plan with an empty batch": (
        task(batch_plan=lambda r, n: [[]] * n),
        f"{PLAN} gives a batch without samples",
    ),
    "a plan of samples that are not there": (
        task(batch_plan=lambda r, n: [[1000]] * n),
        f"{PLAN} names sample 1000, and there are 40: 0 to 39",
    ),
    "a plan that raises": (task(batch_plan=raises), f"{PLAN} fails: OSError: the drive is gone"),
    "a plan that is no method": (
        type("Task", (Plain,), {"batch_plan": [[0]]})(),
        f"{PLAN} fails: TypeError: 'list' object is not callable",
    ),
    "meaning: it raises": (
        task(meaning=raises),
        "meaning(root, shard) of the task fails: OSError: the drive is gone",
    ),
}

KINDS = {**MODELS, **DATA, **LOSSES, **MEASURED, **PLANS}


def outcome(tried: Any) -> str:
    """What becomes of a task: what it says, or how far it came."""
    try:
        result = run(tried)
    except domo.DomoError as error:
        return f"refused: {text_of(error).partition(': ')[2]}"
    assert torch.isfinite(result.x).all()
    moved = [r.made_by.train_loss for r in result.history if r.made_by]
    tested = [r for r in result.history if r.metrics]
    return f"trains: {len(moved)} rounds, {len(tested)} models tested"


@pytest.mark.filterwarnings("ignore")  # torch's own, of what is old
@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_or_is_refused_before_round_1_in_words(kind: str) -> None:
    tried, text = KINDS[kind]
    rounds: list[int] = []
    if text == WORKS:
        result = run(tried)
        assert torch.isfinite(result.x).all()
        fresh = tried.build_model()
        inner = getattr(fresh, "_orig_mod", getattr(fresh, "module", fresh))
        assert result.state_dict.keys() == inner.state_dict().keys()
        return
    with pytest.raises(domo.DomoError) as caught:
        domo.simulate(
            tried, num_silos=2, num_rounds=2, batch_size=8, on_model=lambda r: rounds.append(1)
        )
    assert text in str(caught.value)
    assert rounds == []
    assert "Traceback" not in str(caught.value)


class Renamed(nn.Module):
    """What keeps its state under other names, and some of it not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(4), nn.Linear(4, 3)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.out.state_dict(*args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.norm(x))
        return out


def test_buffers_travel_whatever_a_model_s_own_state_dict_has() -> None:
    result = run(model(Renamed))
    assert result.state_dict["norm.num_batches_tracked"] == 10
    assert result.state_dict["norm.running_mean"].any()


class Listed(nn.Module):
    """Layers in a list that the module knows nothing of."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.out = [nn.Linear(4, 8), nn.Linear(8, 4)], nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.out(x)
        return out


def test_layers_that_the_model_does_not_hold_are_said(caplog: pytest.LogCaptureFixture) -> None:
    run(model(Listed))
    assert "the loss reaches 4 parameters that the model does not hold" in caplog.text
    caplog.clear()
    run(model(lambda: nn.Linear(4, 3)))
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_test_number_that_is_not_finite_is_said(caplog: pytest.LogCaptureFixture) -> None:
    spoilt = later(lambda m, b: {"loss": domo.Sum(1, 2)}, 3)

    def evaluate(net: nn.Module, batch: Any) -> Any:
        try:
            return spoilt(net, batch)
        except OSError:
            return {"loss": domo.Sum(math.nan, 2)}

    run(task(evaluate=evaluate))
    assert "metric 'loss' of x_0 is not finite at silo-1" in caplog.text


def test_a_sparse_embedding_trains_to_the_bytes_of_a_dense_one() -> None:
    made = [
        run(model(lambda how=how: Words(sparse=how)), weight_decay=1e-3) for how in (True, False)
    ]
    assert torch.equal(made[0].x, made[1].x)
    assert torch.equal(made[0].m, made[1].m)
