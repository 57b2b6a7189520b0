"""A run of one silo and one step in which an update that is lost, spliced or counted twice shows.

The step has gradient 1 (or `value`) in every entry, and so x_{r+1} = x_r - local_lr * value.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import domo_client
from domo.tasks.base import ArrayDataset
from tests.support.live.coordinator import Coordinator, own_run

SHAPE = (1000, 2000)


N = 4 * SHAPE[0] * SHAPE[1]


LR = 0.5


def start(folder: Path, **settings: object) -> dict:
    torch.manual_seed(3)
    values = {"method": "FedAvg", "num_rounds": 1, "batch_size": 1, "local_lr": LR}
    return own_run(folder, nn.Linear(*SHAPE, bias=False), **{**values, **settings})


def x_0(folder: Path) -> Tensor:
    return next(iter(load_file(folder / "x0.safetensors").values())).flatten()


def final(server: Coordinator) -> Tensor:
    """x_R, once the run has finished."""
    assert server.ended()["state"] == "FINISHED"
    folder = server.state_dir / "runs" / server.run_ids[0] / "checkpoints"
    return load_file(max(folder.glob("x*.safetensors")))["x"]


class Seen(NamedTuple):
    """What a loop saw."""

    troubles: list[str]
    trained: int


def loop(
    address: str,
    folder: Path,
    between: Callable[[], object] = lambda: None,
    on_trouble: Callable[[str], object] = lambda text: None,
    value: float = 1.0,
    moved_from: str = "",
) -> Seen:
    """Take part in the run to its end.

    Args:
        between: Called while the silo trains.
        value: Of the gradient.
        moved_from: Where the coordinator was reached before.
    """
    model, troubles, trained = nn.Linear(*SHAPE, bias=False), [], 0
    data = ArrayDataset(torch.full((1, SHAPE[0]), value), torch.zeros(1, dtype=torch.int64))

    def note(text: str) -> None:
        troubles.append(text)
        on_trouble(text)

    with domo_client.connect(
        address,
        "site-a",
        state_dir=folder / "state-site-a",
        on_trouble=note,
        moved_from=moved_from,
    ) as silo:
        for rnd in silo.rounds(model, samples=1):
            opt = rnd.optimizer()
            for inputs, _ in rnd.batches(data):
                model(inputs).sum().backward()
                between()
                opt.step()
                opt.zero_grad()
                trained += 1
    return Seen(troubles, trained)


def stepped(folder: Path, value: float = 1.0) -> Tensor:
    return x_0(folder) - LR * value


def close_to(x: Tensor, y: Tensor) -> None:
    torch.testing.assert_close(x, y, rtol=0, atol=1e-6)
