"""Typed calls to the coordinator; errors are `DomoError`, see `domo_client.rpc.session`."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from domo.errors import LayoutMismatchError, ProtocolError
from domo.meaning.compare import differences, mismatch
from domo.meaning.value import MAX_BYTES, Meaning
from domo.metrics.table import Measured, Sum, Table, counts, is_finite
from domo.model.layout import Layout
from domo.names import GARBLED, one_line
from domo.outside.text import Public
from domo.stages.watch import Seen
from domo_client.rpc.offer import Offer, offer_in
from domo_client.rpc.session import Session
from domo_client.state.record import Record
from domo_proto.heads import head_message, read_head
from domo_proto.tables import table_message
from domo_proto.v1 import federation_pb2 as pb

PHASES = {
    "idle": pb.IDLE,
    "waiting": pb.WAITING,
    "downloading": pb.DOWNLOADING,
    "evaluating": pb.EVALUATING,
    "training": pb.TRAINING,
    "uploading": pb.UPLOADING,
}

DIRECTIVES = {pb.ABANDON_ROUND: "ABANDON_ROUND", pb.STOP_RUN: "STOP_RUN"}

LogLine = tuple[int, float, str, Public]

log = logging.getLogger(__name__)

MOST_WANTED = 4 * MAX_BYTES
"""Of what several silos have said together."""


class LostRunError(ProtocolError):
    """The coordinator came back without this silo's run: its state was deleted, or replaced."""

    code = "lost-run"

    def __init__(self, run_id: str, why: str):
        super().__init__(
            f"the coordinator came back without the run {run_id} of this silo ({why}): its state "
            "was deleted or replaced. Wait for the next run: a loop calls rounds() again"
        )


class MissedRunError(ProtocolError):
    """A run has ended that waited for this silo to be ready."""

    code = "missed-run"

    def __init__(self, run_id: str):
        super().__init__(f"run {run_id} has ended before this silo was ready for it")


