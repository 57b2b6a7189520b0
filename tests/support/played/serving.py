"""The real REST server over a made-up federation, on a thread of its own."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from domo_server.dashboard import DashboardServer, create_app
from tests.support.played.made_up import Federation
from tests.support.played.people import made_people


class Served:
    """A dashboard's server on a thread of its own."""

    def __init__(self, federation: Federation, port: int = 0):
        self._federation = federation
        self._people = made_people()
        app = create_app(federation, federation, self._people, open_to=lambda request: True)
        self._server = DashboardServer(app, "127.0.0.1", port)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve()

    def start(self) -> int:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self._server.port

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._people.close()
        assert not self._thread.is_alive()

    def change(self) -> None:
        """Tell the listeners that the federation has changed."""
        asyncio.run_coroutine_threadsafe(self._federation.change(), self._loop).result(10)


@contextmanager
def serving(federation: Federation, port: int = 0) -> Iterator[tuple[str, Served]]:
    """The server's address, and the server."""
    served = Served(federation, port)
    try:
        yield f"http://127.0.0.1:{served.start()}", served
    finally:
        served.stop()
