"""The routes that change something, and the log-in."""

import json
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response

from domo.errors import ConfigError
from domo_server.dashboard import examples
from domo_server.dashboard.admin import Admin
from domo_server.dashboard.errors import ApiError, not_found
from domo_server.dashboard.examples import answer, errors
from domo_server.dashboard.models import Session
from domo_server.status import ENDED, Control, ReadModel, RunSummary

MAX_CONFIG_BYTES = 1 << 20
"""Longest run config that is read."""

_BODY = {
    "requestBody": {
        "required": True,
        "description": "The run's config, as in a run file.",
        "content": {"application/json": {"schema": {"type": "object"}, "example": examples.CONFIG}},
    },
    "security": [{"bearer": []}, {"cookie": []}],
}


async def _read_config(request: Request) -> dict[str, Any]:
    """The body as a JSON object, without ever holding more than MAX_CONFIG_BYTES."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_CONFIG_BYTES:
            message = f"a run config is at most {MAX_CONFIG_BYTES} bytes."
            raise ApiError(413, "too_large", message)
    try:
        config = json.loads(body)
    except ValueError as exc:
        message = f"the body is not JSON: {exc}. Send the run config as one JSON object."
        raise ApiError(422, "invalid_request", message) from exc
    if not isinstance(config, dict):
        message = f"the body is not a JSON object, e.g. {json.dumps(examples.CONFIG)}."
        raise ApiError(422, "invalid_request", message)
    return config


def change_routes(read: ReadModel, control: Control, admin: Admin) -> APIRouter:
    """Everything under /api/v1 that concerns the admin."""
    router = APIRouter(responses=errors(400))
    guarded = [Depends(admin.require)]

    @router.post(
        "/runs",
        status_code=201,
        response_model=RunSummary,
        dependencies=guarded,
        responses=answer(examples.SUMMARY, 201, "Queued; Location is its address.")
        | errors(401, 403, 413, 422),
        openapi_extra=_BODY,
        tags=["runs"],
    )
    async def submit(request: Request, response: Response) -> RunSummary:
        """Queue a run. It starts when those before it have ended and enough silos are there."""
        summary = await control.submit(await _read_config(request))
        response.headers["Location"] = f"/api/v1/runs/{quote(summary.run_id, safe='')}"
        return summary

    @router.post(
        "/runs/{run_id}/stop",
        dependencies=guarded,
        responses=answer(examples.SUMMARY.model_copy(update={"state": "STOPPED"}))
        | errors(401, 403, 404, 409, 422),
        openapi_extra={"security": _BODY["security"]},
        tags=["runs"],
    )
    async def stop(run_id: str) -> RunSummary:
        """Stop a run for good. What is committed stays, and so does its model."""
        run = await read.run(run_id)
        if run is None:
            raise not_found(run_id)
        if run.state in ENDED:
            message = f"run {run_id!r} has ended already ({run.state}). There is nothing to stop."
            raise ApiError(409, "run_ended", message)
        try:
            return await control.stop(run_id)
        except ConfigError as exc:  # it ended in the meantime
            raise ApiError(409, "run_ended", str(exc)) from exc

    @router.get("/session", responses=answer(examples.SESSION), tags=["coordinator"])
    async def session(request: Request) -> Session:
        """Whether this caller is the admin; the page shows its buttons by it."""
        return Session(admin=admin.is_admin(request))

    return router
