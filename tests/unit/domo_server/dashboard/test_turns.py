"""Requests to the API take turns, so that rounds have time beside any number of them."""

import asyncio
import time
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from domo_server.dashboard.access import turns
from domo_server.dashboard.access.turns import MOST_AT_ONCE, MOST_IN_LINE, MOST_OF_ONE, Turns


class App:
    """Takes a while, and counts how many it answers at a time."""

    def __init__(self, takes_s: float):
        self._takes_s = takes_s
        self.busy = self.most = self.answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(self._takes_s)
        self.busy -= 1
        self.answered += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"].endswith("/stream"):
            await asyncio.sleep(3600)
        await send({"type": "http.response.body"})


async def ask(app: Any, path: str = "/api/v1/status", host: str = "10.0.0.1") -> int:
    status = 0

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {"type": "http", "path": path, "headers": [], "method": "GET", "client": (host, 1)}
    await app(scope, receive, send)
    return status


def test_many_at_once_take_turns_and_too_many_are_refused() -> None:
    async def main() -> None:
        within = App(0.01)
        app = Turns(within)
        n = MOST_AT_ONCE + MOST_IN_LINE + 30
        asked = [ask(app, host=f"10.0.0.{i // MOST_OF_ONE}") for i in range(n)]
        told = await asyncio.gather(*asked)
        assert within.most == MOST_AT_ONCE
        assert told.count(503) == 30
        assert told.count(200) == MOST_AT_ONCE + MOST_IN_LINE
        assert await ask(app) == 200
        assert not app._lines

    asyncio.run(main())


def test_one_address_leaves_room_in_the_line() -> None:
    async def main() -> None:
        app = Turns(App(0.01))
        many = asyncio.gather(*(ask(app, host="10.0.0.2") for _ in range(MOST_IN_LINE)))
        await asyncio.sleep(0)
        assert await ask(app) == 200
        told = await many
        assert told.count(200) == MOST_AT_ONCE + MOST_OF_ONE

    asyncio.run(main())


def test_addresses_have_their_turns_one_after_the_other() -> None:
    async def main() -> None:
        within = App(0.01)
        app = Turns(within)
        many = asyncio.gather(*(ask(app, host="10.0.0.2") for _ in range(MOST_OF_ONE)))
        await asyncio.sleep(0)
        assert await ask(app) == 200
        assert within.answered <= 2 * MOST_AT_ONCE
        await many

    asyncio.run(main())


def test_whoever_asks_one_after_the_other_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "LONGEST_S", 60.0)
    monkeypatch.setattr(turns, "RESTS", 1000.0)

    async def main() -> None:
        app, begun = Turns(App(0.01)), time.monotonic()
        for _ in range(20):
            assert await ask(app) == 200
        assert time.monotonic() - begun < 5

    asyncio.run(main())


def test_streams_that_have_begun_and_files_of_the_page_take_no_turn() -> None:
    async def main() -> None:
        within = App(0.001)
        app = Turns(within)
        streams = [asyncio.create_task(ask(app, "/api/v1/stream")) for _ in range(20)]
        async with asyncio.timeout(60):
            while within.answered < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await ask(app) == 200
        await asyncio.gather(*(ask(app, "/static/app.js") for _ in range(20)))
        assert within.most > MOST_AT_ONCE
        for stream in streams:
            stream.cancel()

    asyncio.run(main())


def test_who_gives_up_leaves_the_line() -> None:
    async def main() -> None:
        app = Turns(App(0.2))
        tasks = [asyncio.create_task(ask(app)) for _ in range(3 * MOST_AT_ONCE)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (app._busy, app._in_line) == (0, 0)
        assert await ask(app) == 200

    asyncio.run(main())


@pytest.mark.parametrize("path", ["/metrics", "/login", "/logout"])
def test_what_costs_something_beyond_the_api_takes_turns_too(path: str) -> None:
    async def main() -> None:
        within = App(0.01)
        app = Turns(within)
        told = await asyncio.gather(*(ask(app, path) for _ in range(60)))
        assert within.most == MOST_AT_ONCE
        assert 503 in told

    asyncio.run(main())
