"""What every rpc needs: who asks, and errors as statuses."""

import functools
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc.aio

from domo.errors import AccessError, CoordinatorUnavailableError, DomoError, ProtocolError
from domo.ops.logs import log_context
from domo_proto.errors import ERROR_KEY, status_of
from domo_server.coordinator.coordinator import Coordinator
from domo_server.runs.durable import said_by_disk
from domo_server.runs.run import Run
from domo_server.silos.sessions import Session

MAX_TEXT = 2000
MAX_METRICS = 64
MAX_SUM = 1e100
"""Numbers beyond this are no measurement, and their sums would not be finite."""
Context = grpc.aio.ServicerContext[Any, Any]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


def answers(handler: Handler) -> Handler:
    """Turn an error into its status, with the class by name in the trailing metadata.

    What the disk refuses is retryable: there may be room later.
    """

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Context) -> Any:
        try:
            return await handler(self, request, context)
        except DomoError as error:
            return await abort(context, error, self._coordinator)
        except OSError as error:
            said = CoordinatorUnavailableError(said_by_disk(error))
            return await abort(context, said, self._coordinator)

    return wrapped  # type: ignore[return-value]


async def abort(context: Context, error: DomoError, coordinator: Coordinator) -> Any:
    """End a call with the status of an error."""
    coordinator.counters.rpc_error(error)
    await context.abort(status_of(error), str(error), ((ERROR_KEY, type(error).__name__),))


def principals(context: Context) -> set[str] | None:
    """Names that the peer's certificate vouches for; None: it showed no certificate."""
    auth = context.auth_context()
    if "x509_pem_cert" not in auth:
        return None
    keys = ("x509_subject_alternative_name", "x509_common_name")
    return {value.decode(errors="replace") for key in keys for value in auth.get(key, ())}


def digest_of(raw: bytes) -> str:
    """A digest from the wire as hex; it becomes part of a file's name.

    Raises:
        ProtocolError: Not 16 bytes.
    """
    if len(raw) != 16:
        raise ProtocolError(f"the digest of an update has 16 bytes, this one {len(raw)}")
    return raw.hex()


def seconds(message: Any, field: str) -> float | None:
    """A length of time that a peer gives; None: it gives none, or it is none."""
    value: float = getattr(message, field)
    return value if message.HasField(field) and 0 <= value < math.inf else None


def refuse(run: Run, session: Session, what: str, why: str, kind: str | None = None) -> None:
    """Record that an update or enrolment of a silo was refused: an event, and its error.

    Args:
        run: The run that it was for.
        session: The silo's.
        what: `update` or `enrolment`.
        why: In words.
        kind: What it is counted as, if not as that.
    """
    why = why[:MAX_TEXT]
    run.events.counters.refused(session.silo_id, kind or what)
    run.say("refused", f"refused an {what} of {session.silo_id}: {why}", session.silo_id)
    session.error = f"{what} refused: {why}"


class Callers:
    """Maps a call to the session of the silo that makes it."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator

    def session(self, token: str, context: Context) -> Session:
        """The session of a token, if the peer may use it.

        Raises:
            SessionError: The session is over.
            AccessError: The peer's certificate is another silo's.
        """
        session = self._coordinator.sessions.get(token)
        self.check(session.silo_id, context)
        log_context(silo=session.silo_id)
        return session

    def check(self, silo_id: str, context: Context) -> None:
        """See that the peer may speak for a silo.

        Raises:
            AccessError: Its certificate names others.
        """
        names = principals(context)
        if names is not None and silo_id not in names:
            raise AccessError(
                f"this certificate is for {', '.join(sorted(names)) or 'nobody'}, not for "
                f"{silo_id}; the silo's name must be in it (subject alternative name)"
            )
