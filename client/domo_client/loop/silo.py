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
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Self

import torch
from torch import nn

import domo
from domo.errors import ConfigError, ProtocolError
from domo.model.flat import FlatModel, digest
from domo.model.layout import Section
from domo.ops.logs import log_context
from domo.tasks.base import Sum
from domo.training.batches import configure_torch
from domo.training.local_round import LocalRound
from domo.training.round_data import RoundNumbers
from domo_client.loop.heartbeat import Progress, Reporter
from domo_client.loop.outbox import Outbox
from domo_client.rpc.assignment import SECTIONS, Turn
from domo_client.rpc.connection import Connection
from domo_client.rpc.control import LostRunError, Offer, UnknownRunError
from domo_client.rpc.presence import Presence
from domo_client.state.folder import SiloState
from domo_client.telemetry.describe import SHORT, describe, sendable
from domo_client.telemetry.log_tail import LogTail, journal
from domo_client.telemetry.resources import measure
from domo_proto.codec import VectorId, model_digest

BUFFERS = (VectorId.FLOAT_BUFFERS, VectorId.INTEGER_BUFFERS)
MAX_BACKOFF_S = 60.0
CLOSE_S = 5.0


class Outcome(NamedTuple):
    """How a run ended.

    Attributes:
        run_id: The run.
        state: FINISHED, FAILED or STOPPED.
        text: Why.
        num_rounds: Rounds that were committed.
    """

    run_id: str
    state: str
    text: str
    num_rounds: int


