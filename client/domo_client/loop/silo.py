"""The loop API: a user who has a training loop keeps it.

    with domo_client.connect("host:50051", silo="site-a") as silo:
        for rnd in silo.rounds(model):              # x_r is in the model now
            rnd.evaluate(eval_fn, eval_loader)      # on x_r, before any shift; optional
            opt = rnd.optimizer()                   # the local step of the run's method
            for x, y in rnd.batches(dataset):       # exactly P steps; DOMO's shift happens here
                loss_fn(model(x), y).backward(); opt.step(); opt.zero_grad()
            rnd.log(loss=...)

`rnd` is a `LocalRound` of `domo.training`. Leaving the inner loop early raises
`IncompleteRoundError` and sends nothing; an exception in the body is reported as this silo's
failure and goes on to the caller; a round that the coordinator has abandoned ends the inner loop
and the next one comes.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

import torch
from torch import nn

import domo
from domo.errors import ConfigError
from domo.meaning.value import NOTHING, Meaning
from domo.model.flat import FlatModel
from domo.model.layout import Layout
from domo.outside.text import NO_TEXT, Public
from domo.stages.now import end
from domo.stages.watch import Seen, Watch
from domo.training.batches import configure_torch
from domo.training.local_round import LocalRound
from domo.training.task_errors import task_errors
from domo_client.loop.faults import Faults
from domo_client.loop.heartbeat import Progress, Reporter
from domo_client.loop.offers import Offers
from domo_client.loop.outbox import Outbox
from domo_client.loop.outcome import Outcome
from domo_client.loop.rounds import Rounds
from domo_client.policy.gate import Gate
from domo_client.policy.policy import Chosen
from domo_client.rpc.connection import Connection
from domo_client.rpc.offer import Offer, RefusedRunError
from domo_client.rpc.presence import Attendance
from domo_client.state.folder import SiloState
from domo_client.telemetry.describe import describe
from domo_client.telemetry.log_tail import LogTail
from domo_client.telemetry.resources import measure

CLOSE_S = 5.0


class Silo:
    """A silo that has joined; a context manager.

    Attributes:
        connection: To the coordinator.
        outcome: How the last run ended; None: it has not.
        on_wait: Told why the run under way is not for this silo.
        on_sent: Told what became of an update: its round, `ACCEPTED`, `STALE` or `REFUSED`, a text.
        on_short: Told that disk or memory is short for what domo itself does: a round, an error.
    """

    def __init__(
        self,
        connection: Connection,
        state: SiloState,
        watch: Watch,
        tail: LogTail | None = None,
        max_threads: int | None = None,
        *,
        gate: Gate,
    ):
        self.connection, self._state, self._tail = connection, state, tail
        self._watch, self._gate = watch, gate
        self.outcome: Outcome | None = None
        self.on_wait: Callable[[str], None] = lambda text: None
        self.on_sent: Callable[[LocalRound, str, str], None] = lambda rnd, state, text: None
        self.on_short: Callable[[int, BaseException], None] = lambda round_index, error: None
        self._closed = threading.Event()
        self._reporter = Reporter(connection, state.folder / "status.json", watch, tail)
        self._reporter.on_short = lambda round_index, error: self.on_short(round_index, error)
        joined = Public(f"joined {connection.session.address}, domo {domo.__version__}")
        self._reporter.note(logging.INFO, joined)
        self._reporter.beat()
        self._reporter.start()
        self._presence = Attendance(connection.session)
        self._outbox = Outbox(connection, state, self._reporter, self._closed)
        self._offers = Offers(connection, self._reporter, watch, self._closed, gate, max_threads)
        connection.data.vectors.on_damage = self._note_damage

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self._reporter.beat(error)
        self.close(Public() if error is None else describe(error))

    def close(self, reason: Public = NO_TEXT) -> None:
        """Leave the federation; a second time it is nothing."""
        end()
        self._closed.set()
        self._watch.stop()
        self._reporter.stop()
        self._presence.stop()
        self.connection.session.close(reason)
        self._reporter.join(CLOSE_S)
        self._presence.join(CLOSE_S)
        if self._tail is not None:
            self._tail.close()
        self.connection.record.close()
        self._state.close()

    @property
    def progress(self) -> Progress:
        """What it is doing now."""
        return self._reporter.progress

    @property
    def doing(self) -> Seen | None:
        """What is under way of the user's: a dataset, a step, the loop's own code."""
        return self._watch.now()

    @property
    def faults(self) -> Faults:
        """What has failed in rounds of the run under way, running."""
        return self._reporter.faults

    @property
    def waits_for(self) -> str:
        """What its run waits for, as the coordinator has said."""
        return self._reporter.waits_for

    @property
    def device(self) -> torch.device | None:
        """Where it trains; None before the first run."""
        return self._reporter.device

    def resources(self) -> Mapping[str, float]:
        """What its machine has: see `domo_client.telemetry.resources`."""
        return measure(self.device, self._state.folder)

    @property
    def policy(self) -> Chosen:
        """This silo's policy, and where it is from."""
        return self._gate.chosen

    @property
    def has_unsaved(self) -> bool:
        """Whether an update is in hand that is not on disk yet."""
        return self._outbox.has_unsaved

    def next_run(self, ends_with: str = "") -> Offer:
        """Wait for a run that wants this silo.

        Args:
            ends_with: A run that waits for this silo, and with which the waiting ends.

        Raises:
            MissedRunError: That run has ended.
            RefusedRunError: A run is declined whatever the data are: another version of domo is
                needed, or more threads than this silo gives, or its coordinator has asked for
                something else than its configuration says.
        """
        return self._offers.wait(ends_with, lambda text: self.on_wait(text))

    def prepares(self, offer: Offer) -> None:
        """Say that this thread makes itself ready for a run."""
        self._offers.prepares(offer)

    def check_model(self, offer: Offer, layout: Layout) -> None:
        """See that a model may be trained here.

        Raises:
            PolicyError: This silo's policy does not allow it.
        """
        self._offers.see_model(offer, layout)

    def decline(self, offer: Offer, reason: Public, code: str = "") -> None:
        """Say that this silo will not take part in a run, and why; `code`: of the error it is."""
        self._offers.decline(offer.run_id, reason, code)

    def not_yet(self, offer: Offer, reason: Public, code: str, again_s: float) -> bool:
        """Say that this silo is not ready for a run, and let time pass until it looks again.

        It is said until the silo enrols, declines, or has another run from `next_run`.

        Args:
            offer: The run.
            reason: What is in the way, as the coordinator may know it.
            code: Of the error that it is.
            again_s: How long to wait, seconds.

        Returns:
            Whether the run still waits, as far as the coordinator has said.
        """
        return self._offers.not_yet(offer, reason, code, again_s)

    def fail(self, error: BaseException) -> None:
        """Say that this round failed here; it is tried again after a while."""
        self._reporter.fail(error)

    def _note_damage(self, text: Public) -> None:
        """A model comes damaged again and again; it is fetched on."""
        run_id = self._reporter.progress.run_id
        self._reporter.now("waiting", run_id, self.connection.data.round_told)
        self._reporter.note(logging.ERROR, text)
        self._reporter.beat(text)

    def rounds(
        self,
        model: nn.Module,
        *,
        samples: int | None = None,
        eval_samples: int | None = None,
        meaning: Meaning | None = None,
        offer: Offer | None = None,
    ) -> Iterator[LocalRound]:
        """The rounds of the next run; x_r is in the model when one is handed out.

        A round with `rnd.num_steps == 0` only evaluates: its batch loop is empty.

        Args:
            model: On its device already; its parameters become views of one vector.
            samples: Size of the training data; needed where the run counts epochs or weights.
            eval_samples: Size of the test data; None: it will be tested if the loop does so.
            meaning: What the data mean, as `domo.meaning_of` finds out; silos that mean something
                else by their numbers are refused before the first round.
            offer: A run from `next_run`; by default the next one.

        Raises:
            LayoutMismatchError: The run has another model.
            MeaningMismatchError: The data mean something else than those of the run.
            ConfigError: A number of samples below 0.
            TaskError: The model cannot be trained here: the text says why.
            RefusedRunError: The run needs another version of domo or more threads than this silo
                gives, or this silo's policy does not allow it, or the coordinator asks for
                something else than its configuration says.
            LostRunError: The coordinator lost its state, and the run with it.
            IncompleteRoundError: The body made fewer steps than the run asks for.
        """
        if min(samples or 0, eval_samples or 0) < 0:
            raise ConfigError(f"samples = {samples}, eval_samples = {eval_samples}: below 0")
        offer = offer or self.next_run()
        self._watch.follow()
        with task_errors("the model cannot be made ready here"):
            flat = FlatModel(model, offer.config.private)
            frozen = flat.frozen_digest()
        self._offers.see_all(offer, flat, samples or 0)
        configure_torch(offer.config.threads, flat.vector.device)
        self.connection.data.vectors.expect(flat.layout, page_locked=flat.vector.is_cuda)
        self._reporter.device = flat.vector.device
        self.outcome = None
        rounds = Rounds(
            self.connection,
            self._state,
            self._reporter,
            self._outbox,
            self._closed,
            offer,
            flat,
            frozen,
            samples or 0,
            tests=1 if eval_samples is None else eval_samples,
            meaning=meaning or NOTHING,
            on_sent=lambda rnd, state, text: self.on_sent(rnd, state, text),
            gate=self._gate,
        )
        try:
            self.outcome = yield from rounds.run()
        except RefusedRunError as error:
            self._offers.refuse(error, offer)
            raise
        finally:  # also where the loop is left, or the run is lost
            end()
            self.connection.data.vectors.forget()
