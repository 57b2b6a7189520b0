"""The dashboard's application: REST under /api/v1, the page at /, and its web server."""

import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.staticfiles import StaticFiles

from domo import __version__
from domo.api.schema import StreamMessage
from domo.ops.prometheus import CONTENT_TYPE
from domo_server.dashboard.access.connections import Bounded, Listener, protocol
from domo_server.dashboard.access.gate import Gate, requires, say_roles
from domo_server.dashboard.access.login import login_routes
from domo_server.dashboard.access.peer import BehindProxies
from domo_server.dashboard.access.session import session_routes
from domo_server.dashboard.access.turns import Turns
from domo_server.dashboard.change_routes import change_routes
from domo_server.dashboard.errors import add_error_handlers
from domo_server.dashboard.middleware import Guard
from domo_server.dashboard.openapi_examples import errors, other
from domo_server.dashboard.read_routes import read_routes
from domo_server.dashboard.stream import StreamHub
from domo_server.dashboard.strict import known_query
from domo_server.dashboard_config import PageNames
from domo_server.events.event_log import EventLog
from domo_server.page_tls import PageTls
from domo_server.people.people import People
from domo_server.view.interfaces import Control, ReadModel

if TYPE_CHECKING:
    from domo_server.dashboard.access.oidc.provider import Provider

MOST_WAITING = 100
"""Connections that nobody has accepted yet, and that are accepted at once."""
CLOSE_S = 5
"""How long answers that are under way may take when the coordinator stops."""
STATIC = Path(__file__).parent / "static"
_ABOUT = (
    "Each route says in `x-role` what it needs: `nobody`, or a person with the role `viewer`, "
    "`auditor` or `admin`, who shows a token as `Authorization: Bearer <token>`, or has the cookie "
    "that /login sets. Where reading is open, as on loopback, anybody is a viewer. Every error "
    'has the shape `{"error": {"code": ..., "message": ..., "status": ...}}`.'
)


def create_app(
    read: ReadModel,
    control: Control,
    people: People,
    names: PageNames | None = None,
    metrics: Callable[[], Awaitable[bytes]] | None = None,
    trusted_proxies: Sequence[str] = (),
    *,
    open_to: Callable[[Request], bool] = lambda request: False,
    cookie_name: str = "domo",
    events: EventLog | None = None,
    provider: "Provider | None" = None,
) -> FastAPI:
    """Make the application.

    `app.state.streams.close()` ends the open event streams; `DashboardServer` calls it.

    Args:
        read: Where everything that is shown comes from.
        control: What the changing routes call.
        people: Who may do what.
        names: That are answered, from `domo_server.startup.dashboard_hosts`; None: any.
        metrics: What /metrics answers; None: there is no such route.
        trusted_proxies: Addresses and networks whose `X-Forwarded-*` headers are believed.
        open_to: Whether somebody without a credential may read.
        cookie_name: Of sessions.
        events: Told who logs in, and who is turned away.
        provider: Where people may log in.
    """
    gate = Gate(people, open_to, cookie_name, events)
    streams = StreamHub(read)
    app = FastAPI(
        title="domo coordinator",
        version=__version__,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.streams, app.state.gate = streams, gate
    app.add_middleware(Turns)
    app.add_middleware(Guard, names=names)
    app.add_middleware(BehindProxies, trusted=trusted_proxies)  # the last one added is outermost
    add_error_handlers(app)
    strangers = [login_routes(gate, "" if provider is None else provider.name)]
    if provider is not None:
        from domo_server.dashboard.access.oidc.routes import oidc_routes

        strangers.append(oidc_routes(gate, provider))
    below = (read_routes(read, streams), change_routes(read, control), session_routes(gate))
    for router, prefix in (*((r, "/api/v1") for r in below), *((r, "") for r in strangers)):
        say_roles(router.routes)
        app.include_router(router, prefix=prefix)
    if metrics is not None:
        add_metrics(app, metrics)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    entrance: dict[str, Any] = {
        "include_in_schema": False,
        "dependencies": [requires("nobody")],
    }

    @app.get("/", **entrance)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/api/v1/docs", **entrance)
    async def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    @app.get("/api/v1/openapi.json", include_in_schema=False, dependencies=[requires("viewer")])
    async def openapi() -> JSONResponse:
        return JSONResponse(app.openapi())

    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    say_roles(app.routes)
    return app


def add_metrics(app: FastAPI, metrics: Callable[[], Awaitable[bytes]]) -> None:
    """The route that Prometheus scrapes."""
    example = '# TYPE domo_silo_up gauge\ndomo_silo_up{silo="site-a"} 1.0\n'

    @app.get(
        "/metrics",
        response_class=Response,
        responses=other("text/plain", example, "The text format of Prometheus.")
        | errors(400, 401, 429),
        dependencies=[requires("viewer"), Depends(known_query)],
        tags=["coordinator"],
    )
    async def metrics_text() -> Response:
        """Metrics for Prometheus: the run under way, the silos, the process."""
        return Response(await metrics(), media_type=CONTENT_TYPE)


def _operation_id(route: APIRoute) -> str:
    return route.name


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with what FastAPI cannot derive: credentials and the stream's data."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        parts = document["components"]
        parts["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "domo_<id>"},
        }
        message = StreamMessage.model_json_schema(
            mode="serialization", ref_template="#/components/schemas/{model}"
        )
        parts["schemas"] = message.pop("$defs") | parts["schemas"] | {"StreamMessage": message}
        app.openapi_schema = document
    return app.openapi_schema


class DashboardServer(uvicorn.Server):
    """uvicorn that leaves signals to the coordinator and ends open streams when it stops.

    `await server.serve()` as a task beside the gRPC server; to stop, set `server.should_exit`
    and await the task.

    Args:
        app: From `create_app`.
        host: Address to bind.
        port: Port to bind; 0 takes a free one.
        tls: For HTTPS.
    """

    def __init__(self, app: FastAPI, host: str, port: int, tls: PageTls | None = None):
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                log_config=None,  # the coordinator's logging is set up already
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=CLOSE_S,
                http=Bounded,
                backlog=MOST_WAITING,
            )
        )
        self._app = app
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # peers cause its warnings
        if tls is not None:
            self.config.load()  # which would make a context of its own from the names of files
            self.config.ssl = tls.context

    @property
    def port(self) -> int:
        """The port that is listened on, once `started`."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers as they are."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`; on a `Listener`, which tells connections apart that wait."""
        for sock in sockets or ():
            if isinstance(sock, Listener):
                if not self.config.loaded:
                    self.config.load()
                self.config.http_protocol_class = protocol(sock)
        await super().serve(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End open streams, let other answers finish, close."""
        self._app.state.streams.close()
        await super().shutdown(sockets)
