"""What every answer carries, and which Host names are answered at all."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domo.ops.addresses import is_local
from domo_server.dashboard.access.pages import error_page, wants_page
from domo_server.dashboard.access.peer import BY_PROXY
from domo_server.dashboard.errors import ApiError, bug
from domo_server.dashboard_config import PageNames

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
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


class Guard:
    """ASGI middleware: checks the Host header, adds headers, and answers where there is a bug.

    Args:
        app: The application within.
        names: That are answered; None: any.
    """

    def __init__(self, app: ASGIApp, names: PageNames | None = None):
        self._app, self._names = app, names

    def _answers(self, scope: Scope, given: str | None) -> bool:
        if self._names is None or self._names.has(host_name(given or "")):
            return True
        # browsers always give a name; a proxy answers for its own
        return not self._names.is_local and (given is None or BY_PROXY in scope)

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

        if self._names is not None and not self._answers(scope, asked.get("host")):
            text = f"this dashboard does not answer to the name {host!r}. {self._names.advice}."
            error = ApiError(400, "bad_host", text)
            page = error_page(error.message, 400) if wants_page(asked) else error.response()
            await page(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:  # a handler of the application would answer outside of this
            if not began:
                await bug().response()(scope, receive, send_with_headers)
            raise
