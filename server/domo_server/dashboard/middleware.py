"""What every answer carries, and which Host names are answered at all."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domo.ops.addresses import is_local
from domo_server.dashboard.access.pages import error_page, wants_page
from domo_server.dashboard.errors import ApiError, bug

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # with no-referrer a form has the Origin null, and over plain HTTP nothing else tells its site
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

STRICT_TRANSPORT = "max-age=2592000"
"""For 30 days from the last visit on, a browser asks this host by TLS only."""


def host_name(host: str) -> str:
    """The name in a Host header, without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class Guard:
    """ASGI middleware: checks the Host header, adds headers, and answers where there is a bug.

    A page elsewhere can point its own name at 127.0.0.1 and so read a server that is bound to
    loopback (DNS rebinding); its requests carry that name in Host and are refused here.

    Args:
        app: The application within.
        allowed_hosts: Names without ports; None answers to any name.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str] | None = None):
        self._app = app
        self._allowed = None if allowed_hosts is None else {h.lower() for h in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        static = scope["path"] == "/" or scope["path"].startswith("/static/")

        began = False
        asked = Headers(scope=scope)
        host = host_name(asked.get("host", ""))

        async def send_with_headers(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["scheme"] == "https" and not is_local(host):
                    headers.setdefault("Strict-Transport-Security", STRICT_TRANSPORT)
                # assets have an ETag and no version in their name: kept, but asked for each time
                headers.setdefault("Cache-Control", "no-cache" if static else "no-store")
            await send(message)

        if self._allowed is not None and host not in self._allowed:
            error = ApiError(
                400,
                "bad_host",
                f"this dashboard does not answer to the name {host!r}. Use one of "
                f"{', '.join(sorted(self._allowed))}; or set dashboard_url in [server] to the URL "
                "that people open, if a proxy passes its name on.",
            )
            page = error_page(error.message, 400) if wants_page(asked) else error.response()
            await page(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:  # a handler of the application would answer outside of this
            if not began:
                await bug().response()(scope, receive, send_with_headers)
            raise
