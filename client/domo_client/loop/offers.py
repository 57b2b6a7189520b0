"""Runs that are offered to a silo: waited for, refused, declined, put off."""

import logging
import os
import threading
import time
from collections.abc import Callable

from domo.model.flat import FlatModel
from domo.model.layout import Layout
from domo.names import one_line
from domo.outside.faults import outside
from domo.outside.text import Public
from domo.stages.watch import Watch
from domo_client.loop.heartbeat import NotReady, Progress, Reporter
from domo_client.loop.pace import Pace
from domo_client.policy.gate import Gate
from domo_client.rpc.connection import Connection
from domo_client.rpc.control import MissedRunError
from domo_client.rpc.offer import Offer, PolicyError, RefusedRunError, TooManyThreadsError
from domo_client.telemetry.describe import sendable

LISTEN_S = 0.5
"""How soon a silo that waits sees that the run which waited for it is over."""


def usable_cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


class Offers:
    """What the coordinator offers, and what becomes of it.

    Args:
        connection: To the coordinator.
        reporter: What the silo says of itself.
        watch: Knows what is under way of the user's.
        closed: Set once the silo has left.
        gate: This silo's policy.
        max_threads: CPU threads that a run may have; None: as many as there are CPUs to use.
    """

    def __init__(
        self,
        connection: Connection,
        reporter: Reporter,
        watch: Watch,
        closed: threading.Event,
        gate: Gate,
        max_threads: int | None,
    ):
        self._control, self._record = connection.control, connection.record
        self._reporter, self._watch = reporter, watch
        self._closed, self._gate = closed, gate
        self._max_threads = max_threads or usable_cpus()
        self._pace = Pace(closed.wait)
        self._refused: set[tuple[str, str]] = set()  # runs, with the digests of their settings

    def wait(self, ends_with: str, on_wait: Callable[[str], None]) -> Offer:
        """Wait for a run that wants this silo; see `Silo.next_run`."""
        self._watch.follow()
        self._reporter.progress = Progress("idle")
        while True:
            self._pace.rest()
            try:
                offer = self._control.wait_for_run()
                if offer is not None:
                    self.check(offer)
                    if self._has_to_wait(offer, on_wait):
                        continue
            except RefusedRunError as error:
                self.refuse(error)
                raise
            told = self._control.not_offered
            if offer is None and told not in ("", self._reporter.waits_for):
                self._reporter.note(logging.WARNING, Public(told))
                on_wait(told)
            self._reporter.waits_for = told
            held = self._reporter.not_ready
            if held is not None and offer is None and held.run_id == ends_with:
                self._reporter.beat()
                if not self._reporter.is_over(ends_with):
                    continue
                self._reporter.not_ready = None
                raise MissedRunError(ends_with)
            if held is not None and (offer is None or offer.run_id != held.run_id):
                self._reporter.not_ready = None  # that run does not want this silo any more
            if offer is not None:
                return offer

    def check(self, offer: Offer) -> None:
        """See that a run may be looked at here.

        Raises:
            RefusedRunError: It may not.
        """
        if (offer.run_id, offer.config.digest) in self._refused:
            raise RefusedRunError(
                offer.run_id,
                "the coordinator has asked for something else than this run's configuration says; "
                "start this silo again to be asked again",
            )
        if offer.config.threads > self._max_threads:
            raise TooManyThreadsError(offer.run_id, offer.config.threads, self._max_threads)
        config = offer.config
        if why := self._gate.of_run(config) or self._gate.answer(offer.run_id, config):
            raise PolicyError(offer.run_id, why)

    def see_model(self, offer: Offer, layout: Layout) -> None:
        """See that a model may be trained here; where it may not, both ends are told.

        Raises:
            PolicyError: This silo's policy does not allow it.
        """
        self._see(offer, self._gate.of_model(layout, offer.config))

    def see_all(self, offer: Offer, flat: FlatModel, samples: int) -> None:
        """See that a run may begin here; where it may not, both ends are told.

        Args:
            offer: The run.
            flat: Its model, on its device.
            samples: Size of the training data.

        Raises:
            RefusedRunError: It may not.
        """
        try:
            self.check(offer)
        except RefusedRunError as error:
            self.refuse(error)
            raise
        self.see_model(offer, flat.layout)
        self._see(offer, self._gate.of_device(str(flat.vector.device)))
        self._see(offer, self._gate.of_data(offer.config, samples))

    def _see(self, offer: Offer, why: str) -> None:
        if why:
            error = PolicyError(offer.run_id, why)
            self.refuse(error)
            raise error

    def _has_to_wait(self, offer: Offer, on_wait: Callable[[str], None]) -> bool:
        """Let time pass where the policy has a run wait; whether it was so."""
        run_id, config, said = offer.run_id, offer.config, ""
        while (held := self._gate.waits(run_id, config)) and not self._gate.answer(run_id, config):
            if held.reason != said:
                said = held.reason
                text = Public(f"run {run_id}: waits here: {said}")
                on_wait(text)
                self._reporter.note(logging.WARNING, text)
                self._reporter.not_ready = NotReady(run_id, Public(said), held.code, LISTEN_S)
                self._reporter.beat()
            if self._closed.wait(LISTEN_S) or self._reporter.is_over(run_id):
                self._reporter.not_ready = None
                return True
        if said and (by := self._gate.approved_by(run_id, config)):
            self._record.note("approved", run=run_id, config=config.digest, by=one_line(by))
        return bool(said)

    def refuse(self, error: RefusedRunError, offer: Offer | None = None) -> None:
        """Say at both ends that this silo takes no part in a run, whatever its data are.

        Args:
            error: Why.
            offer: The run, where it was taken up before: it is not looked at again.
        """
        if offer is not None:
            self._refused.add((offer.run_id, offer.config.digest))
        self._reporter.now("idle", "")
        self.decline(error.run_id, outside(error), error.code)

    def prepares(self, offer: Offer) -> None:
        """Say that this thread makes itself ready for a run."""
        self._watch.follow()
        self._reporter.progress = Progress("idle", offer.run_id)

    def not_yet(self, offer: Offer, reason: Public, code: str, again_s: float) -> bool:
        """Say that this silo is not ready for a run, and wait; see `Silo.not_yet`."""
        held = NotReady(offer.run_id, sendable(reason), code, again_s)
        text = Public(f"run {offer.run_id}: not ready: {held.reason}")
        self._reporter.note(logging.WARNING, text)
        self._reporter.not_ready = held
        self._reporter.beat()
        until = time.monotonic() + again_s
        while (left := until - time.monotonic()) > 0 and not self._closed.is_set():
            if self._reporter.is_over(offer.run_id):
                self._reporter.not_ready = None
                return False
            self._closed.wait(min(left, LISTEN_S))
        return True

    def decline(self, run_id: str, reason: Public, code: str) -> None:
        """Say that this silo will not take part in a run, and why."""
        reason = sendable(reason)
        self._record.note("declined", run=run_id, why=one_line(reason), code=code)
        self._reporter.not_ready = None
        self._reporter.note(logging.WARNING, Public(f"run {run_id}: declined: {reason}"))
        self._control.decline(run_id, reason, code)
