"""REST has its part of the coordinator's time: rounds go on beside any flood of requests."""

import asyncio
import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domo_server.dashboard.errors import ApiError

MOST_AT_ONCE = 4
"""Requests that are being answered at a time; others wait for their turn."""
MOST_IN_LINE, MOST_OF_ONE = 100, 20
"""Requests that wait, in all and of one address: further ones are refused, 503."""
RESTS = 1.0
"""After a time with requests there is one without, so many times as long."""
LOOK_S = 0.02
"""How often it is looked whose turn it is."""
LONGEST_S = 0.2
"""Longest such rest."""
BEYOND = ("/metrics", "/login", "/logout")
"""Addresses beyond /api that cost something too. Not those of a log-in at a provider, which wait
for it."""


class Turns:
    """ASGI middleware: a request to the API, or to log in, takes its turn, until its answer begins.

    Who asks one after the other waits for nothing; those of many at once do.

    Args:
        app: The application within.
    """

    def __init__(self, app: ASGIApp):
        self._app = app
        self._busy, self._in_line = 0, 0
        self._of: Counter[str] = Counter()
        self._began = self._free_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith("/api/") or path in BEYOND):
            await self._app(scope, receive, send)
            return
        host = (scope.get("client") or ("",))[0]
        if self._in_line >= MOST_IN_LINE or self._of[host] >= MOST_OF_ONE:
            error = ApiError(503, "unavailable", "too many requests at once", {"Retry-After": "1"})
            await error.response()(scope, receive, send)
            return
        await self._turn(host)
        took = True

        def over() -> None:
            nonlocal took
            if took:
                took = False
                self._ends()

        async def sends(message: Message) -> None:
            over()
            await send(message)

        try:
            await self._app(scope, receive, sends)
        finally:
            over()

    async def _turn(self, host: str) -> None:
        self._in_line += 1
        self._of[host] += 1
        try:
            while not self._is_open():  # noqa: ASYNC110 (each test has a loop of its own)
                await asyncio.sleep(LOOK_S)
        finally:
            self._in_line -= 1
            self._of -= Counter((host,))  # forgets who does not wait
        if not self._busy:
            self._began = time.monotonic()
        self._busy += 1

    def _is_open(self) -> bool:
        now = time.monotonic()
        if not self._busy:
            return now >= self._free_at
        rests = self._in_line > 1 and now - self._began > LONGEST_S  # once these have ended
        return self._busy < MOST_AT_ONCE and not rests

    def _ends(self) -> None:
        self._busy -= 1
        now = time.monotonic()
        if not self._busy and self._in_line:
            self._free_at = now + min(RESTS * (now - self._began), LONGEST_S)
