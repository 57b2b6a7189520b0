"""Calls on a coordinator's REST: JSON in and out, its stream of events, refusals as `DomoError`."""

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote

import httpx
from pydantic import TypeAdapter, ValidationError

from domo.api.answers import MOST_FAULTS, not_understood, plain_answer
from domo.api.heard import masked, usable_environment, why
from domo.errors import (
    AccessError,
    ConfigError,
    CoordinatorUnavailableError,
    DomoError,
    NotFoundError,
    ProtocolError,
)
from domo.names import GARBLED, MOST_SAID, one_line
from domo.ops.addresses import page_url
from domo.ops.proxies import note_of_http

T = TypeVar("T")

TIMEOUT_S = 20.0
"""Of one call."""
MAX_PIECE = 250
"""Rounds, and tests of models, that one answer has."""
INVALID_CONFIG = "invalid_config"
CODE = r"[a-z][a-z0-9_-]{0,63}"
"""Of an error."""
AGAIN = " Correct this and send the request again."
"""How REST ends what it says of a wrong parameter."""


class Rest:
    """One coordinator's REST; a context manager that hangs up.

    Args:
        url: The dashboard's address, as it was typed.
        token: Shown with each call.
        timeout_s: Of one call.
        spare: A token that is shown once the coordinator has asked for one; not with `token`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        spare: str | None = None,
    ):
        self.url = page_url(url)
        self.shown = masked(self.url)
        self.closed, self.credentials = False, _Credentials(token, spare)
        with usable_environment():
            self.http = httpx.Client(auth=self.credentials, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; a stream that another thread reads ends."""
        self.closed = True
        self.http.close()

    def ask(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """One call below /api/v1; its answer as plain JSON."""
        return understood(object, self._request(method, path, body, query))

    def get(self, kind: type[T], path: str, query: Mapping[str, Any] | None = None) -> T:
        """Read something."""
        return understood(kind, self._request("GET", path, None, query))

    def pieces(self, kind: type[list[T]], path: str, after: int, index: str) -> list[T]:
        """Read a list that may be long in pieces, so that each answer comes in time.

        Args:
            kind: Of a piece.
            path: Of the list.
            after: Only what has a higher index.
            index: Which attribute that is.

        Raises:
            ProtocolError: It does not go up: such a list might have no end.
        """
        found: list[T] = []
        while True:
            try:
                piece = self.get(kind, path, {"after": after, "limit": MAX_PIECE})
            except ConfigError:  # an older coordinator knows no limit
                return [*found, *self.get(kind, path, {"after": after})]
            for one in piece:
                if getattr(one, index) <= after:
                    raise ProtocolError(not_understood(path, f"{index} does not go up"))
                after = getattr(one, index)
            found += piece
            if len(piece) != MAX_PIECE:
                return found

    def post(self, kind: type[T], path: str, body: Any = None) -> T:
        """Change something."""
        return understood(kind, self._request("POST", path, body, None))

    def patch(self, kind: type[T], path: str, body: Any) -> T:
        """Change a part of something."""
        return understood(kind, self._request("PATCH", path, body, None))

    def _request(self, method: str, path: str, body: Any, query: Mapping[str, Any] | None) -> bytes:
        with self.faults():
            answer = self.http.request(method, self.api(path), json=body, params=query)
            self.check(answer)
            return answer.content

    def api(self, path: str) -> str:
        """The whole address of a route."""
        return f"{self.url}/api/v1{path}"

    @contextmanager
    def faults(self) -> Iterator[None]:
        """What the network raises, as `CoordinatorUnavailableError`."""
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CoordinatorUnavailableError(
                f"no coordinator answers at {self.shown}: {why(error, self.url)}. Is that the "
                "address of its dashboard, as it printed it?"
            ) from None

    def check(self, answer: httpx.Response) -> None:
        """Turn a refusal into an error with the coordinator's own words.

        Raises:
            ProtocolError: It is a page for people, such as a proxy's log-in.
        """
        if answer.is_success:
            if answer.headers.get("content-type", "").startswith("text/html"):
                raise ProtocolError(
                    f"{self.shown} answered with a web page, not as a coordinator: is a proxy's "
                    "log-in page in between, or is the address another one's?"
                )
            return
        try:
            told = json.loads(answer.read())["error"]
            code, cause = str(told["code"]), told.get("cause")
            text = _words(code, str(told["message"]))
        except GARBLED:
            code, cause = "", None
            text = f"{self.shown} answered {answer.status_code}; is that a domo coordinator?"
            text += note_of_http(self.url)
        kind: type[DomoError] = ConfigError
        if answer.status_code >= 500:
            kind = CoordinatorUnavailableError
        elif answer.status_code in (401, 403, 429):
            kind = AccessError
        elif code in ("not_found", "no_model"):
            kind = NotFoundError
        refusal = kind(self._in_own_words(answer, code, text))
        if isinstance(cause, str) and re.fullmatch(CODE, cause):
            refusal.code = cause
        raise refusal

    def _in_own_words(self, answer: httpx.Response, code: str, text: str) -> str:
        """What a refusal says, with the cure of who types commands in place of REST's."""
        if answer.status_code == 401:
            return (
                f"{text.partition('. Send ')[0]}: give --token-file, or set DOMO_TOKEN. On the "
                "coordinator's machine `domo-server token create` makes tokens"
            )
        if code == "not_found":
            named = re.search(r"/api/v1/(run|silo)s/([^/]+)", answer.request.url.raw_path.decode())
            if named is None or not text.startswith(f"no {named[1]}"):
                what = text.partition(".")[0]
                return (
                    f"the coordinator at {self.shown} cannot do this: {what}. Is it of an older "
                    "version than this command?"
                )
            lists = "domo runs" if named[1] == "run" else "domo status"
            return f"no {named[1]} {unquote(named[2])!r}: `{lists}` lists them"
        return text.removesuffix(AGAIN)


def _words(code: str, text: str) -> str:
    """What a refusal says: one line, and for a config one for each of its faults."""
    head, *faults = text.split("\n") if code == INVALID_CONFIG else [text]
    lines = (one_line(text, MOST_SAID) for text in (head, *faults[:MOST_FAULTS]))
    return "\n  ".join(lines)


class _Credentials(httpx.Auth):
    """Shows a token: at once, or once it is asked for."""

    def __init__(self, token: str | None, spare: str | None):
        self.token, self.spare = token, spare

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """One call, and another one where a token is asked for."""
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        answer = yield request
        if answer.status_code == 401 and not self.token and self.spare:
            self.token = self.spare
            request.headers["Authorization"] = f"Bearer {self.token}"
            yield request


def understood(kind: type[T], data: str | bytes) -> T:
    """An answer as an object.

    Raises:
        ProtocolError: It is none.
    """
    try:
        return TypeAdapter(kind).validate_python(plain_answer(data))
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise ProtocolError(not_understood(where, fault["msg"])) from None


def quoted(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


class SentEvent(NamedTuple):
    """One event.

    Attributes:
        kind: Its `event:` field.
        number: Its `id:` field; 0 if there is none that is a number.
        data: Its `data:` lines.
    """

    kind: str
    number: int
    data: str


def server_sent_events(lines: Iterable[str]) -> Iterator[SentEvent]:
    """The events of a stream (WHATWG HTML, section 9.2), without comments and what is cut off."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif fields:
            number = fields.get("id", ["0"])[-1]
            if "data" in fields:
                yield SentEvent(
                    fields.get("event", ["message"])[-1],
                    int(number) if number.isascii() and number.isdigit() else 0,
                    "\n".join(fields["data"]),
                )
            fields = {}
