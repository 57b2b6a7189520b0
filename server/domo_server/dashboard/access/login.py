"""Logging in with the token, by a link or a form, and out."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from domo_server.dashboard.access.admin import HOW, Admin
from domo_server.dashboard.access.pages import login_page, wants_page
from domo_server.dashboard.access.peer import is_https
from domo_server.dashboard.errors import ApiError
from domo_server.dashboard.openapi_examples import errors

MAX_FORM_BYTES, MAX_FIELDS = 4096, 8
WRONG_LINK = (
    "this log-in link is not valid (any more): the coordinator has another token now, or the link "
    "was cut"
)
WRONG_TOKEN = "this is not the token of this coordinator"
_FORM = {
    "requestBody": {
        "required": True,
        "description": "The admin token, as a form sends it.",
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {"token": {"type": "string"}}},
                "example": {"token": "(the admin token)"},
            }
        },
    }
}


def login_routes(admin: Admin) -> APIRouter:
    """`/login` and `/logout`."""
    router = APIRouter(
        tags=["coordinator"], default_response_class=RedirectResponse, responses=errors(400)
    )

    def refused(request: Request, what: str) -> Response:
        if wants_page(request.headers):
            return login_page(f"{what}.", 401)
        raise ApiError(401, "unauthorized", f"{what}. {HOW}", {"WWW-Authenticate": "Bearer"})

    def welcome(request: Request) -> Response:
        response = RedirectResponse("/", 303)
        response.set_cookie(
            admin.cookie_name,
            admin.cookie,
            httponly=True,
            samesite="strict",
            secure=is_https(request),
        )
        return response

    @router.get(
        "/login",
        status_code=303,
        responses=errors(401, 422),
        response_description="Logged in; goes to the page.",
    )
    async def login(
        request: Request,
        token: Annotated[str, Query(description="The admin token.")] = "",
    ) -> Response:
        """Set the session cookie and go to the page; a browser without a token gets a form."""
        if admin.is_token(token):
            return welcome(request)
        if not token and wants_page(request.headers):
            return login_page()
        return refused(request, WRONG_LINK)

    @router.post(
        "/login",
        status_code=303,
        responses=errors(401, 413),
        response_description="Logged in; goes to the page.",
        openapi_extra=_FORM,
    )
    async def login_by_form(request: Request) -> Response:
        """The same by a form: the token is in no address."""
        if admin.is_token(await _form_token(request)):
            return welcome(request)
        return refused(request, WRONG_TOKEN)

    @router.post(
        "/logout",
        status_code=303,
        responses=errors(403),
        response_description="Logged out; goes to the page.",
    )
    async def logout(request: Request) -> Response:
        """Take the session cookie back and go to the page."""
        admin.refuse_other_sites(request)
        response = RedirectResponse("/", 303)
        response.delete_cookie(
            admin.cookie_name, httponly=True, samesite="strict", secure=is_https(request)
        )
        return response

    return router


async def _form_token(request: Request) -> str:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise ApiError(413, "too_large", f"a log-in is at most {MAX_FORM_BYTES} bytes.")
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    return fields.get("token", [""])[0].strip()
