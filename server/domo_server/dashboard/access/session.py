"""Who is asking, for the page: it shows its buttons by it."""

from fastapi import APIRouter, Depends, Request

from domo_server.dashboard import openapi_examples as examples
from domo_server.dashboard.access.gate import Gate, requires
from domo_server.dashboard.models import Session
from domo_server.dashboard.openapi_examples import answer, errors
from domo_server.dashboard.strict import known_query
from domo_server.people.person import ANYBODY


def session_routes(gate: Gate) -> APIRouter:
    """`/session`."""
    router = APIRouter(
        responses=errors(400, 401, 429),
        dependencies=[requires("nobody"), Depends(known_query)],
    )

    @router.get("/session", responses=answer(examples.SESSION), tags=["coordinator"])
    async def session(request: Request) -> Session:
        """Who this caller is, and what it may do; without a credential it may be nothing."""
        person = await gate.person(request)
        if person is None:
            return Session(admin=False)
        name = None if person is ANYBODY else person.name
        return Session(admin=person.may("admin"), role=person.role, name=name)

    return router
