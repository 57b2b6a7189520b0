"""What a request shows, and whether a page of another site has sent it."""

from fastapi import Request

from domo_server.dashboard.errors import ApiError


def refuse_other_sites(request: Request) -> None:
    """Refuse other sites that use a person's browser.

    Raises:
        ApiError: 403; the request has no bearer and comes from another origin.
    """
    if bearer_of(request) is None and not _same_origin(request):
        message = (
            "this request came with the log-in cookie from another site. Use the dashboard's "
            "own page, or send 'Authorization: Bearer <token>'."
        )
        raise ApiError(403, "cross_origin", message)


def refuse_other_sites_if_said(request: Request) -> None:
    """The same where a browser says where a request comes from; programs need not.

    Raises:
        ApiError: 403.
    """
    if {"sec-fetch-site", "origin"} & set(request.headers):
        refuse_other_sites(request)


def bearer_of(request: Request) -> str | None:
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
