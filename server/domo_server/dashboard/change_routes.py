"""The routes that change something, and whether the caller may use them."""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from domo.api.edit import RunEdit
from domo.api.schema import ENDED, RunState, RunSummary, SiloStatus
from domo.errors import ConfigError
from domo.names import one_line
from domo_server.dashboard import openapi_examples as examples
from domo_server.dashboard.access.gate import requires
from domo_server.dashboard.errors import ApiError, no_silo, not_found
from domo_server.dashboard.openapi_examples import answer, errors, silo_errors
from domo_server.dashboard.strict import known_query, strict_json
from domo_server.people.person import Person
from domo_server.view.interfaces import Control, ReadModel

MAX_CONFIG_BYTES = 1 << 20
"""Longest run config that is read."""
MAX_KEYS = 200
"""Of the object in a body."""
MAX_EDIT_BYTES = 1 << 16
MAX_REASON_BYTES = 4096
MAX_REASON_CHARACTERS = 500
"""Longest reason for dropping a silo."""
Who = Annotated[Person, requires("admin")]
_REASON = {
    "type": "object",
    "properties": {"reason": {"type": "string", "maxLength": MAX_REASON_CHARACTERS}},
    "additionalProperties": False,
}


def _takes(description: str, schema: Any, example: Any, required: bool = True) -> dict[str, Any]:
    """The OpenAPI entries of a route with a body."""
    content = {"application/json": {"schema": schema, "example": example}}
    body = {"required": required, "description": description, "content": content}
    return {"requestBody": body}


def change_routes(read: ReadModel, control: Control) -> APIRouter:
    """Everything under /api/v1 that changes something."""
    router = APIRouter(
        responses=errors(400, 401, 403, 429),
        dependencies=[requires("admin"), Depends(known_query)],
    )
    _add_run_routes(router, read, control)
    _add_silo_routes(router, read, control)
    return router


def _add_run_routes(router: APIRouter, read: ReadModel, control: Control) -> None:
    @router.post(
        "/runs",
        status_code=201,
        response_model=RunSummary,
        responses=answer(examples.SUMMARY, 201, "Queued; Location is its address.")
        | errors(413, 422),
        openapi_extra=_takes(
            "The run's config, as in a run file.", {"type": "object"}, examples.CONFIG
        ),
        tags=["runs"],
    )
    async def submit(request: Request, response: Response, who: Who) -> RunSummary:
        """Queue a run. It starts when those before it have ended and enough silos are there."""
        summary = await control.submit(await read_config(request), who.name)
        response.headers["Location"] = f"/api/v1/runs/{quote(summary.run_id, safe='')}"
        return summary

    def options(state: RunState, detail: str) -> dict[str, Any]:
        shown = examples.SUMMARY.model_copy(update={"state": state, "detail": detail})
        return {
            "responses": answer(shown) | errors(404, 409, 422),
            "tags": ["runs"],
        }

    async def change(
        run_id: str, act: Callable[[str, str], Awaitable[RunSummary]], what: str, who: Person
    ) -> RunSummary:
        run = await read.run(run_id)
        if run is None:
            raise not_found(run_id)
        if run.state in ENDED:
            message = f"run {run_id!r} has ended already ({run.state}). There is nothing to {what}."
            raise ApiError(409, "run_ended", message)
        try:
            return await act(run_id, who.name)
        except ConfigError as exc:
            run = await read.run(run_id)  # it may have ended in the meantime
            if run is not None and run.state in ENDED:
                raise ApiError(409, "run_ended", str(exc)) from exc
            raise ApiError(409, "conflict", str(exc)) from exc

    @router.patch(
        "/runs/{run_id:path}",
        responses=answer(examples.SUMMARY) | errors(404, 413, 422),
        openapi_extra=_takes(
            "What is to be another; what is left out stays.",
            RunEdit.model_json_schema(),
            {"tags": ["baseline"], "notes": "The run to beat.", "archived": False},
        ),
        tags=["runs"],
    )
    async def edit(run_id: str, request: Request, who: Who) -> RunSummary:
        """Change what is said of a run, ended or not: its tags, its notes, archived or not."""
        wanted = await read_edit(request)
        if await read.run(run_id) is None:
            raise not_found(run_id)
        return await control.edit(run_id, wanted, who.name)

    @router.post("/runs/{run_id:path}/pause", **options("PAUSED", "paused by the admin in round 2"))
    async def pause(run_id: str, who: Who) -> RunSummary:
        """Hold a run until it is resumed. No round closes and none begins; silos finish theirs."""
        return await change(run_id, control.pause, "pause", who)

    @router.post("/runs/{run_id:path}/resume", **options("OPEN", examples.SUMMARY.detail))
    async def resume(run_id: str, who: Who) -> RunSummary:
        """Go on with a paused run where it was."""
        return await change(run_id, control.resume, "resume", who)

    @router.post("/runs/{run_id:path}/stop", **options("STOPPED", "stopped by the admin"))
    async def stop(run_id: str, who: Who) -> RunSummary:
        """Stop a run for good. What is committed stays, and so does its model."""
        return await change(run_id, control.stop, "stop", who)


