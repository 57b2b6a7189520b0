"""Who may change something: the bearer of the admin token, or of the cookie that log-in sets."""

import hmac
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import RedirectResponse

from domo.errors import ConfigError
from domo_server.dashboard.errors import ApiError

_HOW = (
    "Send 'Authorization: Bearer <token>' with the token in the file admin-token of the "
    "coordinator's state folder, or open the log-in link that it printed when it started."
)


class Admin:
    """Checks the two credentials; `require` is a FastAPI dependency.

    The cookie holds a keyed hash, so it does not give the token away, needs no memory of sessions
    and ends with the token. Its name differs from token to token: cookies are shared by all ports
    of a host, and two coordinators may run on one.

    Args:
        token: The admin token; must not be empty.

    Raises:
        ConfigError: The token is empty.
    """

    def __init__(self, token: str):
        if not token.strip():
            raise ConfigError("the admin token is empty; give one of at least 32 random characters")
        self._token = token.encode()
        self._cookie = self._derive("session").encode()
        self.cookie_name = f"domo_{self._derive('name')[:8]}"

    def _derive(self, purpose: str) -> str:
        return hmac.digest(self._token, f"domo-dashboard-{purpose}".encode(), "sha256").hex()

    def _has_cookie(self, request: Request) -> bool:
        given = request.cookies.get(self.cookie_name, "")
        return hmac.compare_digest(given.encode(), self._cookie)

    def is_admin(self, request: Request) -> bool:
        """Whether the request carries either credential; a bearer's token goes before a cookie."""
        given = _bearer(request)
        if given is not None:
            return hmac.compare_digest(given.encode(), self._token)
        return self._has_cookie(request)

    async def require(self, request: Request) -> None:
        """Refuse whoever is not the admin, and other sites that use the admin's browser.

        Raises:
            ApiError: 401 without a valid credential, 403 if the cookie came from another origin.
        """
        if not self.is_admin(request):
            message = f"only the admin may do this. {_HOW}"
            raise ApiError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        if _bearer(request) is None and not _same_origin(request):
            message = (
                "this request came with the log-in cookie from another site. Use the dashboard's "
                "own page, or send 'Authorization: Bearer <token>'."
            )
            raise ApiError(403, "cross_origin", message)

    async def login(
        self,
        request: Request,
        token: Annotated[str, Query(description="The admin token.")] = "",
    ) -> RedirectResponse:
        """Set the session cookie and go to the page."""
        if not hmac.compare_digest(token.encode(), self._token):
            message = f"this log-in link is not valid (any more). {_HOW}"
            raise ApiError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        response = RedirectResponse("/", 303)
        response.set_cookie(
            self.cookie_name,
            self._cookie.decode(),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response


def _bearer(request: Request) -> str | None:
    """The token given; other schemes are a log-in at a proxy before this."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _same_origin(request: Request) -> bool:
    """Whether the browser says that the page and this server have one origin."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    _, _, authority = request.headers.get("origin", "").partition("://")
    return bool(authority) and authority == request.headers.get("host")
