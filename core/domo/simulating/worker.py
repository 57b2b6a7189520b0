"""A process that computes some of the silos: the same ones in every round, with a model of its own.

It holds nothing that outlives a round but its data: each round begins by loading every vector.
"""

import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from torch import Tensor

from domo.errors import DomoError
from domo.metrics.table import Measured
from domo.model.flat import FlatModel
from domo.model.layout import BUFFERS, Layout, Section
from domo.run_config import RunConfig
from domo.simulating.shared import Packed, back_spec, cut, sent_spec, unpack
from domo.simulating.visit import Broadcast, SimulatedSilo, visit
from domo.stages.orphans import end_with_parent
from domo.tasks.base import Task
from domo.training.batches import configure_torch
from domo.training.initial import build_model


class Order(NamedTuple):
    """What a process is to do in a round; the vectors lie in the common memory.

    Attributes:
        round_index: r.
        sent: Which vectors there are: x, and x_prev, mbar, c.
        inference_scale: As in `Broadcast`.
        steps: Place of a silo in the roster -> its P_k; in roster order.
        kept: Place of a silo -> what it has kept.
    """

    round_index: int
    sent: Sequence[str]
    inference_scale: float | None
    steps: dict[int, int]
    kept: dict[int, list[str]]


class Answer(NamedTuple):
    """What it tells of one silo, once that silo's vectors lie in the common memory.

    Attributes:
        place: Of the silo in the roster; -1: it has begun, or could not.
        num_steps: P_k; None: there is no update.
        metrics: What the loop logged.
        measured: As in `Visited`.
        not_finite: As in `Visited`.
        error: What was raised.
    """

    place: int
    num_steps: int | None = None
    metrics: dict[str, float] = {}  # noqa: RUF012 - nobody changes it
    measured: Measured = {}  # noqa: RUF012
    not_finite: tuple[str, ...] = ()
    error: BaseException | None = None

    def send(self, to: Connection) -> None:
        """Plain pickle: with `Connection.send` a tensor is fetched later, when this may be gone."""
        to.send_bytes(pickle.dumps(self))

    @staticmethod
    def receive(where: Connection) -> "Answer":
        """Waits for one.

        Raises:
            EOFError, OSError: The process is gone.
        """
        return pickle.loads(where.recv_bytes())  # type: ignore[no-any-return]


class Silos(NamedTuple):
    """What a process is given once.

    Attributes:
        config: The run.
        task: What is trained.
        silos: All silos, in roster order.
        layout: Of the model.
        frozen: Values of its frozen parameters, as bytes.
    """

    config: RunConfig
    task: Task
    silos: Sequence[SimulatedSilo]
    layout: Layout
    frozen: Tensor


def serve(
    orders: Connection,
    answers: Connection,
    packed: Packed,
    block: Tensor,
    listen: Callable[[int], None],
    number: int,
) -> None:
    """The process: until no more orders come.

    Args:
        orders: Gives an `Order` for each round.
        answers: Takes an `Answer` for each silo.
        packed: `Silos`.
        block: The vectors of a round: those of all, then those of each silo.
        listen: Called first; see `domo.stages.workers`.
        number: Of the process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # reaches all; the parent ends this one
    end_with_parent()
    listen(number)
    try:
        work = _Work(packed, block)
    except BaseException as error:
        Answer(-1, error=_sendable(error)).send(answers)
        return
    Answer(-1).send(answers)
    while True:
        try:
            order: Order = orders.recv()
        except EOFError:
            return
        for place in order.steps:
            try:
                answer = work.visit(order, place)
            except BaseException as error:
                answer = Answer(place, error=_sendable(error))
            answer.send(answers)
            if answer.error is not None:
                break


class _Work:
    """A model, and the silos."""

    def __init__(self, packed: Packed, block: Tensor):
        given: Silos = unpack(packed)
        self._config, self._task, self._silos = given.config, given.task, given.silos
        configure_torch(given.config.threads)
        self._flat = FlatModel(build_model(given.task, given.config.seed), given.config.private)
        given.layout.check_same(self._flat.layout)
        self._flat.load(Section.FROZEN, given.frozen)
        back = back_spec(given.config, given.layout)
        specs = [sent_spec(given.config, given.layout), *(back for _ in given.silos)]
        self._sent, *self._back = cut(block, specs)

    def visit(self, order: Order, place: int) -> Answer:
        """One silo's part; its vectors are left in the common memory."""
        back = self._back[place]
        sent = {name: v for name, v in self._sent.items() if name in order.sent}
        broadcast = Broadcast(
            order.round_index,
            sent["x"],
            sent.get("x_prev"),
            sent.get("mbar"),
            sent.get("c"),
            {s: self._sent[s.value] for s in BUFFERS},
            order.inference_scale,
        )
        own = {name: back[name] for name in order.kept.get(place, ())}
        silo, num = self._silos[place], order.steps[place]
        visited = visit(self._config, self._task, self._flat, silo, broadcast, num, own)
        answer = Answer(place, measured=visited.measured, not_finite=visited.not_finite)
        if (result := visited.result) is None:
            return answer
        for name, vector in visited.kept.items():
            back[name].copy_(vector)
        back["update"].copy_(result.update)
        if result.momentum is not None:
            back["momentum"].copy_(result.momentum)
        floats, integers = (back[s.value] for s in BUFFERS)
        floats.copy_(result.float_buffers)
        integers.copy_(result.integer_buffers)
        return answer._replace(num_steps=result.num_steps, metrics=result.metrics)


def _sendable(error: BaseException) -> BaseException:
    """An exception that can be sent; one that is no error of domo's, with where it was raised."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    if not isinstance(error, DomoError):
        error.add_note("".join(traceback.format_exception(error)))
    return error
