"""Whose request it is: headers of proxies are believed of trusted peers only."""

import asyncio
from collections.abc import Sequence

import httpx
import pytest
from fastapi import FastAPI, Request

from domo_server.dashboard.access.peer import (
    BehindProxies,
    address_of,
    is_from_here,
    is_https,
)

PROXIES = ("10.0.0.0/8", "192.0.2.7/32", "fd00::/8")


def seen(
    peer: str | None,
    headers: Sequence[tuple[str, str]] = (),
    trusted: Sequence[str] = PROXIES,
    host: str = "domo.example.org",
) -> tuple[str, bool, bool]:
    app = FastAPI()
    app.add_middleware(BehindProxies, trusted=trusted)

    @app.get("/")
    async def who(request: Request) -> list[str | bool]:
        return [address_of(request), is_https(request), is_from_here(request)]

    async def ask() -> httpx.Response:
        client = None if peer is None else (peer, 1)
        transport = httpx.ASGITransport(app, client=client)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as http:
            return await http.get("/", headers=list(headers))

    address, https, here = asyncio.run(ask()).json()
    return address, https, here


FOR, PROTO = "X-Forwarded-For", "X-Forwarded-Proto"


@pytest.mark.parametrize("peer", ["198.51.100.9", "127.0.0.1", "::1", "11.0.0.1", "192.0.2.8"])
def test_nobody_else_is_believed(peer: str) -> None:
    assert seen(peer, [(FOR, "203.0.113.5"), (PROTO, "https")])[:2] == (peer, False)
    assert seen(peer, [(FOR, "203.0.113.5"), (PROTO, "https")], ())[:2] == (peer, False)


@pytest.mark.parametrize("peer", ["10.1.2.3", "192.0.2.7", "::ffff:10.1.2.3", "fd00::1"])
def test_a_trusted_proxy_says_who_and_how(peer: str) -> None:
    assert seen(peer, [(FOR, "203.0.113.5"), (PROTO, "https")])[:2] == ("203.0.113.5", True)


@pytest.mark.parametrize(
    ("told", "who"),
    [
        ("203.0.113.5", "203.0.113.5"),
        ("6.6.6.6, 203.0.113.5", "203.0.113.5"),  # what came in with the request is not believed
        ("6.6.6.6, 203.0.113.5, 10.0.0.2", "203.0.113.5"),  # two proxies
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("203.0.113.5:4711", "203.0.113.5"),
        ("[2001:db8::5]:4711", "2001:db8::5"),
        ("2001:DB8:0::5", "2001:db8::5"),
        ("::ffff:203.0.113.5", "203.0.113.5"),
        ("unknown", "10.0.0.1"),
        ("a\tb", "10.0.0.1"),
        ("6.6.6.6, <script>, 10.0.0.2", "10.0.0.2"),
        ("fe80::1%eth0\x1b", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_the_nearest_address_that_no_proxy_has(told: str, who: str) -> None:
    assert seen("10.0.0.1", [(FOR, told)])[0] == who


def test_several_headers_are_one_list() -> None:
    assert seen("10.0.0.1", [(FOR, "6.6.6.6"), (FOR, "203.0.113.5")])[0] == "203.0.113.5"


@pytest.mark.parametrize(
    ("told", "https"),
    [
        ("https", True),
        ("HTTPS", True),
        ("http", False),
        ("javascript", False),
        ("http, https", True),
    ],
)
def test_the_scheme(told: str, https: bool) -> None:
    assert seen("10.0.0.1", [(PROTO, told)])[1] is https


@pytest.mark.parametrize(
    ("peer", "host", "headers", "here"),
    [
        ("127.0.0.1", "127.0.0.1:8080", [], True),
        ("::1", "localhost", [], True),
        ("::ffff:127.0.0.1", "localhost", [], True),
        ("127.0.0.1", "domo.example.org", [], False),  # a proxy that passes its name on
        ("127.0.0.1", "127.0.0.1", [(FOR, "127.0.0.1")], False),
        ("127.0.0.1", "127.0.0.1", [(PROTO, "http")], False),
        ("127.0.0.1", "127.0.0.1", [("Via", "1.1 proxy")], False),
        ("127.0.0.1", "127.0.0.1", [("Forwarded", "for=x")], False),
        ("10.0.0.1", "127.0.0.1", [(FOR, "127.0.0.1")], False),
        ("198.51.100.9", "127.0.0.1", [], False),
        (None, "127.0.0.1", [], False),
    ],
)
def test_what_comes_from_this_machine(
    peer: str | None, host: str, headers: list[tuple[str, str]], here: bool
) -> None:
    assert seen(peer, headers, host=host)[2] is here
