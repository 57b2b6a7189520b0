"""The two addresses of a log-in through a provider: where it begins, and where it comes back."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from domo.errors import AccessError, TransportError
from domo_server.dashboard.access.gate import HOW, Gate, requires
from domo_server.dashboard.access.oidc import CALLBACK
from domo_server.dashboard.access.oidc.begun import BEGUN_S, NONE_BEGUN, BegunLogins, place_of
from domo_server.dashboard.access.oidc.claims import person_of
from domo_server.dashboard.access.oidc.provider import Provider
from domo_server.dashboard.access.pages import login_page, wants_page
from domo_server.dashboard.access.peer import is_https
from domo_server.dashboard.errors import ApiError
from domo_server.dashboard.openapi_examples import errors
from domo_server.people.person import Person

MAX_GIVEN_CHARACTERS = 4096
"""Of a code, or of anything else that comes back from the provider."""
REFUSALS = {
    "access_denied": "the log-in was given up, or is not allowed to this person there",
    "login_required": "nobody is logged in there",
    "consent_required": "this person has not agreed there",
    "invalid_scope": "it does not know one of server.oidc.scopes",
    "unauthorized_client": "it does not take this coordinator for its client",
    "temporarily_unavailable": "it is not available for the moment",
    "server_error": "it has an error",
}
"""What a provider may answer, in words of this side's."""
Given = Annotated[str, Query(max_length=MAX_GIVEN_CHARACTERS)]


def oidc_routes(gate: Gate, provider: Provider) -> APIRouter:
    """`/login/oidc` and where it comes back."""
    router = APIRouter(
        tags=["coordinator"],
        default_response_class=RedirectResponse,
        dependencies=[requires("nobody")],
    )
    begun = BegunLogins()

    def cookie_name(request: Request) -> str:
        return f"{gate.cookie_name(request)}_begun"

    def told(request: Request, error: ApiError) -> Response:
        """What was wrong, in the form that the caller can read."""
        if not wants_page(request.headers):
            return error.response()
        said = error.message.removesuffix(f" {HOW}")  # how programs and others log in
        page = login_page(said, error.status, provider.name)
        page.headers.update(error.headers or {})
        return page

    def unavailable(request: Request, error: TransportError) -> ApiError:
        gate.refused(request, str(error))  # no fault of who tries, but the operator's to know
        return ApiError(503, "unavailable", f"{error}.")

    @router.get(
        "/login/oidc",
        status_code=303,
        responses=errors(400, 422, 503),
        response_description="Goes to the provider.",
    )
    async def begin_at_provider(request: Request, at: Given = "") -> Response:
        """Go to the provider to log in there; `at` is the page to come back to, `#/...`."""
        login, cookie = begun.begin(place_of(at))
        try:
            response = RedirectResponse(await provider.way_to(login), 303)
        except TransportError as error:
            return told(request, unavailable(request, error))
        response.set_cookie(
            cookie_name(request),
            cookie,
            max_age=BEGUN_S,
            httponly=True,
            samesite="lax",  # it comes back from another site
            secure=is_https(request),
        )
        return response

    @router.get(
        CALLBACK,
        status_code=303,
        responses=errors(400, 401, 422, 429, 503),
        response_description="Logged in; goes to the page.",
    )
    async def come_from_provider(
        request: Request, code: Given = "", state: Given = "", iss: Given = "", error: Given = ""
    ) -> Response:
        """Where the provider sends browsers back: begins the session."""
        cookie = request.cookies.get(cookie_name(request), "")
        if not cookie:  # a page elsewhere can send anybody here: that guesses nothing
            return told(request, gate.refused(request, NONE_BEGUN))

        async def find() -> tuple[Person, str]:
            login = begun.open(cookie, state)
            if iss and iss != provider.config.issuer:
                raise AccessError("this answer is of another provider")
            if error or not code:
                why = REFUSALS.get(error, "it gives no reason that is known here")
                raise AccessError(f"the provider {provider.name} does not log in: {why}")
            if not iss and (await provider.doors()).says_issuer:
                raise AccessError("this answer does not say of which provider it is")
            return person_of(provider.config, await provider.redeem(code, login)), login.place

        try:
            secret = f"{state}.{cookie}"
            person, place = await gate.checked(request, secret, find, asks_others=True)
            session = await gate.people.begin(person, "oidc")
        except (ApiError, TransportError) as wrong:
            if isinstance(wrong, TransportError):
                wrong = unavailable(request, wrong)
            response = told(request, wrong)
        else:
            await gate.logged_in(request, person)
            response = RedirectResponse(f"/{place}", 303)
            gate.welcome(request, response, session)
        response.delete_cookie(
            cookie_name(request), httponly=True, samesite="lax", secure=is_https(request)
        )
        return response

    return router
