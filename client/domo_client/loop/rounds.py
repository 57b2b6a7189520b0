"""The rounds of one run at a silo, a method for each step."""

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

from torch import Tensor

from domo.errors import ProtocolError
from domo.meaning.value import Meaning
from domo.metrics.table import Measured
from domo.model.flat import FlatModel, byte_view
from domo.model.layout import Section
from domo.ops.logs import log_context
from domo.outside.text import Public
from domo.stages.now import begin, end
from domo.training.local_round import LocalRound
from domo.training.round_data import round_numbers
from domo_client.loop.allowed import Allowed
from domo_client.loop.faults import Faults
from domo_client.loop.header import Agreed
from domo_client.loop.heartbeat import Reporter, stepper
from domo_client.loop.outbox import REFUSED, Outbox
from domo_client.loop.outcome import Outcome
from domo_client.loop.own_model import save_own_model
from domo_client.loop.pace import Pace
from domo_client.policy.gate import Gate
from domo_client.rpc.connection import Connection
from domo_client.rpc.control import LostRunError
from domo_client.rpc.data import Fetched, Tested
from domo_client.rpc.offer import Offer
from domo_client.state.folder import SiloState
from domo_client.telemetry.describe import SHORT, describe
from domo_proto.assignment import SECTIONS, Announced, Assignment
from domo_proto.codec import VectorId, model_digest

BUFFERS = (VectorId.FLOAT_BUFFERS, VectorId.INTEGER_BUFFERS)


