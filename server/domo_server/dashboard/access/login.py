"""Logging in with a token or a code that is good once, by a form, and out."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from domo_server.dashboard.access.gate import Gate, requires
from domo_server.dashboard.access.origin import refuse_other_sites, refuse_other_sites_if_said
from domo_server.dashboard.access.pages import code_page, login_page, wants_page
from domo_server.dashboard.errors import ApiError
from domo_server.dashboard.openapi_examples import errors, other

MAX_FORM_BYTES, MAX_FIELDS = 4096, 8
NO_TOKEN_HERE = (
    "a token does not belong into an address, where histories and the logs of proxies keep it, and "
    "is not taken from one any more. Type it into the form, or take a link that is good once: "
    "`domo-server login` prints one. The token that was in this address should be another one now: "
    "delete the file admin-token and start the coordinator again, or `domo-server token revoke`"
)
_FORM = {
    "requestBody": {
        "required": True,
        "description": "A token, or a code of `domo-server login`, as a form sends it.",
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "properties": {"token": {"type": "string"}, "code": {"type": "string"}},
                },
                "example": {"token": "(a token)"},
            }
        },
    }
}


def login_routes(gate: Gate, provider: str = "") -> APIRouter:
    """`/login` and `/logout`; `provider`: where people may log in instead."""
    router = APIRouter(
        tags=["coordinator"], responses=errors(400), dependencies=[requires("nobody")]
    )

    @router.get(
        "/login",
        response_class=HTMLResponse,
        responses=other("text/html", "(a page)", "The form, or a button that uses the code.")
        | errors(400, 422),
    )
    async def login(
        request: Request,
        code: Annotated[str, Query(description="Of a link that is good once.")] = "",
        token: Annotated[str, Query(include_in_schema=False)] = "",
    ) -> Response:
        """The page to log in with.

        It uses no code up: what looks at links before people do, as chats and mail filters, does
        not log in.
        """
        if token:
            if wants_page(request.headers):
                return login_page(f"{NO_TOKEN_HERE}.", 400, provider)
            raise ApiError(400, "token_in_address", f"{NO_TOKEN_HERE}.")
        return code_page(code) if code else login_page(provider=provider)

    @router.post(
        "/login",
        status_code=303,
        response_class=RedirectResponse,
        responses=errors(401, 403, 413, 429),
        response_description="Logged in; goes to the page.",
        openapi_extra=_FORM,
    )
    async def login_by_form(request: Request) -> Response:
        """Set the session cookie and go to the page."""
        refuse_other_sites_if_said(request)
        try:
            _, cookie = await gate.log_in(request, **await _form(request))
        except ApiError as error:
            if wants_page(request.headers) and error.status in (401, 429):
                page = login_page(error.message, error.status, provider)
                page.headers.update(error.headers or {})
                return page
            raise
        response = RedirectResponse("/", 303)
        gate.welcome(request, response, cookie)
        return response

    @router.post(
        "/logout",
        status_code=303,
        response_class=RedirectResponse,
        responses=errors(403),
        response_description="Logged out; goes to the page.",
    )
    async def logout(request: Request) -> Response:
        """End the session for good, take its cookie back and go to the page."""
        refuse_other_sites(request)
        await gate.log_out(request)
        response = RedirectResponse("/", 303)
        gate.goodbye(request, response)
        return response

    return router


async def _form(request: Request) -> dict[str, str]:
    """What the form says: a token, or a code."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise ApiError(413, "too_large", f"a log-in is at most {MAX_FORM_BYTES} bytes.")
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError:  # more fields
        fields = {}
    return {name: fields.get(name, [""])[0].strip() for name in ("token", "code")}