class Silo:
    """A silo that has joined; a context manager."""

    def __init__(self, connection: Connection, state: SiloState, tail: LogTail | None = None):
        self.connection, self._state, self._tail = connection, state, tail
        self._reporter = Reporter(connection, state.folder / "status.json", tail)
        self._note(logging.INFO, f"joined {connection.session.address}, domo {domo.__version__}")
        self._reporter.start()
        self._reporter.beat()
        self._presence = Presence(connection.session)
        self._presence.start()
        connection.data.vectors.on_damage = self._note_damage
        self._closed = threading.Event()
        self._failed, self._enrolled_in = False, 0
        self._outbox = Outbox(
            connection,
            state,
            self._closed,
            wanted=self._reporter.may_go_on,
            failed=self.fail,
            waits=lambda error: self._reporter.beat(error),
        )
        self.on_step: Callable[[LocalRound, int], None] = lambda rnd, done: None
        self.on_sent: Callable[[LocalRound, str, str], None] = lambda rnd, state, text: None
        self.outcome: Outcome | None = None
        self.waits_for = ""  # what the coordinator said that a run waits for

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
        self.close("" if error is None else describe(error))

    def close(self, reason: str = "") -> None:
        """Leave the federation."""
        self._closed.set()
        self._reporter.stop()
        self._presence.stop()
        self.connection.session.close(reason)
        self._reporter.join(CLOSE_S)
        self._presence.join(CLOSE_S)
        if self._tail is not None:
            self._tail.close()
        self._state.close()

    def _note(self, level: int, text: str) -> None:
        journal.log(level, "%s", text, extra={"silo": self.connection.session.silo_id})

    @property
    def progress(self) -> Progress:
        """What it is doing now."""
        return self._reporter.progress

    @property
    def device(self) -> torch.device | None:
        """Where it trains; None before the first run."""
        return self._reporter.device

    def resources(self) -> Mapping[str, float]:
        """What its machine has: see `domo_client.telemetry.resources`."""
        return measure(self.device, self._state.folder)

    @property
    def has_unsaved(self) -> bool:
        """Whether an update is in hand that is not on disk yet."""
        return self._outbox.has_unsaved

    def next_run(self) -> Offer:
        """Wait for a run that wants this silo.

        Raises:
            UnknownRunError: One does, but another version of domo is needed; it is declined.
        """
        self._reporter.progress = Progress("idle")
        while True:
            try:
                offer = self.connection.control.wait_for_run()
            except UnknownRunError as error:
                self._decline(error.run_id, str(error), error.code)
                raise
            if offer is not None:
                return offer

    def decline(self, offer: Offer, reason: str, code: str = "") -> None:
        """Say that this silo will not take part in a run, and why; `code`: of the error it is."""
        self._decline(offer.run_id, reason, code)

    def _decline(self, run_id: str, reason: str, code: str) -> None:
        reason = sendable(reason)
        self._note(logging.WARNING, f"run {run_id}: declined: {reason}")
        self.connection.control.decline(run_id, reason, code)

    def fail(self, error: Exception) -> None:
        """Say that this round failed here; it is tried again after a while."""
        self._failed = True
        self.connection.counts.failures += 1
        self._note(logging.ERROR, f"failed: {describe(error)}")
        self._reporter.beat(error)
        self._progress("waiting", self._reporter.progress.run_id)

    def _note_damage(self, text: str) -> None:
        """A model comes damaged again and again; it is fetched on."""
        self._progress("waiting", self._reporter.progress.run_id, self.connection.data.round_told)
        self._note(logging.ERROR, text)
        self._reporter.beat(text)

    def rounds(
        self,
        model: nn.Module,
        *,
        samples: int | None = None,
        eval_samples: int | None = None,
        offer: Offer | None = None,
    ) -> Iterator[LocalRound]:
        """The rounds of the next run; x_r is in the model when one is handed out.

        A round with `rnd.num_steps == 0` only evaluates: its batch loop is empty.

        Args:
            model: On its device already; its parameters become views of one vector.
            samples: Size of the training data; needed where the run counts epochs or weights.
            eval_samples: Size of the test data; None: it will be tested if the loop does so.
            offer: A run from `next_run`; by default the next one.

        Raises:
            LayoutMismatchError: The run has another model.
            ConfigError: A number of samples below 0.
            UnknownRunError: The run needs another version of domo.
            LostRunError: The coordinator lost its state, and the run with it.
            IncompleteRoundError: The body made fewer steps than the run asks for.
        """
        if min(samples or 0, eval_samples or 0) < 0:
            raise ConfigError(f"samples = {samples}, eval_samples = {eval_samples}: below 0")
        offer = offer or self.next_run()
        flat = FlatModel(model)
        configure_torch(offer.config.threads, flat.vector.device)
        self.connection.data.vectors.expect(flat.layout, page_locked=flat.vector.is_cuda)
        tests = 1 if eval_samples is None else eval_samples
        self._reporter.device = flat.vector.device
        self._enroll(offer, flat, samples or 0, tests)
        self._state.residuals.keep_only(offer.run_id)
        self.outcome, backoff_s = None, 1.0
        evaluated = failed = -1  # models: the newest tested one, and one whose round has failed
        own = [digest(flat.read(Section.FROZEN))]
        while True:
            self._progress("waiting", offer.run_id)
            try:
                turn = self.connection.data.fetch_round(offer.run_id, evaluated, own)
                if turn.action == "ASK_AGAIN" and self._came_back:  # it may not know this silo
                    self._enroll(offer, flat, samples or 0, tests)
                    evaluated = failed = -1
            except ProtocolError as error:
                if self._came_back and type(error) is ProtocolError:
                    raise LostRunError(offer.run_id, str(error)) from error
                raise
            except SHORT as error:  # the model cannot be kept
                self._progress("waiting", offer.run_id, self.connection.data.round_told)
                self.fail(error)
                backoff_s = self._back_off(backoff_s)
                continue
            if turn.action == "END":
                self._state.delete_pending()
                log_context(run=None, round=None)
                self.outcome = Outcome(offer.run_id, turn.outcome, turn.text, turn.round_index)
                self._note(logging.INFO, f"run {offer.run_id}: {turn.outcome.lower()}: {turn.text}")
                return
            self.waits_for = turn.text if turn.action == "ASK_AGAIN" else ""
            if turn.action == "ASK_AGAIN":
                continue
            if turn.round_index < evaluated:  # the coordinator's state is an older copy
                evaluated = failed = -1
            trains = turn.action == "TRAIN"
            if trains and (update := self._outbox.pending(offer, turn)) is not None:
                self._progress("uploading", offer.run_id, turn.round_index)
                if self._outbox.send_again(update):
                    continue
            try:
                rnd = self._round(offer, flat, turn)
            except SHORT as error:
                self.fail(error)
                backoff_s = self._back_off(backoff_s)
                continue
            if VectorId.FROZEN in turn.vectors:
                own = [turn.digests[VectorId.FROZEN]]
            self._failed = False
            self.connection.counts.begin()
            yield rnd
            self.connection.counts.lap("training" if rnd.num_steps else "evaluating")
            if turn.evaluate and self._failed and failed != turn.round_index:
                failed = turn.round_index  # its test gets one more chance
            elif turn.evaluate:
                evaluated = turn.round_index
            if trains and not self._failed and not rnd.abandoned:
                self._send(offer, turn, rnd)
                backoff_s = backoff_s if self._failed else 1.0
            if self._failed:
                backoff_s = self._back_off(backoff_s)

    def _enroll(self, offer: Offer, flat: FlatModel, samples: int, tests: int) -> None:
        joins = self.connection.counts.joins
        self.connection.control.enroll(offer, flat.layout, samples, tests)
        self._enrolled_in = joins
        self._note(logging.INFO, f"run {offer.run_id}: enrolled with {samples} samples")

    @property
    def _came_back(self) -> bool:
        """Whether the session is another one than that in which this silo enrolled."""
        return self.connection.counts.joins != self._enrolled_in

    def _back_off(self, seconds: float) -> float:
        """Wait after a failure; returns how long to wait after the next one."""
        self._closed.wait(seconds)
        return min(2 * seconds, MAX_BACKOFF_S)

    def _progress(
        self, phase: str, run_id: str, round_index: int | None = None, num_steps: int = 0
    ) -> Progress:
        """What the heartbeat says from now on; within a run, round and loss stay until new ones."""
        old = self._reporter.progress
        same = old.run_id == run_id
        r = round_index if round_index is not None else old.round_index if same else 0
        log_context(run=run_id, round=r + 1)
        new = Progress(phase, run_id, r, 0, num_steps, old.loss if same else None)
        self._reporter.progress = new
        return new

    def _round(self, offer: Offer, flat: FlatModel, turn: Turn) -> LocalRound:
        r, counts = turn.round_index, self.connection.counts
        self._reporter.forget()
        steps = turn.num_steps if turn.action == "TRAIN" else 0
        if steps:
            self._note(logging.INFO, f"round {r + 1} of {offer.config.num_rounds}: {steps} steps")
        progress, step_at = self._progress("evaluating", offer.run_id, r, steps), 0.0

        def on_step(rnd: LocalRound, done: int) -> bool:  # no cycle: rnd holds vectors
            nonlocal step_at
            if done > progress.step:
                now = time.monotonic()
                if done > 1:
                    progress.longest_step_s = max(progress.longest_step_s or 0.0, now - step_at)
                step_at = now
            counts.steps += done - progress.step
            progress.phase, progress.step = "training", done
            self.on_step(rnd, done)
            return self._reporter.may_go_on()

        tested = model_digest(turn.digests)

        def on_evaluation(sums: Mapping[str, Sum]) -> None:
            counts.lap("evaluating")
            try:
                self.connection.control.report_evaluation(offer.run_id, r, tested, sums)
            except ProtocolError as error:
                if not self._came_back:
                    raise
                self._note(logging.WARNING, f"the numbers of model {r} were not taken: {error}")
            counts.begin()

        numbers = RoundNumbers(
            silo_id=self.connection.session.silo_id,
            round_index=r,
            num_rounds=offer.config.num_rounds,
            num_steps=steps,
            local_lr=turn.local_lr,
            batch_size=offer.config.batch_size,
            run_seed=offer.config.seed,
            kernel=offer.config.kernel,
            inference_scale=turn.inference_scale,
            evaluates=turn.evaluate,
        )
        vectors = turn.vectors
        if VectorId.FROZEN in vectors:
            flat.load(Section.FROZEN, vectors[VectorId.FROZEN])
        if steps and not flat.vector.is_cuda:  # a GPU has copies of its own
            whole = offer.config.kernel.fusion == "pre"
            self.connection.data.vectors.spend([VectorId.X_PREV, *([] if whole else [VectorId.X])])
        return LocalRound(
            flat,
            numbers,
            vectors[VectorId.X],
            vectors.get(VectorId.X_PREV),
            vectors.get(VectorId.MEAN_MOMENTUM),
            {SECTIONS[v]: vectors[v] for v in BUFFERS if v in vectors},
            on_step=on_step,
            on_evaluation=on_evaluation,
            spend=True,
        )

    def _send(self, offer: Offer, turn: Turn, rnd: LocalRound) -> None:
        progress = self._reporter.progress
        progress.phase = "uploading"
        result = rnd.finish()
        self.connection.counts.rounds += 1
        progress.loss = result.metrics.get("loss")
        began = time.monotonic()
        outcome = self._outbox.send(offer, turn, result)
        if outcome is not None:
            state, text = outcome
            took = (
                f"round {turn.round_index + 1}: {state.lower()}, {time.monotonic() - began:.1f} s"
            )
            self._note(logging.INFO, f"{took}: {text}" if text else took)
            self.on_sent(rnd, state, text)
