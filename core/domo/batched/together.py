"""The rounds of a simulation with the silos batched, where `domo.simulating` has them alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from domo.batched.data import Joined, join
from domo.batched.local import train
from domo.batched.measure import is_known, measure
from domo.batched.stack import Stack
from domo.metrics.table import Measured
from domo.model.flat import FlatModel
from domo.model.layout import Section
from domo.run_config import RunConfig
from domo.simulating.state import Computed
from domo.simulating.visit import Broadcast, SimulatedSilo, Visited, asked, told_of, visit
from domo.stages.now import in_stage
from domo.tasks.base import Task
from domo.training.round_data import Kept, LocalResult
from domo.training.task_errors import task_errors
from domo.update_format import encode_result


class Together:
    """A run's rounds at its silos, those with the same number of steps in one call a step.

    Args:
        config: The run.
        task: What is trained.
        flat: A model of one silo, on its device, with all frozen parameters in it.
        silos: All silos, in roster order.
        buffers: Float and integer buffers, which no round changes.
        dtype: Lower precision inside the forward pass of training.
    """

    mode: ClassVar[Computed] = "batched"

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        flat: FlatModel,
        silos: Sequence[SimulatedSilo],
        buffers: Mapping[Section, Tensor],
        dtype: torch.dtype | None = None,
    ):
        self._config, self._task, self._flat, self._silos = config, task, flat, silos
        self.dtype = dtype
        for section, values in buffers.items():
            flat.load(section, values)
        self._loaders = {s.silo_id: s.train for s in silos if s.train is not None}
        self._joined = join(self._loaders, flat.vector.device)
        self._stacks: dict[int, Stack] = {}
        tests = {s.silo_id: s.evaluation for s in silos if s.evaluation is not None}
        self._tests = join(tests, flat.vector.device) if is_known(task) else None

    def visit(
        self,
        sent: Broadcast,
        steps: Mapping[str, int],
        kept: Mapping[str, Kept],
    ) -> Iterator[Visited]:
        """A round at all silos that have something to do in it, in roster order.

        Raises:
            DomoError: Of the first silo that fails; names the round and the silo.
        """
        r, results = sent.round_index, self.train(sent, steps, kept)
        known = None if self._tests is None else self._measure(sent, self._tests)
        for silo in asked(self._config, self._silos, r, steps):
            result = results.get(silo.silo_id)
            own = {} if result is None else encode_result(result, None, self._config.update_dtype)
            if known is None:
                tested = visit(self._config, self._task, self._flat, silo, sent, 0, {})
                yield tested._replace(result=result, kept=own)
            else:
                yield Visited(silo.silo_id, result, own, *told_of(known.get(silo.silo_id, {})))

    def _measure(self, sent: Broadcast, tests: Joined) -> Mapping[str, Measured]:
        """The test of x_r, if it is one that is tested."""
        if not self._config.evaluates_at(sent.round_index):
            return {}
        with in_stage("round"), task_errors(f"round {sent.round_index + 1}, silos batched"):
            self._flat.load(Section.TRAINABLE, sent.x)
            for section, values in sent.buffers.items():
                self._flat.load(section, values)
            return measure(self._flat, tests)

    def train(
        self, sent: Broadcast, steps: Mapping[str, int], kept: Mapping[str, Kept]
    ) -> dict[str, LocalResult]:
        """The local rounds of all silos that have steps to take.

        Raises:
            DomoError: As `visit`.
        """
        alike: dict[int, list[str]] = {}
        for silo_id, num in steps.items():
            alike.setdefault(num, []).append(silo_id)
        found: dict[str, LocalResult] = {}
        for num_steps, names in alike.items():
            loaders = {name: self._loaders[name] for name in names}
            stack = self._stacks.get(len(names)) or Stack(self._flat, len(names))
            self._stacks[len(names)] = stack
            with in_stage("round"), task_errors(f"round {sent.round_index + 1}, silos batched"):
                found |= train(
                    self._config,
                    self._task,
                    stack,
                    loaders,
                    self._joined,
                    sent,
                    kept,
                    num_steps,
                    self.dtype,
                )
        return found
