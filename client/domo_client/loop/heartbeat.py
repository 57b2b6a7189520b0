"""The heartbeat: a thread of its own, so that a busy trainer or a slow upload never looks dead."""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from domo.errors import DomoError, SiloConflictError, code_of
from domo.names import one_line
from domo.ops.logs import log_context
from domo.outside.text import Public
from domo.stages.watch import Watch
from domo.training.local_round import LocalRound
from domo_client.loop.faults import Faults
from domo_client.rpc.connection import Connection
from domo_client.state.files import replace
from domo_client.telemetry.counts import Counts
from domo_client.telemetry.describe import describe
from domo_client.telemetry.log_tail import LogTail, journal
from domo_client.telemetry.resources import measure

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """What the silo is doing now (fields of ReportRequest)."""

    phase: str = "idle"
    run_id: str = ""
    round_index: int = 0
    step: int = 0
    num_steps: int = 0
    loss: float | None = None
    longest_step_s: float | None = None
    """Of the steps of this round after the first, which often has more to do."""


class NotReady(NamedTuple):
    """Why this silo cannot take part in a run yet.

    Attributes:
        run_id: The run.
        reason: In words.
        code: What kind of reason.
        again_s: It looks again after at most so long.
    """

    run_id: str
    reason: Public
    code: str
    again_s: float


