"""What a request may say: what a route does not know is refused, and what no database keeps."""

import difflib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any

from fastapi import Query, Request

from domo_server.dashboard.access.gate import HOW
from domo_server.dashboard.errors import ApiError
from domo_server.events.kinds import KINDS, OF_PEOPLE
from domo_server.people.person import ANYBODY, Person
from domo_server.view.interfaces import Which

MOST_NUMBER = 2**53 - 1
"""A whole number that all readers of JSON have exactly, and all databases."""
MAX_ROUNDS = 1000
"""Or tests, that may be asked for at once."""
Limit = Annotated[
    int | None,
    Query(ge=1, le=MAX_ROUNDS, description="At most so many, the first ones; all by default."),
]
EventId = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Only events above this id.")]
LineNumber = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Only lines above this one.")]
RoundIndex = Annotated[
    int, Query(ge=-1, le=MOST_NUMBER, description="Only rounds, or models, above this index.")
]
WhichModel = Annotated[Which, Query(description="The newest, or the best that was tested.")]


async def known_query(request: Request) -> None:
    """A dependency of every route of REST.

    Raises:
        ApiError: 422; a parameter is unknown, or given twice where one counts, or there is a
            character 0 in the address.
    """
    values = (value for _, value in request.query_params.multi_items())
    if any("\0" in text for text in (request.url.path, *values)):
        raise _refusal("there is a character 0 in the address, which nothing is called")
    given = [name for name, _ in request.query_params.multi_items()]
    if not given:
        return
    known = _parameters(request)
    for name in given:
        if name not in known:
            raise _refusal(f"{name[:64]!r} {not_one_of(name, known, 'parameter')}")
        if not known[name] and given.count(name) > 1:
            raise _refusal(f"{name}: is given {given.count(name)} times, and one counts")


def _parameters(request: Request) -> dict[str, bool]:
    """Those of the route, and whether each may be given several times."""
    name = request.scope["route"].name  # every operation has its own
    return {
        found["name"]: _is_list(found["schema"])
        for operations in request.app.openapi()["paths"].values()
        for operation in operations.values()
        if operation["operationId"] == name
        for found in operation.get("parameters", ())
        if found["in"] == "query"
    }


def _is_list(schema: dict[str, Any]) -> bool:
    return any(kind.get("type") == "array" for kind in schema.get("anyOf", [schema]))


def not_one_of(given: str, known: Iterable[str], what: str) -> str:
    """What is wrong with a word that is none of the known ones, and which it may have meant."""
    words = list(known)
    if not words:
        return f"is no {what} here: this address takes none"
    near = difflib.get_close_matches(given, words, 1)
    end = f"; did you mean {near[0]}?" if near else "."
    return f"is no {what} here{end} Known are {', '.join(words)}"


async def known_kinds(
    kind: Annotated[
        list[str] | None,
        Query(description="Only of this kind, such as refused; may be given several times."),
    ] = None,
) -> Sequence[str]:
    """The kinds of events that are asked for.

    Raises:
        ApiError: 422; one of them does not exist.
    """
    for name in kind or ():
        if name not in KINDS:
            raise _refusal(f"kind: {name[:64]!r} {not_one_of(name, KINDS, 'kind of event')}")
    return kind or ()


def hidden_from(who: Person, asked: Sequence[str]) -> Collection[str]:
    """The kinds of events that somebody may not see.

    Raises:
        ApiError: 401 or 403; no other kind is asked for.
    """
    if who.may("auditor"):
        return ()
    if asked and set(asked) <= OF_PEOPLE:
        text = f"log-ins are for people with the role auditor. {HOW}"
        if who is ANYBODY:
            raise ApiError(401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        raise ApiError(403, "forbidden", text)
    return OF_PEOPLE


def _refusal(what: str) -> ApiError:
    return ApiError(422, "invalid_request", f"{what}. Correct this and send the request again.")


def strict_json(body: bytes | bytearray) -> Any:
    """The JSON of a body, with texts and numbers that can be kept and sent on.

    Raises:
        ValueError: It is none; says why.
    """
    try:
        found = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    for text in _texts(found):
        if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            raise ValueError("it has half a character, or a character 0, in a text")
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(f"{digits:.20}")


def _texts(found: Any) -> Iterator[str]:
    """All texts, and names, in what JSON has made."""
    left = [found]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left += (*one, *one.values())
        elif isinstance(one, list):
            left += one
