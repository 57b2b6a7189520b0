"""The dashboard's web server, inside the coordinator's own event loop."""

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI


class DashboardServer(uvicorn.Server):
    """uvicorn that leaves signals to the coordinator and ends open streams when it stops.

    `await server.serve()` as a task beside the gRPC server; to stop, set `server.should_exit`
    and await the task.

    Args:
        app: From `create_app`.
        host: Address to bind.
        port: Port to bind; 0 takes a free one.
        ssl_certfile: Certificate chain for HTTPS.
        ssl_keyfile: Its key.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        ssl_certfile: str | None = None,
        ssl_keyfile: str | None = None,
    ):
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                ssl_certfile=ssl_certfile,
                ssl_keyfile=ssl_keyfile,
                log_config=None,  # the coordinator's logging is set up already
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=5,
            )
        )
        self._app = app

    @property
    def port(self) -> int:
        """The port that is listened on, once `started`."""
        return int(self.servers[0].sockets[0].getsockname()[1])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers as they are."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End open streams, let other answers finish, close."""
        self._app.state.streams.close()
        await super().shutdown(sockets)