class Reporter(threading.Thread):
    """What a silo says of itself: sent every few seconds; keeps what the coordinator says to it.

    Args:
        connection: Where to.
        status_file: Replaced by this thread, and no other, after each of its heartbeats that was
            heard; `domo-client health` reads it.
        watch: Knows what is under way of the user's.
        tail: The silo's log lines; None: they stay here.

    Attributes:
        progress: What is said.
        device: Where it trains; None before the first run.
        failed: Whether the round in hand has failed here.
        faults: What has failed in rounds of the run under way, running.
        waits_for: What the coordinator said that a run waits for.
        not_ready: What is said until it is over; None: nothing is in the way.
        on_short: Told that disk or memory is short for what domo itself does: a round, an error.
    """

    def __init__(
        self,
        connection: Connection,
        status_file: Path,
        watch: Watch,
        tail: LogTail | None = None,
    ):
        super().__init__(name="reporter", daemon=True)
        self.progress = Progress()
        self.device: torch.device | None = None
        self.failed, self.waits_for = False, ""
        self.faults = Faults()
        self.not_ready: NotReady | None = None
        self._watch, self._tail, self._conflict = watch, tail, False
        self.on_short: Callable[[int, BaseException], None] = lambda round_index, error: None
        self._connection, self._status_file = connection, status_file
        self._directive = ("", 0, "CONTINUE")
        self._stopped = threading.Event()
        self._notes: deque[Public] = deque()
        self._beating = threading.RLock()

    def run(self) -> None:
        """Until `stop`."""
        heard = self._connection.counts.heard_at is not None
        while True:
            if heard:
                self._write_status()
            if self._stopped.wait(self._connection.session.report_interval_s):
                return
            heard = self.beat()

    def _write_status(self) -> None:
        try:
            told = {**_said(self.progress), "next_s": self._connection.session.report_interval_s}
            replace(self._status_file, json.dumps(told).encode())
        except OSError as error:
            log.debug("%s: %s", self._status_file, error)

    def beat(self, failure: BaseException | Public | None = None, failed: bool = False) -> bool:
        """Report now, from any thread; network faults are left to the next heartbeat.

        One at a time: what is older does not arrive later.

        Args:
            failure: What has failed here, if anything has.
            failed: Whether it is that of a round, which `faults` counts.

        Returns:
            Whether it was heard.
        """
        with self._beating:
            return self._beat(failure, failed)

    def _beat(self, failure: BaseException | Public | None, failed: bool) -> bool:
        p = self.progress
        text, code = Public(), ""
        if isinstance(failure, BaseException):
            text, code = describe(failure), code_of(failure)
        elif failure is not None:
            text = failure
        again = (self.faults.times, self.faults.lasts) if failed else (0, False)
        fields, notes = _said(p), list[Public]()
        with suppress(IndexError):
            while True:
                notes.append(self._notes.popleft())
        if (held := self.not_ready) is not None:
            fields |= {"run_id": held.run_id, "not_ready": held}
        try:
            lines = self._tail.unheard() if self._tail else []
            now = time.monotonic()
            log_lines = [(line.number, now - line.at, line.level, line.text) for line in lines]
            directive = self._connection.control.report(
                **fields,
                failure=text,
                failure_code=code,
                failure_times=again[0],
                failure_lasts=again[1],
                resources=measure(self.device, self._status_file.parent),
                log_lines=log_lines,
                doing=self._watch.now(),
                shares_log=self._tail is not None,
                notes=notes,
            )
            if self._tail and lines:
                self._tail.heard(lines[-1].number)
            self._directive = (fields["run_id"], p.round_index, directive)
            return True
        except DomoError as error:
            level = logging.DEBUG
            if isinstance(error, SiloConflictError) and not self._conflict:  # said once
                self._conflict, level = True, logging.ERROR
            log.log(level, "heartbeat: %s", error)
        except Exception as error:  # a bug; what the silo does in its rounds goes on
            log.error("this heartbeat could not be sent: %s", describe(error))
            log.debug("traceback", exc_info=True)
        self._notes.extendleft(reversed(notes))  # with the next one
        return False

    def now(
        self, phase: str, run_id: str, round_index: int | None = None, num_steps: int = 0
    ) -> Progress:
        """What is said from now on; within a run, round and loss stay until new ones."""
        old = self.progress
        same = old.run_id == run_id
        r = round_index if round_index is not None else old.round_index if same else 0
        log_context(run=run_id, round=r + 1)
        self.progress = Progress(phase, run_id, r, 0, num_steps, old.loss if same else None)
        return self.progress

    def fail(self, error: BaseException) -> None:
        """Say that the round in hand failed here."""
        self.failed = True
        self.faults.note(self.progress.round_index, error)
        self._connection.counts.failures += 1
        why, p = describe(error), self.progress
        self.note(logging.ERROR, Public(f"failed: {why}"))
        said = {"run": p.run_id, "round": p.round_index}
        self._connection.record.note("failed", **said, why=one_line(why))
        self.beat(error, failed=True)
        self.now("waiting", self.progress.run_id)

    def tell(self, text: Public) -> None:
        """What is no failure, and people at both ends should know: a line here, an event there."""
        log.warning("%s", text)
        self._notes.append(text)
        self.beat()

    def note(self, level: int, text: Public) -> None:
        """A line of the silo's journal."""
        journal.log(level, "%s", text, extra={"silo": self._connection.session.silo_id})

    def forget(self) -> None:
        """An assignment is taken up: what was said before is about another one."""
        self._directive = ("", 0, "CONTINUE")

    def may_go_on(self) -> bool:
        """Whether the coordinator still wants this round of this run."""
        if self._conflict:
            return False
        run_id, round_index, directive = self._directive
        p = self.progress
        if run_id != p.run_id:
            return True
        if directive == "STOP_RUN":
            return False
        return directive != "ABANDON_ROUND" or round_index != p.round_index

    def is_over(self, run_id: str) -> bool:
        """Whether the coordinator says that a run that waits for this silo has ended."""
        return self._directive[0] == run_id and self._directive[2] == "STOP_RUN"

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()


def _said(progress: Progress) -> dict[str, Any]:
    """Its fields, as far as they are known."""
    return {k: v for k, v in asdict(progress).items() if v is not None}


def stepper(
    reporter: Reporter, counts: Counts, progress: Progress
) -> Callable[[LocalRound, int], bool]:
    """What a round calls before each batch; it holds no vectors.

    Args:
        reporter: Knows whether the coordinator still wants the round.
        counts: Of steps.
        progress: Of the round.
    """
    step_at = 0.0

    def on_step(rnd: LocalRound, done: int) -> bool:
        nonlocal step_at
        if done > progress.step:
            now = time.monotonic()
            if done > 1:
                progress.longest_step_s = max(progress.longest_step_s or 0.0, now - step_at)
            step_at = now
        counts.steps += done - progress.step
        progress.phase, progress.step = "training", done
        return reporter.may_go_on()

    return on_step
