"""One local round, on ten rows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from domo.methods import Hyperparameters, make_kernel
from domo.model.flat import FlatModel
from domo.training.local_round import LocalRound
from domo.training.round_data import LocalResult, RoundNumbers
from tests.support.modules import Net

X = torch.arange(30.0).view(10, 3) / 10 - 1
Y = X.sum(1, keepdim=True) ** 2
DATA = TensorDataset(X, Y)
HALF = Hyperparameters(0.5, 0.5, 0.5, 1.0)


def numbers(method: str = "DOMO", **changes: Any) -> RoundNumbers:
    values: dict[str, Any] = {
        "silo_id": "a",
        "round_index": 2,
        "num_rounds": 5,
        "num_steps": 4,
        "local_lr": 0.05,
        "batch_size": 4,
        "run_seed": 7,
        "kernel": make_kernel(method, HALF),
        "inference_scale": 0.2,
    }
    return RoundNumbers(**(values | changes))


def local_round(
    method: str = "DOMO",
    module: nn.Module | None = None,
    on_step: Callable[[LocalRound, int], bool] | None = None,
    **changes: Any,
) -> LocalRound:
    """Round 2 of a run, with x_{r-1} = x_r + 0.02, so m_r = 0.1 everywhere."""
    torch.manual_seed(3)
    flat = FlatModel(module or Net())
    x_r = torch.linspace(-0.5, 0.5, flat.layout.num_params)
    return LocalRound(flat, numbers(method, **changes), x_r, x_r + 0.02, on_step=on_step)


def loss_of(rnd: LocalRound, batch: Any) -> Tensor:
    return nn.functional.mse_loss(rnd.model(batch[0]), batch[1])


def train(rnd: LocalRound, data: Any = DATA, **how: Any) -> LocalResult:
    opt = rnd.optimizer()
    for batch in rnd.batches(data, **how):
        loss_of(rnd, batch).backward()
        opt.step()
        opt.zero_grad()
    return rnd.finish()
