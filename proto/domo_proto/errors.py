"""Errors across the wire: one table, both ways.

    ConfigError, TaskError       INVALID_ARGUMENT
    LayoutMismatchError          FAILED_PRECONDITION
    UnknownSiloError             NOT_FOUND
    SiloConflictError            ALREADY_EXISTS
    VersionError                 UNIMPLEMENTED
    AccessError                  PERMISSION_DENIED
    ProtocolError                INVALID_ARGUMENT
    ChecksumError                DATA_LOSS
    DeadlineError                DEADLINE_EXCEEDED
    CoordinatorUnavailableError  UNAVAILABLE
    SessionError                 UNAUTHENTICATED   the session is over: join again
    DivergenceError              OUT_OF_RANGE
    StateError                   RESOURCE_EXHAUSTED

The class travels by name in the trailing metadata key `domo-error`; where a newer version has given
another name, the status code decides. The error's own code goes with it as `domo-error-code`: it
may be that of a class below one of the table.

What has no such key is no coordinator's answer, whatever its status: grpc reached nobody, or
somebody in between has answered (`domo_proto.heard`). All of it may pass, and is retryable.
"""

import re
from typing import Any

import grpc

from domo import errors
from domo.errors import DomoError, ProtocolError, TransportError
from domo.names import one_line
from domo_proto.heard import of_proxies, words

ERROR_KEY = "domo-error"
CODE_KEY = "domo-error-code"


class SessionError(ProtocolError):
    """The coordinator does not know this session any more; the silo joins again."""

    code = "session"
    retryable = True


class TooManyCallsError(errors.CoordinatorUnavailableError):
    """One silo, or one address, makes more calls than any that works does."""

    code = "too-many-calls"


_Status = grpc.StatusCode
STATUS_OF: dict[type[DomoError], grpc.StatusCode] = {
    errors.ConfigError: _Status.INVALID_ARGUMENT,
    errors.TaskError: _Status.INVALID_ARGUMENT,
    errors.LayoutMismatchError: _Status.FAILED_PRECONDITION,
    errors.UnknownSiloError: _Status.NOT_FOUND,
    errors.SiloConflictError: _Status.ALREADY_EXISTS,
    errors.VersionError: _Status.UNIMPLEMENTED,
    errors.AccessError: _Status.PERMISSION_DENIED,
    errors.ProtocolError: _Status.INVALID_ARGUMENT,
    errors.ChecksumError: _Status.DATA_LOSS,
    errors.DeadlineError: _Status.DEADLINE_EXCEEDED,
    errors.CoordinatorUnavailableError: _Status.UNAVAILABLE,
    errors.DivergenceError: _Status.OUT_OF_RANGE,
    errors.StateError: _Status.RESOURCE_EXHAUSTED,
    SessionError: _Status.UNAUTHENTICATED,
}
_BY_NAME: dict[Any, type[DomoError]] = {cls.__name__: cls for cls in STATUS_OF}
_BY_CODE: dict[grpc.StatusCode, type[DomoError]] = {
    code: cls
    for cls, code in STATUS_OF.items()
    if cls not in (errors.ConfigError, errors.TaskError)
}
UNMARKED: dict[grpc.StatusCode, type[DomoError]] = {
    _Status.DEADLINE_EXCEEDED: errors.DeadlineError,
    _Status.UNAUTHENTICATED: SessionError,
}
"""What the status says where nobody has marked it; any other: `CoordinatorUnavailableError`. Where
somebody takes the marks away, a lost session must still be opened again."""


def status_of(error: DomoError) -> grpc.StatusCode:
    """The status code of an error, by its nearest class in the table."""
    for cls in type(error).__mro__:
        if cls in STATUS_OF:
            return STATUS_OF[cls]
    return grpc.StatusCode.INTERNAL


def trailing_metadata(error: DomoError) -> tuple[tuple[str, str], ...]:
    """What goes with the status of an error."""
    return ((ERROR_KEY, type(error).__name__), (CODE_KEY, error.code))


def known_code(text: str) -> str:
    """A code as a peer gives it; empty: it is none."""
    return text if re.fullmatch(r"[a-z][a-z0-9-]{0,63}", text) else ""


def from_rpc(error: grpc.RpcError, address: str) -> DomoError:
    """The error that a failed call stands for.

    Args:
        error: As raised by a grpc call.
        address: Where the call went, for the text.
    """
    code = error.code()
    text = error.details() or ""
    pairs: Any = error.trailing_metadata() or ()
    metadata: dict[str, Any] = dict(pairs)
    if ERROR_KEY not in metadata:
        kind = UNMARKED.get(code, errors.CoordinatorUnavailableError)
        said = words(code, text, address)
        unmarked = kind(said + of_proxies(code, address))
        unmarked.elsewhere = said
        return unmarked
    cls = _BY_NAME.get(metadata[ERROR_KEY]) or _BY_CODE.get(code, TransportError)
    return _with_code(cls(one_line(text) or str(code)), metadata.get(CODE_KEY, ""))


def _with_code(error: DomoError, code: Any) -> DomoError:
    error.code = (known_code(code) if isinstance(code, str) else "") or error.code
    return error
