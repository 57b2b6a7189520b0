"""Ditto: a model of one's own beside the federation, held near the server's.

    v_k' = P_k local steps from v_k on F_k(v) + lambda/2 |v - x_r|^2 ; v_k = x_r at first

The federation is what it is without: v_k stays at the silo, under the update that was made with it.
Its steps have the batches of the round, and are taken as private tensors' are.

Source: Li et al., Ditto, ICML 2021, Algorithm 1.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from domo.algorithm import personal_kernel
from domo.model.layout import BUFFERS
from domo.tasks.base import Task
from domo.training.batches import BatchLoader
from domo.training.local_round import LocalRound
from domo.training.round_data import CONTROL
from domo.training.task_errors import by_name

PERSONAL = "personal"
"""Name of v_k among what a silo keeps."""
PREFIX = "personal_"
"""Before the names of its numbers."""


class Personal:
    """v_k in a round; made before the round trains.

    Args:
        rnd: The round; x_r is in its model.
    """

    def __init__(self, rnd: LocalRound):
        self._rnd, self._x = rnd, rnd.flat.vector.clone()
        self._buffers = {s: rnd.flat.read(s) for s in BUFFERS}
        kept = rnd.kept.get(PERSONAL)
        self._v = self._x if kept is None else kept.to(self._x.device)

    def evaluate(self, task: Task, batches: BatchLoader) -> None:
        """Test v_k beside x_r; its numbers have names of their own."""

        def measure(model: nn.Module, batch: Any) -> Mapping[str, Any]:
            measured = by_name(task.evaluate(model, batch))
            return {f"{PREFIX}{name}": value for name, value in measured.items()}

        vector = self._rnd.flat.vector
        with torch.no_grad():
            vector.copy_(self._v)
        try:
            self._rnd.evaluate(measure, batches.sequential())
        finally:
            with torch.no_grad():
                vector.copy_(self._x)

    def round(self) -> LocalRound:
        """A round from v_k, after that of the federation is finished."""
        numbers = self._rnd.numbers
        strength = numbers.personal_prox
        mine = replace(
            numbers,
            kernel=personal_kernel(numbers.kernel, strength),
            evaluates=False,
            personal_prox=0.0,
        )
        goes_on, x = self._rnd.goes_on, self._x * strength
        return LocalRound(
            self._rnd.flat,
            mine,
            self._v,
            buffers=self._buffers,
            on_step=lambda rnd, done: goes_on(),
            kept={CONTROL: x},
        )

    def left(self) -> Tensor:
        """v_k', once that round's steps are taken."""
        return self._rnd.flat.vector.detach().cpu().clone()
