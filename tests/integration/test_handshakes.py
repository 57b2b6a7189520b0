"""Handshakes that are refused, over a real port: counted, said with an address, at little cost."""

import asyncio
import functools
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest

from domo_client.identity.tls import fault
from domo_proto.channel import TlsFiles
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.kinds import EventKind
from domo_server.events.repeated import Repeated
from domo_server.rpc import handshakes
from domo_server.rpc.handshakes import Handshakes
from tests.support.certificates import Authority, Pair
from tests.support.live.coordinator import coordinator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Papers(NamedTuple):
    ca: Authority
    server: Pair
    good: Pair
    bad: dict[str, Pair | None]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("papers")
    ca, other = Authority(folder / "ours", "ca"), Authority(folder / "theirs", "other")
    bad = {
        "another CA": other.sign("site-a", "site-a"),
        "expired": ca.sign("old", "site-a", days=(-3, -1)),
        "not yet valid": ca.sign("new", "site-a", days=(1, 3)),
        "none": None,
    }
    return Papers(ca, ca.sign("server", "localhost", "127.0.0.1"), ca.sign("a", "site-a"), bad)


class Scene:
    """A port with TLS, what was said of it, what was counted."""

    def __init__(self, port: int) -> None:
        self.port, self.said = port, list[tuple[str, str]]()
        self.counters = Counters()
        repeated = Repeated(self._say)
        self.handshakes = Handshakes(port, self.counters, repeated)

    def _say(self, kind: EventKind, text: str, run_id: str | None, silo_id: str | None) -> None:
        assert (run_id, silo_id) == (None, None)
        self.said.append((kind.name, text))

    def count(self, kind: str) -> float:
        value = self.counters.registry.get_sample_value(
            "domo_refused_handshakes_total", {"kind": kind}
        )
        return value or 0.0

    async def until(self, done: Callable[[], bool], within_s: float = 10.0) -> None:
        end = time.monotonic() + within_s
        while not done():
            assert time.monotonic() < end, (self.said, self.count("refused"), self.count("silent"))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def scene(papers: Papers, host: str = "127.0.0.1") -> AsyncIterator[Scene]:
    pair = (papers.server.key.read_bytes(), papers.server.cert.read_bytes())
    first = grpc.ssl_server_certificate_configuration([pair], papers.ca.cert.read_bytes())
    made: list[Scene] = []

    def fetch() -> None:
        made[0].handshakes.begun()

    async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:  # type: ignore[type-arg]
        made[0].handshakes.heard(context.peer())
        return b""

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a", {"b": handler}),))
    credentials = grpc.dynamic_ssl_server_credentials(first, fetch, True)  # type: ignore[arg-type]
    made.append(Scene(server.add_secure_port(f"{host}:0", credentials)))
    await server.start()
    watch = asyncio.create_task(made[0].handshakes.watch())
    try:
        yield made[0]
    finally:
        watch.cancel()
        await server.stop(None)


def shake(port: int, pair: Pair | None, host: str = "127.0.0.1") -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    with socket.create_connection((host, port), 10) as raw, context.wrap_socket(raw) as sock:
        sock.sendall(PREFACE)
        return sock.recv(9)


@pytest.mark.parametrize("what", ["another CA", "expired", "not yet valid", "none"])
@in_loop
async def test_each_refusal_is_counted_and_said(papers: Papers, what: str) -> None:
    async with scene(papers) as it:
        for _ in range(3):
            assert await asyncio.to_thread(shake, it.port, papers.bad[what]) == b""
        await it.until(lambda: it.count("refused") == 3)
        assert [kind for kind, _ in it.said] == [kinds.REFUSED_HANDSHAKE.name]
        assert it.said[0][1].startswith("a TLS handshake with 127.0.0.1 was refused: ")


@in_loop
async def test_over_ipv6_too(papers: Papers) -> None:
    async with scene(papers, "[::1]") as it:
        await asyncio.to_thread(shake, it.port, None, "::1")
        await it.until(lambda: it.count("refused") == 1)
        assert "with ::1 was refused" in it.said[0][1]
        await _call(papers, f"[::1]:{it.port}")
        await asyncio.sleep(3 * handshakes.LOOK_S)
        assert it.count("refused") == 1


async def _call(papers: Papers, address: str) -> None:
    files = (papers.ca.cert, papers.good.key, papers.good.cert)
    credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
    options = [("grpc.ssl_target_name_override", "localhost")]
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        assert await channel.unary_unary("/a/b")(b"", timeout=20) == b""


@in_loop
async def test_who_makes_a_call_was_not_refused(papers: Papers) -> None:
    async with scene(papers) as it:
        for _ in range(5):
            await _call(papers, f"127.0.0.1:{it.port}")
        await asyncio.sleep(3 * handshakes.LOOK_S)
        assert it.said == []
        assert [it.count(kind) for kind in ("refused", "silent", "unknown")] == [0, 0, 0]


@in_loop
async def test_a_probe_is_told_once_and_counted(papers: Papers) -> None:
    async with scene(papers) as it:
        for _ in range(3):
            socket.create_connection(("127.0.0.1", it.port)).close()
            await asyncio.sleep(0.3)
        await it.until(lambda: it.count("silent") == 3)
        assert [text for _, text in it.said] == [
            "127.0.0.1 connects, says nothing that TLS begins with, and hangs up: a probe?"
        ]
        assert it.count("refused") == 0


@in_loop
async def test_who_stays_and_is_silent_is_nobodys_refusal(
    papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "IDLE_S", 0.3)
    async with scene(papers) as it:
        with socket.create_connection(("127.0.0.1", it.port)):
            await it.until(lambda: bool(it.handshakes._waiting))
            await it.until(lambda: not it.handshakes._waiting)
        await asyncio.sleep(3 * handshakes.LOOK_S)
        assert it.said == []


@in_loop
async def test_a_flood_is_counted_whole_and_costs_little(papers: Papers) -> None:
    n = 300
    async with scene(papers) as it:
        began = time.process_time()

        def flood() -> None:
            for _ in range(n):
                with socket.create_connection(("127.0.0.1", it.port), 10) as sock:
                    sock.sendall(b"no TLS at all")
                    sock.recv(1)

        await asyncio.to_thread(flood)
        used_s = time.process_time() - began
        await asyncio.sleep(4 * handshakes.LOOK_S)
        counts = [it.count(kind) for kind in ("refused", "silent", "unknown")]
        assert sum(counts) == n, counts
        assert len(it.said) <= 4
        assert used_s / n < 0.02, used_s


def test_who_looks_what_is_wrong_with_tls_is_not_taken_for_one_that_was_refused(
    papers: Papers, tmp_path: Path
) -> None:
    """Nothing is wrong, and no admin is to be told otherwise."""
    files = {"cert": papers.server.cert, "key": papers.server.key, "client_ca": papers.ca.cert}
    mine = TlsFiles(papers.ca.cert, papers.good.cert, papers.good.key)
    other = papers.bad["another CA"]
    assert other is not None
    theirs = TlsFiles(papers.ca.cert, other.cert, other.key)
    with coordinator(tmp_path, tls=files) as server:
        for _ in range(3):
            assert fault(server.address, mine, "site-a") is None
        time.sleep(4 * handshakes.LOOK_S)
        assert server.get("/events?kind=refused-handshake") == []
        assert fault(server.address, theirs, "site-a") is not None  # and this one is
        server.until("/events?kind=refused-handshake", lambda found: len(found) == 1, 5.0)
