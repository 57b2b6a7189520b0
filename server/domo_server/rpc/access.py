"""What every rpc needs: who asks, and errors as statuses."""

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message

from domo.errors import (
    CoordinatorUnavailableError,
    DomoError,
    ProtocolError,
    StateError,
)
from domo.metrics.names import MOST_METRICS, MOST_NAME, is_metric_name
from domo.metrics.table import MOST_SENT, Sum, Table
from domo.names import MOST_SAID, one_line, plain
from domo.ops.logs import log_context
from domo_proto.errors import known_code, status_of, trailing_metadata
from domo_proto.tables import table_of
from domo_proto.texts import with_lines
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.events import kinds
from domo_server.identity.peers import address_of
from domo_server.rpc.certify import note_certificate
from domo_server.rpc.held import check_rate
from domo_server.runs.run import Run
from domo_server.silos.session import NotReady, Session

log = logging.getLogger(__name__)

MOST_AGAIN_S = 86_400.0
"""A silo that looks again later than this is not believed."""
MAX_SUM = 1e100
"""Numbers beyond this are no measurement, and their sums would not be finite."""
UNREADABLE = (
    "the coordinator cannot read a file of the run; its admin is told, and it goes on by itself "
    "once that is mended"
)
BUG = "internal error at the coordinator; its log has the details"
Context = grpc.aio.ServicerContext[Any, Any]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


def answers(handler: Handler) -> Handler:
    """Turn an error into its status, with the class by name in the trailing metadata.

    What is the coordinator's own fault is retryable: silos wait until its admin has mended it.
    Texts of requests and of answers become printable lines here.
    """
    enrols = handler.__name__ == "Certify"

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Context) -> Any:
        try:
            if isinstance(request, Message):
                with_lines(request)
            with self._coordinator.guard.call(context, enrols) as call:
                try:
                    answer = await handler(self, request, context)
                except asyncio.CancelledError:
                    if call.cut is None:
                        raise
                    call.uncancel()
                    raise call.cut from None
            return with_lines(answer) if isinstance(answer, Message) else answer
        except grpc.aio.BaseError:  # the call is over
            raise
        except Exception as error:
            said = _for_silo(error)
            self._coordinator.counters.rpc_error(said)
            await self._coordinator.held_back.errs(said, context.peer())
            text = one_line(str(said))
            return await context.abort(status_of(said), text, trailing_metadata(said))

    return wrapped  # type: ignore[return-value]


def _for_silo(error: Exception) -> DomoError:
    """An error as a silo is told it: without the coordinator's paths."""
    if isinstance(error, OSError):
        why = error.strerror or type(error).__name__
        return CoordinatorUnavailableError(f"the coordinator's disk says: {why}")
    if isinstance(error, StateError):
        return CoordinatorUnavailableError(UNREADABLE)
    if not isinstance(error, DomoError):
        log.error("a call of a silo failed", exc_info=error)
        return CoordinatorUnavailableError(BUG)
    return error


def without_folder(text: str, coordinator: Coordinator) -> str:
    """A text that admins see too, as a silo is told it: paths begin at the state folder."""
    return text.replace(f"{coordinator.state_dir}/", "")


def place_of(host: str, context: Context) -> str:
    """Where a call comes from, in words: `b (10.0.0.7)`."""
    return f"{plain(host[:64]) or 'a machine'} ({address_of(context)})"


def digest_of(raw: bytes) -> str:
    """A digest from the wire as hex; it becomes part of a file's name.

    Raises:
        ProtocolError: Not 16 bytes.
    """
    if len(raw) != 16:
        raise ProtocolError(f"the digest of an update has 16 bytes, this one {len(raw)}")
    return raw.hex()


def check_metric_names(names: Collection[str]) -> None:
    """See that numbers of a peer can be kept under their names.

    Raises:
        ProtocolError: They are too many, or cannot be shown.
    """
    if len(names) > MOST_METRICS:
        raise ProtocolError(f"at most {MOST_METRICS} metrics")
    if not all(map(is_metric_name, names)):
        text = f"the name of a metric is one printable line of up to {MOST_NAME} characters"
        raise ProtocolError(text)


def measured_of(metrics: Mapping[str, pb.MetricSum]) -> dict[str, Sum | Table]:
    """What a peer has measured of a model; of large tables this takes long: in a thread.

    Raises:
        ProtocolError: It is no measurement, or too much.
    """
    check_metric_names(metrics)
    found: dict[str, Sum | Table] = {}
    cells = 0
    for name, one in metrics.items():
        found[name] = given = _measured(name, one)
        cells += given.values.size if isinstance(given, Table) else 0
        if cells > MOST_SENT:
            raise ProtocolError(f"the tables of one test have {MOST_SENT} cells at most")
    return found


def _measured(name: str, one: pb.MetricSum) -> Sum | Table:
    """What a peer has measured under a name.

    Raises:
        ProtocolError: It is no measurement.
    """
    if one.HasField("table"):
        try:
            table = table_of(one.table)
        except ProtocolError as error:
            raise ProtocolError(f"metric {name!r}: {error}") from None
        if table.num > 0:
            return table
    elif abs(one.total) <= MAX_SUM and 1 / MAX_SUM <= one.num <= MAX_SUM:
        return Sum(one.total, one.num)
    raise ProtocolError(f"metric {name!r} is not a finite sum over a positive count")


def seconds(message: Any, field: str) -> float | None:
    """A length of time that a peer gives; None: it gives none, or it is none."""
    value: float = getattr(message, field)
    return value if message.HasField(field) and 0 <= value < math.inf else None


def not_ready_of(request: pb.ReportRequest) -> tuple[NotReady | None, str]:
    """What a silo says of a run that it cannot take part in yet, and its code; None: nothing."""
    if not request.HasField("not_ready"):
        return None, ""
    said = request.not_ready
    again_s = said.looks_again_s if 0 <= said.looks_again_s <= MOST_AGAIN_S else MOST_AGAIN_S
    return NotReady(request.run_id[:128], said.reason, again_s), known_code(said.code)


def refuse(
    run: Run, session: Session, what: str, why: str, kind: str | None = None, code: str = ""
) -> None:
    """Record that an update or enrolment of a silo was refused: an event, and its error.

    Args:
        run: The run that it was for.
        session: The silo's.
        what: `update` or `enrolment`.
        why: In words.
        kind: What it is counted as, if not as that.
        code: Of the error that it is.
    """
    why = one_line(why, MOST_SAID)
    run.events.counters.refused(session.silo_id, kind or what)
    run.say(kinds.REFUSED, f"refused an {what} of {session.silo_id}: {why}", session.silo_id)
    session.fails(f"{what} refused: {why}", code)


class Callers:
    """Maps a call to the session of the silo that makes it."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator

    def session(self, token: str) -> Session:
        """The session of a token, if the peer may use it.

        Raises:
            SessionError: The session is over.
            AccessError: The peer's certificate is another silo's, or the silo was revoked.
        """
        session = self._coordinator.sessions.get(token)
        self._coordinator.guard.speaks_for(session.silo_id)
        note_certificate(session)  # it may have been renewed
        check_rate(self._coordinator, session)
        log_context(silo=session.silo_id)
        return session

    async def new(self, silo_id: str, joins: bool) -> None:
        """See that whoever calls may speak for a silo that has no session yet.

        Args:
            silo_id: Its name.
            joins: Whether it is to have one.

        Raises:
            AccessError: Its certificate names others, or the silo is not let in.
        """
        await self._coordinator.guard.lets_in(silo_id, joins)