def _add_silo_routes(router: APIRouter, read: ReadModel, control: Control) -> None:
    async def change(silo_id: str, act: Callable[[], Awaitable[SiloStatus]]) -> SiloStatus:
        if all(silo.silo_id != silo_id for silo in await read.silos()):
            raise no_silo(silo_id)
        try:
            return await act()
        except ConfigError as exc:
            raise ApiError(409, "conflict", str(exc)) from exc

    @router.post(
        "/silos/{silo_id}/drop",
        responses=answer(examples.DROPPED) | silo_errors(404, 409, 413, 422),
        openapi_extra=_takes(
            "Why, for everybody to read; may be left out.",
            _REASON,
            {"reason": examples.DROPPED.dropped},
            required=False,
        ),
        tags=["silos"],
    )
    async def drop(silo_id: str, request: Request, who: Who) -> SiloStatus:
        """Leave a silo out, from the round that is open on, until `undrop`."""
        reason = await read_reason(request)
        return await change(silo_id, lambda: control.drop(silo_id, reason, who.name))

    plain: dict[str, Any] = {
        "responses": answer(examples.SILO) | silo_errors(404, 409, 422),
        "tags": ["silos"],
    }

    @router.post("/silos/{silo_id}/undrop", **plain)
    async def undrop(silo_id: str, who: Who) -> SiloStatus:
        """Take a dropped silo back from the next round on; its name stays bound to its folder."""
        return await change(silo_id, lambda: control.undrop(silo_id, who.name))

    @router.post("/silos/{silo_id}/readmit", **plain, deprecated=True)
    async def readmit(silo_id: str, who: Who) -> SiloStatus:
        """The older name of `undrop`."""
        return await change(silo_id, lambda: control.undrop(silo_id, who.name))

    @router.post("/silos/{silo_id}/rebind", **plain)
    async def rebind(silo_id: str, who: Who) -> SiloStatus:
        """Let the next process that joins under this name have it, with a state folder of its own.

        For a silo that lost its state folder. Whoever joins first has the name, and keeps it.
        """
        return await change(silo_id, lambda: control.rebind(silo_id, who.name))

    @router.post("/silos/{silo_id}/revoke", **plain)
    async def revoke(silo_id: str, who: Who) -> SiloStatus:
        """Let a silo in no more, whatever its certificate says, and end its calls at once.

        Of a silo that is let in and has not joined yet too. One that has joined is left out of
        runs, from the round that is open on. To let it in again, enrol it anew, and `undrop` it.
        """
        try:
            return await control.revoke(silo_id, who.name)
        except ConfigError as exc:
            raise ApiError(409, "conflict", str(exc)) from exc


async def read_config(request: Request) -> dict[str, Any]:
    """The run config in the body.

    Raises:
        ApiError: There is none.
    """
    config = await _read_object(request, "run config", MAX_CONFIG_BYTES)
    if config is None:
        message = f"the body is empty. Send the run config, such as {json.dumps(examples.CONFIG)}."
        raise ApiError(422, "invalid_request", message)
    return config


async def read_edit(request: Request) -> RunEdit:
    """The change in the body.

    Raises:
        ApiError: It is none; says which word of it is wrong.
    """
    given = await _read_object(request, "change", MAX_EDIT_BYTES) or {}
    try:
        return RunEdit.model_validate(given)
    except ValidationError as exc:
        what = {error["loc"][0]: error["msg"] for error in exc.errors()}
        said = (f"{name}: {text.removeprefix('Value error, ')}" for name, text in what.items())
        wrong = "; ".join(said)
        known = ", ".join(RunEdit.model_fields)
        message = f"{wrong[:500]}. What may be changed of a run: {known}."
        raise ApiError(422, "invalid_request", message) from exc


async def read_reason(request: Request) -> str:
    """The reason in the body, on one line; empty if there is none.

    Raises:
        ApiError: It is too long or no text, or there is something else.
    """
    given = await _read_object(request, "reason", MAX_REASON_BYTES) or {}
    reason = given.pop("reason", "")
    if given:
        names = ", ".join(sorted(given))
        message = f'the body has {names}. Send {{"reason": "..."}}, or no body at all.'
        raise ApiError(422, "invalid_request", message)
    if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARACTERS:
        message = f"reason: must be a text of at most {MAX_REASON_CHARACTERS} characters."
        raise ApiError(422, "invalid_request", message)
    return one_line(reason, None)


async def _read_object(request: Request, what: str, limit: int) -> dict[str, Any] | None:
    """The body as a JSON object, without ever holding more than the limit; None if it is empty."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise ApiError(413, "too_large", f"a {what} is at most {limit} bytes.")
    if not body:
        return None
    try:
        given = strict_json(body)
    except ValueError as exc:
        message = f"the body is not JSON: {exc}. Send the {what} as one JSON object."
        raise ApiError(422, "invalid_request", message) from exc
    if not isinstance(given, dict):
        message = f"the body is not a JSON object. Send the {what} as one."
        raise ApiError(422, "invalid_request", message)
    if len(given) > MAX_KEYS:  # each that is unknown is compared with all that are known
        message = f"the {what} has {len(given)} keys; none has more than {MAX_KEYS}."
        raise ApiError(422, "invalid_request", message)
    return given