class Control:
    """The control rpcs.

    Args:
        session: Over which they go.
        record: Whose head the coordinator is told; None: there is none.
    """

    def __init__(self, session: Session, record: Record | None = None):
        self._session, self._record, self._left_out = session, record, ""
        self.not_offered = ""
        """Why the run under way is not for this silo, as the coordinator said last."""

    def wait_for_run(self) -> Offer | None:
        """Wait for a run that wants this silo; None: nothing yet, ask again.

        One that it has declined is not offered again in this session.

        Raises:
            UnknownRunError: It has settings, or defaults, that are not known here.
        """
        request = pb.WaitForRunRequest(told=self.not_offered)
        answer = self._ask("WaitForRun", request, self._session.long_poll_s)
        self.not_offered = answer.text
        if not answer.HasField("offer"):
            return None
        return offer_in(answer.offer)

    def enroll(
        self,
        offer: Offer,
        layout: Layout,
        num_samples: int,
        num_eval_samples: int,
        meaning: Meaning,
    ) -> None:
        """Take part in a run.

        Raises:
            LayoutMismatchError: Names the tensors that differ.
            MeaningMismatchError: Names what this silo's data mean otherwise.
            ConfigError: The coordinator's text says what to do.
        """
        request = pb.EnrollRequest(
            run_id=offer.run_id,
            config_digest=offer.config.digest,
            layout_digest=bytes.fromhex(layout.digest),
            num_samples=num_samples,
            num_eval_samples=num_eval_samples,
            meaning_json=meaning.to_json(),
        )
        answer = self._ask("Enroll", request)
        if answer.meaning_json:
            wanted = Meaning.from_json(answer.meaning_json, MOST_WANTED)
            listed, same_code = offer.config.classes is not None, offer.config.same_code
            raise mismatch(differences(meaning, wanted, listed=listed, same_code=same_code))
        if not answer.enrolled:
            _layout(answer.layout_json).check_same(layout)
            raise LayoutMismatchError("the coordinator says that the models differ")

    def decline(self, run_id: str, reason: Public, code: str = "") -> None:
        """Say that this silo will not take part, and why."""
        self._ask("Decline", pb.DeclineRequest(run_id=run_id, reason=reason, code=code))

    def report_evaluation(
        self, run_id: str, model_index: int, model_digest: str, sums: Measured
    ) -> str:
        """Send sums over this silo's test data; those that measure nothing stay here.

        Returns:
            What the coordinator left out of them, and why; not twice running.
        """
        metrics = {
            name: message(one)
            for name, one in sums.items()
            if measures(name, one) and self._takes(name, one)
        }
        request = pb.ReportEvaluationRequest(
            run_id=run_id,
            model_index=model_index,
            model_digest=bytes.fromhex(model_digest),
            metrics=metrics,
        )
        told, before = str(self._ask("ReportEvaluation", request).text), self._left_out
        self._left_out = told
        return told if told != before else ""

    def _takes(self, name: str, one: Sum | Table) -> bool:
        takes = isinstance(one, Sum) or self._session.tables
        if not takes:
            text = "metric %r is a table, which the coordinator's domo does not add up: not sent"
            log.warning(text, name)
        return takes

    def report(
        self, log_lines: Sequence[LogLine] = (), doing: Seen | None = None, **fields: Any
    ) -> str:
        """One heartbeat; returns the directive by name.

        Args:
            log_lines: Number, age in seconds, level and text of each.
            doing: What it is at of its own code, as `domo.stages.watch.Seen`; no place is sent.
            **fields: The others of ReportRequest.

        Raises:
            TransportError: Not retried; the next heartbeat comes soon.
        """
        counts = self._session.counts
        if (held := fields.pop("not_ready", None)) is not None:
            of_it = {"reason": held.reason, "code": held.code, "looks_again_s": held.again_s}
            fields["not_ready"] = pb.NotReady(**of_it)
        fields["phase"] = PHASES[fields["phase"]]
        fields["log_lines"] = [
            pb.LogLine(number=number, age_s=age_s, level=level, text=text)
            for number, age_s, level, text in log_lines
        ]
        if doing is not None:
            stage, for_s, activity, stuck, _ = doing
            fields["doing"] = pb.Doing(stage=stage, for_s=for_s, activity=activity, stuck=stuck)
        fields |= {"bytes_sent": counts.bytes_sent, "bytes_received": counts.bytes_received}
        said = fields["network"] = counts.network
        head = self._record.head_to_tell() if self._record is not None else None
        if head is not None and self._record is not None:
            fields["audit"] = head_message(head, self._record.key)
        answer = self._session.once(self._naming("Report", pb.ReportRequest(**fields)))
        if head is not None and self._record is not None:
            self._record.was_told(head, *read_head(answer))
        if counts.network == said:
            counts.network = ""
        counts.heard_at = time.monotonic()
        self._session.report_after(answer.next_s)
        return DIRECTIVES.get(answer.directive, "CONTINUE")  # of what is not known here, nothing

    def _ask(self, name: str, request: Any, hold_s: float = 0.0) -> Any:
        """Make a call, as often as it takes."""
        return self._session.ask(self._naming(name, request, hold_s))

    def _naming(self, name: str, request: Any, hold_s: float = 0.0) -> Callable[[str], Any]:
        """A call whose request names the session that there is when it is made."""

        def call(token: str) -> Any:
            request.session = token
            return self._session.call(name, request, hold_s)

        return call


def message(one: Sum | Table) -> pb.MetricSum:
    """A sum or a table as it travels."""
    if isinstance(one, Table):
        return pb.MetricSum(table=table_message(one))
    return pb.MetricSum(total=one.total, num=one.num)


def measures(name: str, of: Sum | Table) -> bool:
    """Whether a sum tells anything; one that is not finite is said here."""
    if isinstance(of, Table):
        if not of.finite:
            log.warning("metric %r is not finite here; it is not sent", name)
    elif not is_finite(of):
        log.warning("metric %r is not finite here (%s of %s); it is not sent", name, *of)
    return counts(of)


def _layout(text: str) -> Layout:
    """The run's layout, as the coordinator writes it.

    Raises:
        ProtocolError: It is none.
    """
    try:
        return Layout.from_json(text)
    except GARBLED as error:
        raise ProtocolError(
            f"the coordinator's layout cannot be read: {one_line(repr(error))}"
        ) from None
