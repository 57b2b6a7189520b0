"""Whose request it is and whether it came by TLS: the one place that reads a proxy's headers.

`X-Forwarded-For` and `X-Forwarded-Proto` are words of whoever writes them. They are believed of the
peers in `[server] trusted_proxies`, and of nobody else.
"""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from domo.ops.addresses import is_local as is_local_host

OF_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
              "x-real-ip")  # fmt: skip
"""Headers by which a request shows that it has passed a proxy."""
BY_PROXY = "domo_server.by_proxy"
"""In the scope of what a trusted proxy on another machine sends: on this one a browser may be."""


class BehindProxies:
    """ASGI middleware: `request.client` and `request.url.scheme` become those of the first hop.

    Args:
        app: The application within.
        trusted: Addresses and networks of proxies, as the configuration has them.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str] = ()):
        self._app = app
        self._trusted = [ip_network(network) for network in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            scope = {**scope, **self._seen(scope)}
        await self._app(scope, receive, send)

    def _seen(self, scope: Scope) -> Mapping[str, Any]:
        host, port = scope.get("client") or ("", 0)
        peer = _plain(host)
        if not self._trusts(peer):
            return {"client": (peer or host, port)}
        headers = Headers(scope=scope)
        by_proxy = {} if is_local_host(peer or "") else {BY_PROXY: True}
        for hop in reversed(_listed(headers, "x-forwarded-for")):
            before = _plain(hop)
            if before is None:
                break  # what cannot be read was written by somebody that nobody vouches for
            peer, port = before, 0
            if not self._trusts(peer):
                break
        schemes = _listed(headers, "x-forwarded-proto")
        scheme = schemes[-1].lower() if schemes else ""
        known = scheme if scheme in ("http", "https") else scope["scheme"]
        return {"client": (peer, port), "scheme": known, **by_proxy}

    def _trusts(self, address: str | None) -> bool:
        return address is not None and any(ip_address(address) in n for n in self._trusted)


def address_of(request: Request) -> str:
    """The address of who asks."""
    return "?" if request.client is None else request.client.host or "?"


def is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, to this server or to a trusted proxy before it."""
    return request.url.scheme == "https"


def is_forwarded(request: Request) -> bool:
    """Whether a proxy says that it passes on what somebody else asks."""
    return any(name in request.headers for name in OF_PROXIES)


def is_from_here(request: Request) -> bool:
    """Whether it comes from this machine, and through no proxy.

    A proxy on this machine has its address, too: so a request with a header of proxies, or for a
    name that is not this machine's, counts as one from elsewhere.
    """
    named = request.url.hostname or ""
    is_here = is_local_host(address_of(request)) and is_local_host(named)
    return is_here and not is_forwarded(request)


def reading_open_to(everybody: bool, on_loopback: bool) -> Callable[[Request], bool]:
    """Whether somebody without a credential may read.

    Args:
        everybody: The operator has said that anybody may.
        on_loopback: The page is bound to loopback, and no proxy before it is known of.
    """
    return lambda request: everybody or (on_loopback and is_from_here(request))


def _listed(headers: Headers, name: str) -> list[str]:
    return [part.strip() for value in headers.getlist(name) for part in value.split(",")]


def _plain(text: str) -> str | None:
    """An address in the form that is compared, without a port; None: it is no address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        return str(address.ipv4_mapped or address)
    return str(address)
