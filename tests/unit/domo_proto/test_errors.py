import re
from typing import Any

import grpc
import pytest

from domo import errors
from domo_proto import errors as wire
from domo_proto.errors import (
    CODE_KEY,
    ERROR_KEY,
    STATUS_OF,
    SessionError,
    from_rpc,
    status_of,
    trailing_metadata,
)

ADDRESS = "coordinator.example:50051"


class Failed(grpc.RpcError):
    """A failed call, as grpc shows it."""

    def __init__(self, code: grpc.StatusCode, details: str | None, name: str | None = None):
        self._code, self._details, self._name = code, details, name

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str | None:
        return self._details

    def trailing_metadata(self) -> Any:
        return ((ERROR_KEY, self._name),) if self._name else None


@pytest.mark.parametrize("cls", STATUS_OF, ids=lambda c: c.__name__)
def test_every_class_comes_back_with_its_text(cls: type[errors.DomoError]) -> None:
    sent = cls("what was wrong")
    back = from_rpc(Failed(status_of(sent), str(sent), type(sent).__name__), ADDRESS)
    assert type(back) is cls
    assert str(back) == "what was wrong"


def test_the_docstring_has_the_whole_table() -> None:
    rows = re.findall(r"^    (\w+(?:, \w+)*) +([A-Z_]+)(?:   .*)?$", wire.__doc__ or "", re.M)
    told = {name: code for names, code in rows for name in names.split(", ")}
    assert told == {cls.__name__: code.name for cls, code in STATUS_OF.items()}


@pytest.mark.parametrize("code", list(grpc.StatusCode)[1:], ids=lambda code: code.name)
def test_what_has_no_mark_is_no_coordinators_and_may_pass(code: grpc.StatusCode) -> None:
    kinds = {
        grpc.StatusCode.DEADLINE_EXCEEDED: errors.DeadlineError,
        grpc.StatusCode.UNAUTHENTICATED: SessionError,  # or marks get lost on the way
    }
    found = from_rpc(Failed(code, "said a proxy"), ADDRESS)
    assert type(found) is kinds.get(code, errors.CoordinatorUnavailableError)
    assert found.retryable
    assert ADDRESS in str(found)


def test_an_unknown_name_in_the_metadata_is_not_believed() -> None:
    back = from_rpc(Failed(grpc.StatusCode.DATA_LOSS, "", "SystemExit"), ADDRESS)
    assert type(back) is errors.ChecksumError
    assert str(back) == "StatusCode.DATA_LOSS"


@pytest.mark.parametrize(
    ("cls", "retryable"),
    [
        (SessionError, True),
        (errors.CoordinatorUnavailableError, True),
        (errors.DeadlineError, True),
        (errors.ChecksumError, True),
        (errors.TransportError, True),
        (errors.ProtocolError, False),
        (errors.LayoutMismatchError, False),
        (errors.AccessError, False),
        (errors.ConfigError, False),
        (errors.DivergenceError, False),
        (errors.StateError, False),
    ],
)
def test_what_is_tried_again(cls: type[errors.DomoError], retryable: bool) -> None:
    back = from_rpc(Failed(status_of(cls("x")), "x", cls.__name__), ADDRESS)
    assert back.retryable is retryable


def test_a_class_below_one_of_the_table_travels_as_that() -> None:
    class Narrow(errors.LayoutMismatchError):
        pass

    assert status_of(Narrow("x")) is grpc.StatusCode.FAILED_PRECONDITION
    assert status_of(errors.RoundTimeoutError("x")) is grpc.StatusCode.INTERNAL


class FailedOf(Failed):
    """As a coordinator of this version, or a newer one, ends a call."""

    def __init__(self, error: errors.DomoError, code: str | None = None):
        super().__init__(status_of(error), str(error))
        self._metadata = dict(trailing_metadata(error))
        if code is not None:
            self._metadata[CODE_KEY] = code

    def trailing_metadata(self) -> Any:
        return tuple(self._metadata.items())


@pytest.mark.parametrize("cls", STATUS_OF, ids=lambda c: c.__name__)
def test_the_code_crosses_the_wire(cls: type[errors.DomoError]) -> None:
    assert from_rpc(FailedOf(cls("x")), ADDRESS).code == cls.code
    assert from_rpc(FailedOf(cls("x"), "of-a-newer-version"), ADDRESS).code == "of-a-newer-version"
    for odd in ("", "Two words", "x" * 65, "a\n"):
        assert from_rpc(FailedOf(cls("x"), odd), ADDRESS).code == cls.code


def test_an_error_of_no_class_in_the_table_has_its_code() -> None:
    back = from_rpc(FailedOf(errors.RoundTimeoutError("too few")), ADDRESS)
    assert (type(back), back.code) == (errors.TransportError, "round-timeout")
