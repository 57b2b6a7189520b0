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

The class travels by name in the trailing metadata key `domo-error`; without it (a proxy answered,
or grpc itself) the status code decides. The error's own code goes with it as `domo-error-code`: it
may be that of a class below one of the table.
"""

import re
from typing import Any

import grpc

from domo import errors
from domo.errors import DomoError, ProtocolError, TransportError

ERROR_KEY = "domo-error"
CODE_KEY = "domo-error-code"


class SessionError(ProtocolError):
    """The coordinator does not know this session any more; the silo joins again."""

    code = "session"
    retryable = True


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
} | {_Status.CANCELLED: errors.CoordinatorUnavailableError}


CAUSES = {
    ("DNS resolution failed",): "the name cannot be resolved",
    ("errors resolving",): "the name cannot be resolved",
    ("CERTIFICATE_VERIFY_FAILED",): "its certificate is not signed by a CA that is trusted here; "
    "--tls-ca names the CA's file",
    ("Hostname Verification",): "its certificate is for another name than the one given here",
    ("is not in peer certificate",): "its certificate is for another name than the one given here",
    ("WRONG_VERSION_NUMBER",): "it does not speak TLS",
    ("handshake failed",): "the TLS handshake failed; --tls-ca must name the CA of its certificate",
    ("failed to connect", "Socket closed"): "it hung up at once: it may want TLS (--tls-ca), or a "
    "certificate of its own CA (--tls-cert, --tls-key)",
}
"""What grpc says of a failed connection (all of the words), in words for an operator."""


def _cause(text: str) -> str:
    for words, cause in CAUSES.items():
        if all(word in text for word in words):
            return cause
    return text.rsplit(": ", 1)[-1].removesuffix(".").lower()


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
    cls = _BY_NAME.get(metadata.get(ERROR_KEY))
    if cls is not None:
        return _with_code(cls(text), metadata.get(CODE_KEY, ""))
    cls = _BY_CODE.get(code, TransportError)
    if cls is errors.CoordinatorUnavailableError:
        text = f"no coordinator answers at {address} ({_cause(text)})"
    elif cls is errors.VersionError:
        text = f"{address} speaks another protocol, or is no domo coordinator ({text})"
    return _with_code(cls(text or str(code)), metadata.get(CODE_KEY, ""))


def _with_code(error: DomoError, code: Any) -> DomoError:
    error.code = (known_code(code) if isinstance(code, str) else "") or error.code
    return error