class Rounds:
    """The rounds of one run.

    Args:
        connection: To the coordinator.
        state: The silo's state folder.
        reporter: What the silo says of itself.
        outbox: For its updates.
        closed: Set once the silo has left.
        offer: The run.
        flat: The silo's model.
        frozen: Digest of its frozen parameters.
        samples: Size of the training data.
        tests: Size of the test data.
        meaning: What the data mean.
        on_sent: Told what became of an update: its round, `ACCEPTED`, `STALE` or `REFUSED`, a text.
        gate: This silo's policy.
    """

    def __init__(
        self,
        connection: Connection,
        state: SiloState,
        reporter: Reporter,
        outbox: Outbox,
        closed: threading.Event,
        offer: Offer,
        flat: FlatModel,
        frozen: str,
        samples: int,
        tests: int,
        meaning: Meaning,
        on_sent: Callable[[LocalRound, str, str], None],
        gate: Gate,
    ):
        self._connection, self._state, self._reporter = connection, state, reporter
        self._outbox, self._closed, self._on_sent = outbox, closed, on_sent
        self._offer, self._flat, self._samples, self._tests = offer, flat, samples, tests
        self._meaning, self._gate = meaning, gate
        session = connection.session
        self._agreed = Agreed(offer, session.silo_id, session.role, samples, tests)
        built = gate.digest_built(flat.vector)
        self._allowed = Allowed(gate, offer, connection, reporter, closed, samples, built)
        self._pace = Pace(closed.wait)
        self._begin_testing()
        self._own = [frozen]
        self._joins = 0  # sessions until it enrolled
        self._tested_here = -1  # index of the model that is in `flat`, untrained
        self._furthest = state.newest_round(offer.run_id, offer.config.digest)
        reporter.faults = Faults()

    def _begin_testing(self) -> None:
        """No model counts as tested."""
        self._tested, self._test_failed = Tested(), -1  # a model whose test has failed once

    def run(self) -> Generator[LocalRound, None, Outcome]:
        """Each round, with x_r in the model, until the run ends."""
        self._enroll()
        self._state.kept.keep_only(self._offer.run_id)
        while True:
            try:
                assignment, vectors = self._fetch()
                if assignment.action == "END":
                    return self._end(assignment)
                self._rest(assignment)
                if assignment.action == "ASK_AGAIN" or self._resend(assignment):
                    continue
                self._allowed.see(assignment, vectors)
                if self._allowed.has_to_wait(assignment):
                    continue
                rnd = self._hand_out(assignment, vectors)
            except SHORT as error:
                self._reporter.now("waiting", self._offer.run_id, self._connection.data.round_told)
                self._reporter.fail(error)
                self._reporter.on_short(self._connection.data.round_told, error)
                self._back_off()
                continue
            begin("round")
            yield rnd
            end()
            self._take_back(assignment, rnd)

    def _enroll(self) -> None:
        joins = self._connection.counts.joins
        layout = self._flat.layout
        self._connection.control.enroll(
            self._offer, layout, self._samples, self._tests, self._meaning
        )
        self._joins = joins
        self._reporter.not_ready = None
        run = {"run": self._offer.run_id, "config": self._offer.config.digest}
        told = {"samples": self._samples, "tests": self._tests, "layout": layout.digest}
        self._connection.record.note("enrolled", **run, **told, **self._gate.said)
        text = Public(f"run {self._offer.run_id}: enrolled with {self._samples} samples")
        self._reporter.note(logging.INFO, text)

    @property
    def _came_back(self) -> bool:
        """Whether the session is another one than that in which this silo enrolled."""
        return self._connection.counts.joins != self._joins

    def _fetch(self) -> Fetched:
        """Wait for what is to be done next; a coordinator that came back may not know this silo."""
        run_id = self._offer.run_id
        self._reporter.now("waiting", run_id)
        try:
            fetched = self._connection.data.fetch_round(
                run_id, self._tested, self._own, self._agreed.check
            )
            assignment, _ = fetched
            if assignment.action == "ASK_AGAIN" and self._came_back:
                self._enroll()
                self._begin_testing()
        except ProtocolError as error:
            if self._came_back and type(error) is ProtocolError:
                raise LostRunError(run_id, str(error)) from error
            raise
        self._reporter.waits_for = assignment.text if assignment.action == "ASK_AGAIN" else ""
        if assignment.action in ("TRAIN", "EVALUATE"):
            self._notice_a_way_back(assignment.round_index)
        if assignment.action != "ASK_AGAIN" and assignment.round_index < self._tested.model_index:
            self._begin_testing()  # the coordinator's state is an older copy
        return fetched

    def _notice_a_way_back(self, r: int) -> None:
        """After a crash a coordinator goes back one round at most; further back, it is told of."""
        if r + 1 < self._furthest:
            text = (
                f"run {self._offer.run_id} is now in round {r + 1}, and this silo was in round "
                f"{self._furthest + 1} of it: the coordinator's state is older than this silo's, "
                "as after a backup was restored. The rounds since are made again"
            )
            self._reporter.tell(Public(text))
            self._furthest = r
        self._furthest = max(self._furthest, r)

    def _rest(self, assignment: Assignment[Announced]) -> None:
        """What was asked for already has come to nothing, whatever was done about it."""
        a = assignment
        model = a.digests.get(VectorId.X) if a.action != "ASK_AGAIN" else None
        self._pace.note((a.action, a.round_index, model))

    def _end(self, assignment: Assignment[Announced]) -> Outcome:
        run_id = self._offer.run_id
        self._state.delete_pending()
        log_context(run=None, round=None)
        text = Public(f"run {run_id}: {assignment.outcome.lower()}: {assignment.text}")
        self._reporter.note(logging.INFO, text)
        self._connection.record.note("ended", run=run_id, state=assignment.outcome)
        if assignment.outcome == "FINISHED":
            save_own_model(self._state, self._offer, self._flat, self._tested_here)
        return Outcome(run_id, assignment.outcome, assignment.text, assignment.round_index)

    def _resend(self, assignment: Assignment[Announced]) -> bool:
        """Send an update of this round that was made before a crash; whether that is all of it."""
        if assignment.action != "TRAIN":
            return False
        update = self._outbox.pending(self._offer, assignment)
        if update is None:
            return False
        self._reporter.now("uploading", self._offer.run_id, assignment.round_index)
        return self._outbox.send_again(update)

    def _hand_out(
        self, assignment: Assignment[Announced], vectors: Mapping[VectorId, Tensor]
    ) -> LocalRound:
        """The round for the loop's body, with its vectors."""
        r, config = assignment.round_index, self._offer.config
        steps = assignment.num_steps if assignment.action == "TRAIN" else 0
        self._reporter.forget()
        self._tested_here = -1 if steps else r
        if steps:
            text = Public(f"round {r + 1} of {config.num_rounds}: {steps} steps")
            self._reporter.note(logging.INFO, text)
        progress = self._reporter.now("evaluating", self._offer.run_id, r, steps)
        a, silo_id = assignment, self._connection.session.silo_id
        numbers = replace(
            round_numbers(config, silo_id, r, steps, a.local_lr, a.inference_scale, a.evaluate),
            run_seed=self._allowed.seed,
        )
        if VectorId.FROZEN in vectors:
            self._flat.load(Section.FROZEN, vectors[VectorId.FROZEN])
            self._own = [assignment.digests[VectorId.FROZEN]]
        if steps and not self._flat.vector.is_cuda:  # a GPU has copies of its own
            spent = [VectorId.X_PREV, *([VectorId.X] if config.kernel.fusion != "pre" else [])]
            self._connection.data.vectors.spend(spent)
        tested = model_digest(assignment.digests)
        self._connection.record.came(byte_view(vectors[VectorId.X]))
        rnd = LocalRound(
            self._flat,
            numbers,
            vectors[VectorId.X],
            vectors.get(VectorId.X_PREV),
            vectors.get(VectorId.MEAN_MOMENTUM),
            {SECTIONS[v]: vectors[v] for v in BUFFERS if v in vectors},
            on_step=stepper(self._reporter, self._connection.counts, progress),
            on_evaluation=lambda sums: self._report_test(r, tested, sums, steps > 0),
            spend=config.personal == "none",  # which begins from x_r anew
            c_r=vectors.get(VectorId.CONTROL),
            kept=self._outbox.begins_with(self._offer, assignment, self._flat.layout),
        )
        self._reporter.failed = False
        self._connection.counts.begin()
        return rnd

    def _report_test(self, model_index: int, tested: str, sums: Measured, trains: bool) -> None:
        counts = self._connection.counts
        counts.lap("evaluating")
        self._allowed.tests(trains)
        self._connection.record.test(self._offer.run_id, model_index, sums)
        try:
            told = self._connection.control.report_evaluation(
                self._offer.run_id, model_index, tested, sums
            )
            self._allowed.told(model_index, tested)
            if told:
                self._reporter.note(logging.WARNING, Public(f"not taken: {told}"))
        except ProtocolError as error:
            if not self._came_back:
                raise
            text = f"the numbers of model {model_index} were not taken: {describe(error)}"
            self._reporter.note(logging.WARNING, Public(text))
        counts.begin()

    def _take_back(self, assignment: Assignment[Announced], rnd: LocalRound) -> None:
        """The loop's body is through with a round: note its test, send its update."""
        reporter = self._reporter
        self._connection.counts.lap("training" if rnd.num_steps else "evaluating")
        if assignment.evaluate and reporter.failed and self._test_failed != assignment.round_index:
            self._test_failed = assignment.round_index  # it gets one more chance
        elif assignment.evaluate:
            self._tested = Tested(assignment.round_index, model_digest(assignment.digests))
        if rnd.num_steps and not reporter.failed and not rnd.abandoned:
            self._send(assignment, rnd)
            reporter.faults = reporter.faults if reporter.failed else Faults()
        if reporter.failed:
            self._back_off()

    def _send(self, assignment: Assignment[Announced], rnd: LocalRound) -> None:
        progress = self._reporter.progress
        progress.phase = "uploading"
        result = rnd.finish()
        self._allowed.leaves(assignment, result)
        self._connection.counts.rounds += 1
        progress.loss = result.metrics.get("loss")
        began = time.monotonic()
        outcome = self._outbox.send(self._offer, assignment, result)
        if outcome is not None:
            state, text = outcome
            took = f"{state.lower()}, {time.monotonic() - began:.1f} s"
            line = f"round {assignment.round_index + 1}: {took}"
            said = text if state != REFUSED else ""  # a failure, which was said
            self._reporter.note(logging.INFO, Public(f"{line}: {said}" if said else line))
            self._on_sent(rnd, state, text)

    def _back_off(self) -> None:
        """Wait after a failure, each time longer."""
        self._closed.wait(self._reporter.faults.pause_s)
