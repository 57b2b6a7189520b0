"""Who may change something: the bearer of the admin token, or of the cookie that log-in sets."""

import hmac

from fastapi import Request

from domo.errors import ConfigError
from domo_server.dashboard.errors import ApiError

HOW = (
    "Send 'Authorization: Bearer <token>' with the token in the file admin-token of the "
    "coordinator's state folder, or open the log-in link that it printed when it started."
)
"""How to be the admin."""


class Admin:
    """Checks the two credentials; `require` is a FastAPI dependency.

    There are two roles: the admin, who may change something, and everybody, who may read.

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
        self.cookie = self._derive("session")
        self.cookie_name = f"domo_{self._derive('name')[:8]}"

    def _derive(self, purpose: str) -> str:
        return hmac.digest(self._token, f"domo-dashboard-{purpose}".encode(), "sha256").hex()

    def _has_cookie(self, request: Request) -> bool:
        given = request.cookies.get(self.cookie_name, "")
        return hmac.compare_digest(given.encode(), self.cookie.encode())

    def is_token(self, given: str) -> bool:
        """Whether this is the admin token."""
        return hmac.compare_digest(given.encode(), self._token)

    def is_admin(self, request: Request) -> bool:
        """Whether the request carries either credential; a bearer's token goes before a cookie."""
        given = _bearer(request)
        if given is not None:
            return self.is_token(given)
        return self._has_cookie(request)

    async def require(self, request: Request) -> None:
        """Refuse whoever is not the admin, and other sites that use the admin's browser.

        Raises:
            ApiError: 401 without a valid credential, 403 if the cookie came from another origin.
        """
        if not self.is_admin(request):
            message = f"only the admin may do this. {HOW}"
            raise ApiError(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})
        self.refuse_other_sites(request)

    def refuse_other_sites(self, request: Request) -> None:
        """Refuse other sites that use the admin's browser.

        Raises:
            ApiError: 403; the request has no bearer and comes from another origin.
        """
        if _bearer(request) is None and not _same_origin(request):
            message = (
                "this request came with the log-in cookie from another site. Use the dashboard's "
                "own page, or send 'Authorization: Bearer <token>'."
            )
            raise ApiError(403, "cross_origin", message)


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
