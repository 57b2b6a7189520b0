"""Silos in this process or in several: as somebody asks for, or as it pays.

What pays is measured: the first silo of the first round is computed here, and says what all rounds
would take. The bytes are the same either way.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import ClassVar

from torch import Tensor

from domo.errors import ConfigError
from domo.model.flat import FlatModel
from domo.model.layout import Layout
from domo.run_config import RunConfig
from domo.simulating import share
from domo.simulating.pool import CannotStart, Pool
from domo.simulating.state import Computed
from domo.simulating.visit import Broadcast, Here, SimulatedSilo, Visited, asked
from domo.tasks.base import Task
from domo.training.round_data import Kept


class Visits:
    """A run's rounds at its silos; a context manager, which ends the processes that it began.

    Args:
        config: The run.
        task: What is trained.
        flat: A model, on its device.
        silos: All silos, in roster order.
        layout: Of the model.
        frozen: Values of its frozen parameters, as bytes.
        processes: How many; None: as many as pay.
        num_rounds: How many rounds are left.
        tell: Told in one line where the silos are computed, and why.

    Raises:
        ConfigError: The silos cannot be computed in so many processes.
    """

    mode: ClassVar[Computed] = "exact"

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        flat: FlatModel,
        silos: Sequence[SimulatedSilo],
        layout: Layout,
        frozen: Tensor,
        processes: int | None,
        num_rounds: int,
        tell: Callable[[str], None],
    ):
        if processes is not None and processes < 1:
            raise ConfigError(f"processes is {processes}: give a number from 1 up")
        self._config, self._task, self._silos = config, task, silos
        self._layout, self._frozen, self._num_rounds, self._tell = layout, frozen, num_rounds, tell
        self._here = Here(config, task, flat)
        self._pool: Pool | None = None
        self._undecided = False
        most, why = share.most_here(config, flat.vector.device.type, len(silos))
        if processes is None and most > 1:
            self._undecided, self._most = True, most
        elif processes is None or processes == 1:
            tell(share.told(1, why if processes is None else "as asked for"))
        elif flat.vector.device.type != "cpu" or len(silos) == 1:
            tell(share.told(1, why))
        else:
            num = min(processes, len(silos))
            try:
                self._begin(num)
            except CannotStart as error:
                raise ConfigError(str(error)) from error
            tell(share.told(num, "as asked for" if num == processes else "one for each"))

    def __enter__(self) -> "Visits":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.end()

    def visit(
        self,
        sent: Broadcast,
        steps: Mapping[str, int],
        kept: Mapping[str, Kept],
    ) -> Iterator[Visited]:
        """A round at all silos that have something to do in it, in roster order.

        The vectors that come back are good until the next round.

        Raises:
            DomoError: Of the first silo that fails; names the round and the silo.
        """
        silos = asked(self._config, self._silos, sent.round_index, steps)
        if self._undecided and steps and silos:
            began = time.perf_counter()
            yield from self._here.visit(sent, silos[:1], steps, kept)
            self._decide(sent, silos, steps, time.perf_counter() - began)
            silos = silos[1:]
        where: Here | Pool = self._here if self._pool is None else self._pool
        yield from where.visit(sent, silos, steps, kept)

    def _decide(
        self,
        sent: Broadcast,
        silos: Sequence[SimulatedSilo],
        steps: Mapping[str, int],
        took_s: float,
    ) -> None:
        self._undecided = False
        r = sent.round_index
        first, whole = (share.total_work(self._config, s, steps, r) for s in (silos[:1], silos))
        seconds = took_s * whole / max(1, first) * self._num_rounds
        about = f"about {share.seconds_in_words(seconds)} in"
        if not share.pays(seconds, self._most):
            start = f"{share.START_S:.0f} s to begin"
            return self._tell(share.told(1, f"{about} all, and others take {start}"))
        try:
            self._begin(self._most)
        except CannotStart as error:
            return self._tell(share.told(1, str(error)))
        return self._tell(share.told(self._most, f"{about} one"))

    def _begin(self, num: int) -> None:
        self._pool = Pool(self._config, self._task, self._silos, self._layout, self._frozen, num)
