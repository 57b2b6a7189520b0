"""REST has its part of the coordinator's time: rounds go on beside any flood of requests."""

import asyncio
import time
from collections import OrderedDict, deque

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domo_server.dashboard.errors import ApiError

MOST_AT_ONCE = 4
"""Requests that are being answered at a time; others wait for their turn."""
MOST_IN_LINE, MOST_OF_ONE = 100, 20
"""Requests that wait, in all and of one address: further ones are refused, 503."""
RESTS = 1.0
"""After a time with requests there is one without, so many times as long."""
LONGEST_S = 0.2
"""Longest such rest."""
BEYOND = ("/metrics", "/login", "/logout")
"""Addresses beyond /api that cost something too. Not those of a log-in at a provider, which wait
for it."""


class Turns:
    """ASGI middleware: a request to the API, or to log in, takes its turn, until its answer begins.

    Who asks one after the other waits for nothing; those of many at once do. Addresses have their
    turns one after the other, however many wait of one.

    Args:
        app: The application within.
    """

    def __init__(self, app: ASGIApp):
        self._app = app
        self._busy, self._in_line = 0, 0
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._began = self._free_at = 0.0
        self._after_rest: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith("/api/") or path in BEYOND):
            await self._app(scope, receive, send)
            return
        host = (scope.get("client") or ("",))[0]
        if self._in_line >= MOST_IN_LINE or len(self._lines.get(host, ())) >= MOST_OF_ONE:
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
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(host, deque()).append(turn)
        self._in_line += 1
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._ends()  # its turn had come
            elif turn in self._lines.get(host, ()):
                self._lines[host].remove(turn)
                self._leaves(host)
            raise

    def _leaves(self, host: str) -> None:
        self._in_line -= 1
        if not self._lines[host]:
            del self._lines[host]

    def _let_in(self) -> None:
        """Begin the turns that can begin."""
        while self._lines and self._is_open():
            host = next(iter(self._lines))
            turn = self._lines[host].popleft()
            self._lines.move_to_end(host)
            self._leaves(host)
            if turn.cancelled():
                continue
            if not self._busy:
                self._began = time.monotonic()
            self._busy += 1
            turn.set_result(None)
        if self._lines and not self._busy and self._after_rest is None:
            left = max(0.001, self._free_at - time.monotonic())
            self._after_rest = asyncio.get_running_loop().call_later(left, self._rested)

    def _rested(self) -> None:
        self._after_rest = None
        self._let_in()

    def _is_open(self) -> bool:
        now = time.monotonic()
        if not self._busy:
            return now >= self._free_at
        rests = self._in_line > 1 and now - self._began > LONGEST_S  # once these have ended
        return self._busy < MOST_AT_ONCE and not rests

    def _ends(self) -> None:
        self._busy -= 1
        now = time.monotonic()
        if not self._busy and self._lines:
            self._free_at = now + min(RESTS * (now - self._began), LONGEST_S)
        self._let_in()
