"""The silos of a simulation in several processes: the same bytes as one after another.

What a silo gives depends on the round and on its data alone, and the fold is the caller's, in
roster order; so it does not matter who computes it, or when.
"""

import multiprocessing
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from torch import Tensor

from domo.errors import TaskError
from domo.model.layout import BUFFERS, Layout, Section
from domo.outside.text import task_error
from domo.run_config import RunConfig
from domo.simulating.share import balanced
from domo.simulating.shared import back_spec, cut, pack, room_for, sent_spec, shared_block
from domo.simulating.visit import Broadcast, SimulatedSilo, Visited
from domo.simulating.worker import Answer, Order, Silos, serve
from domo.stages import workers
from domo.stages.now import begin, in_stage
from domo.tasks.base import Task
from domo.training.round_data import Kept, LocalResult

JOIN_S = 5.0
"""How long a process may take to end by itself."""
DEATHS = {
    -signal.SIGKILL: "its process was killed, most likely as memory ran out: fewer --processes, a "
    "smaller batch_size, or more memory (of its container, too)",
    -signal.SIGSEGV: "its process has crashed in a library (SIGSEGV); --processes 1 shows where",
}
"""Exit code -> what is said of it."""


class CannotStart(Exception):
    """These silos cannot be computed in other processes; in this one they can."""


class _Worker(NamedTuple):
    """A process, and the places in the roster of its silos.

    Two pipes, as what was written into one can be read once the writer is gone; not so everywhere
    with a pair of sockets.
    """

    process: BaseProcess
    orders: Connection
    answers: Connection
    places: frozenset[int]


