"""The page's connections: slow ones end, and of too many the one that waits longest gives way."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI, Request
from starlette.responses import StreamingResponse

from domo_server.dashboard import DashboardServer
from domo_server.dashboard.access import connections
from domo_server.dashboard.access.connections import Listener
from domo_server.startup import bind_dashboard

GET = b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n"


def app() -> FastAPI:
    made = FastAPI()

    @made.get("/now")
    async def now() -> str:
        return "now"

    @made.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    @made.get("/stream")
    async def stream() -> StreamingResponse:
        async def pieces():  # type: ignore[no-untyped-def]
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0.01)

        return StreamingResponse(pieces())

    class Streams:
        def close(self) -> None:
            pass

    made.state.streams = Streams()
    return made


def serve(
    work: Callable[[int], Awaitable[None]],
    most: int = 4,
    may_come: Callable[[str], bool] = lambda address: True,
) -> None:
    async def main() -> None:
        listener = Listener(bind_dashboard("127.0.0.1:0"), most, may_come)
        port = listener.getsockname()[1]
        server = DashboardServer(app(), "127.0.0.1", port)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(60):
                await work(port)
        finally:
            server.should_exit = server.force_exit = True
            await serving
            listener.close()

    asyncio.run(main())


@contextmanager
def dialled(port: int, first: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(first)
        sock.setblocking(False)
        yield sock


async def answer(sock: socket.socket) -> bytes:
    """What comes until the end of an answer, or of the connection."""
    got = b""
    while piece := await asyncio.get_running_loop().sock_recv(sock, 65_536):
        got += piece
        if got.endswith(b'"now"'):
            break
    return got


async def ended(sock: socket.socket) -> bool:
    """Whether the other end closes it."""
    try:
        return await answer(sock) == b""
    except ConnectionError:
        return True


def test_whoever_asks_at_once_gets_in_however_many_hold_on() -> None:
    async def work(port: int) -> None:
        with dialled(port, GET) as kept:
            assert (await answer(kept)).startswith(b"HTTP/1.1 200")
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
            for sock in slow:
                sock.sendall(b"GET /now HTTP/1.1\r\nX: ")
            for _ in range(20):
                with dialled(port, GET) as sock:
                    assert (await answer(sock)).startswith(b"HTTP/1.1 200")
            for sock in slow:
                sock.close()

    serve(work)


def test_the_one_that_has_waited_longest_gives_way() -> None:
    async def work(port: int) -> None:
        with dialled(port) as first, dialled(port) as second, dialled(port, GET) as third:
            await answer(third)
            with dialled(port, GET) as fourth:
                await answer(fourth)
                with dialled(port, GET) as fifth:
                    await answer(fifth)
                    assert await ended(first)
                    second.sendall(GET)
                    assert b"200" in await answer(second)

    serve(work)


def test_answers_under_way_do_not_give_way() -> None:
    async def work(port: int) -> None:
        asked = b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
        with dialled(port, asked) as one, dialled(port, asked) as two:
            loop = asyncio.get_running_loop()
            for sock in (one, two):
                assert (await loop.sock_recv(sock, 100)).startswith(b"HTTP/1.1 200")
            with dialled(port, GET) as late:
                assert await ended(late)
            for sock in (one, two):
                assert await loop.sock_recv(sock, 100)

    serve(work, most=2)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /now HTTP/1.1\r\nX: ",
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
    ],
    ids=["nothing", "header", "body"],
)
def test_a_request_that_does_not_come_to_its_end_is_closed(
    monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)

    async def work(port: int) -> None:
        with dialled(port, first) as sock:
            begun = time.monotonic()
            closed = asyncio.create_task(ended(sock))
            while not closed.done():  # a byte now and then does not help
                await asyncio.wait({closed}, timeout=0.05)
                if first and not closed.done():
                    try:
                        sock.send(b"x")
                    except OSError:
                        break
            assert time.monotonic() - begun < 20
            await closed

    serve(work)


def test_a_request_after_a_request_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.4)

    async def work(port: int) -> None:
        with dialled(port) as sock:
            for _ in range(4):
                await asyncio.sleep(0.2)
                sock.sendall(GET)
                assert b"200" in await answer(sock)

    serve(work)


def test_an_answer_that_nobody_reads_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_S", 0.3)

    async def work(port: int) -> None:
        with dialled(port, b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n") as sock:
            await asyncio.sleep(2.0)
            with contextlib.suppress(ConnectionError):  # else it never ends
                await answer(sock)

    serve(work)


def test_an_address_that_begins_too_many_is_hung_up_on() -> None:
    async def work(port: int) -> None:
        with dialled(port, GET) as welcome:
            assert b"200" in await answer(welcome)
        where = ("127.0.0.1", port)
        for _ in range(3):
            with socket.create_connection(where, 10, ("127.0.0.2", 0)) as sock:
                sock.setblocking(False)
                assert await ended(sock)
        with dialled(port, GET) as welcome:
            assert b"200" in await answer(welcome)

    serve(work, may_come=lambda address: address != "127.0.0.2")
