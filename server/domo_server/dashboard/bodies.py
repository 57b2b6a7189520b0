"""What the changing routes are sent: JSON objects of bounded length, whatever their media type."""

import json
from typing import Any

from fastapi import Request

from domo_server.dashboard import examples
from domo_server.dashboard.errors import ApiError

MAX_CONFIG_BYTES = 1 << 20
"""Longest run config that is read."""
MAX_REASON_BYTES = 4096
MAX_REASON_CHARACTERS = 500
"""Longest reason for dropping a silo."""


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
    return " ".join(reason.split())


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
        given = json.loads(body)
    except (ValueError, RecursionError) as exc:
        why = "it is nested too deeply" if isinstance(exc, RecursionError) else exc
        message = f"the body is not JSON: {why}. Send the {what} as one JSON object."
        raise ApiError(422, "invalid_request", message) from exc
    if not isinstance(given, dict):
        message = f"the body is not a JSON object. Send the {what} as one."
        raise ApiError(422, "invalid_request", message)
    return given