class Pool:
    """Processes that each hold a model and some of the silos; a context manager.

    Args:
        config: The run.
        task: What is trained.
        silos: All silos, in roster order.
        layout: Of the model.
        frozen: Values of its frozen parameters, as bytes.
        num: How many; no more than silos.

    Raises:
        CannotStart: The task or the data cannot be sent to a process, or find no room.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        silos: Sequence[SimulatedSilo],
        layout: Layout,
        frozen: Tensor,
        num: int,
    ):
        self._config, self._silos = config, silos
        self._places = {s.silo_id: i for i, s in enumerate(silos)}
        self._workers: list[_Worker] = []
        self._busy = True  # but for between two rounds: what is computed would be for nobody
        back = back_spec(config, layout)
        specs = [sent_spec(config, layout), *(back for _ in silos)]
        try:
            packed = pack(Silos(config, task, silos, layout, frozen))
            block = shared_block(room_for(specs))
        except Exception as error:  # of pickle, of a __reduce__ of somebody's, of the system
            raise _cannot_start(error) from error
        self._sent, *self._back = cut(block, specs)
        listen = workers.at_start()
        try:
            context = _context()
            for number, places in enumerate(balanced(config, silos, num)):
                takes, orders = context.Pipe(duplex=False)
                answers, gives = context.Pipe(duplex=False)
                args = (takes, gives, packed, block, listen, number)
                process = context.Process(target=serve, args=args, name=f"silos-{number}")  # type: ignore[attr-defined]
                with takes, gives:
                    process.start()
                self._workers.append(_Worker(process, orders, answers, frozenset(places)))
            with in_stage("silos"):
                for worker in self._workers:
                    self._begun(worker)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self.end()
            if isinstance(error, Exception) and not isinstance(error, CannotStart):
                raise _cannot_start(error) from error
            raise

    def _begun(self, worker: _Worker) -> None:
        try:
            answer = Answer.receive(worker.answers)
        except (EOFError, OSError):
            worker.process.join(JOIN_S)
            raise CannotStart(
                f"a process for silos has ended as it began (exit code {worker.process.exitcode}); "
                'a script that starts processes begins with `if __name__ == "__main__":`'
            ) from None
        if answer.error is not None:
            raise _cannot_start(answer.error) from answer.error

    def end(self) -> None:
        """End the processes; those that are computing, at once."""
        for worker in self._workers:
            worker.orders.close()
        for worker in self._workers:
            if self._busy:
                worker.process.kill()
            worker.process.join(JOIN_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
            worker.answers.close()
        self._workers.clear()

    def visit(
        self,
        sent: Broadcast,
        silos: Sequence[SimulatedSilo],
        steps: Mapping[str, int],
        kept: Mapping[str, Kept],
    ) -> Iterator[Visited]:
        """A round at some silos, given in roster order.

        The vectors that come back are good until the next round.

        Raises:
            DomoError: Of the first silo in that order that fails; as in one process.
        """
        places = {self._places[s.silo_id]: steps.get(s.silo_id, 0) for s in silos}
        held = {self._places[s]: own for s, own in kept.items()}
        there = self._write(sent, {place: held[place] for place in places if place in held})
        self._busy = True
        for worker in self._workers:
            own = {p: num for p, num in places.items() if p in worker.places}
            had = {p: list(held[p]) for p in own if p in held}
            if own:
                order = Order(sent.round_index, there, sent.inference_scale, own, had)
                with suppress(OSError):  # it is gone: `_collect` finds that out
                    worker.orders.send(order)
        found = self._collect(list(places), sent.round_index)
        for place in places:
            answer = found[place]
            if answer.error is not None:
                raise answer.error
            yield self._with_vectors(answer)
        self._busy = False

    def _write(self, sent: Broadcast, kept: Mapping[int, Kept]) -> list[str]:
        """Which vectors there are."""
        named = {"x": sent.x, "x_prev": sent.x_prev, "mbar": sent.mbar, "c": sent.c}
        there = {name: vector for name, vector in named.items() if vector is not None}
        for name, vector in there.items():
            self._sent[name].copy_(vector)
        for section in BUFFERS:
            self._sent[section.value].copy_(sent.buffers[section])
        for place, own in kept.items():
            for name, vector in own.items():
                self._back[place][name].copy_(vector)
        return list(there)

    def _collect(self, left: list[int], r: int) -> dict[int, Answer]:
        """The answers of all, or of all up to the first that fails."""
        found: dict[int, Answer] = {}
        failed = len(self._silos)
        with in_stage("silos"):
            while left and left[0] < failed:
                waiting = {w.answers: w for w in self._workers if w.places.intersection(left)}
                for ready in wait(list(waiting)):
                    worker = waiting[ready]  # type: ignore[index]
                    try:
                        answer = Answer.receive(worker.answers)
                    except (EOFError, OSError):
                        answer = self._death(worker, left, r)
                    found[answer.place] = answer
                    begin("silos")
                    if answer.error is None:
                        left.remove(answer.place)
                    else:
                        failed = min(failed, answer.place)
                        left = [p for p in left if p not in worker.places]
        return found

    def _death(self, worker: _Worker, left: Sequence[int], r: int) -> Answer:
        worker.process.join(JOIN_S)
        place = min(worker.places.intersection(left))
        code = worker.process.exitcode
        why = DEATHS.get(code or 0, f"its process has ended with exit code {code}")
        where = f"round {r + 1}, {self._silos[place].silo_id}"
        return Answer(place, error=task_error(f"{where}: {why}"))

    def _with_vectors(self, answer: Answer) -> Visited:
        """With what lies in the common memory; what is kept beyond the round, as a copy."""
        visited = Visited(
            self._silos[answer.place].silo_id, None, {}, answer.measured, answer.not_finite
        )
        if answer.num_steps is None:
            return visited
        back = self._back[answer.place]
        result = LocalResult(
            update=back["update"],
            momentum=back.get("momentum"),
            float_buffers=back[Section.FLOAT_BUFFER.value],
            integer_buffers=back[Section.INTEGER_BUFFER.value].clone(),
            num_steps=answer.num_steps,
            metrics=answer.metrics,
        )
        kept = {name: back[name].clone() for name in self._config.keeps}
        return visited._replace(result=result, kept=kept)


def _context() -> BaseContext:
    """Processes are forks of a helper that has loaded torch, whose memory they share."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "domo.training.batches", serve.__module__])
    return context


def _cannot_start(error: BaseException) -> CannotStart:
    if isinstance(error, TaskError):
        return CannotStart(f"the silos cannot be computed in other processes: {error}")
    text = str(error).strip().partition("\n")[0]
    return CannotStart(
        "the silos cannot be computed in other processes: the task or its data cannot be sent "
        f"there ({type(error).__name__}: {text}). What is defined in a module can; or take one "
        "process"
    )
