"""What a query may say: a parameter that a route does not know is refused, not passed over."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from fastapi import Query, Request

from domo_server.dashboard.errors import ApiError
from domo_server.events.kinds import KINDS
from domo_server.view.interfaces import Which

MAX_ROUNDS = 1000
"""Or tests, that may be asked for at once."""
Limit = Annotated[
    int | None,
    Query(ge=1, le=MAX_ROUNDS, description="At most so many, the first ones; all by default."),
]
WhichModel = Annotated[Which, Query(description="The newest, or the best that was tested.")]


async def known_query(request: Request) -> None:
    """A dependency of every route of REST.

    Raises:
        ApiError: 422; a parameter is unknown, or given twice where one counts.
    """
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


def _refusal(what: str) -> ApiError:
    return ApiError(422, "invalid_request", f"{what}. Correct this and send the request again.")
