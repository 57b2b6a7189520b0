"""Sockets to the coordinator, by the way that grpc would take, and what is spoken at the other end.

What a port speaks is found out from its first bytes and from `ssl`'s own codes.
"""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from domo.names import one_line
from domo.ops.proxies import Proxy

CONNECT_S = 5.0
MOST_STATUS = 100
"""Characters of how a proxy says no."""
ANSWER_S = 1.0
"""How long the answer to the question is waited for; without one nothing is wrong."""
MOST_FRAMES = 20
"""That are read until then."""
HEADERS, SETTINGS = 1, 4
"""Types of frames."""


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0)
"""How HTTP/2 begins: the client's preface and a frame of no settings."""
QUESTION = _frame(
    HEADERS,
    4,  # all of them
    1,
    b"\x83\x87"  # POST, https
    + (b"\x04" + _text("/grpc.health.v1.Health/Check"))
    + (b"\x01" + _text("domo"))
    + (b"\x0f\x10" + _text("application/grpc"))
    + (b"\x00\x02te" + _text("trailers")),
) + _frame(0, 1, 1, bytes(5))  # an empty message, and no more
"""A call, whether the coordinator is well: who has made none is taken for one that was refused."""
Spoken = Literal["grpc", "http", "tls", "nothing", "other"]


class ProxyRefusedError(OSError):
    """The proxy answers, and does not let the connection through."""


def reason(error: OSError) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error)).lower()


def dial(host: str, port: int, proxy: Proxy | None) -> socket.socket:
    """A connection to host:port.

    Raises:
        OSError: Nobody answers; `ProxyRefusedError`: the proxy says no.
    """
    if proxy is None:
        return socket.create_connection((host, port), CONNECT_S)
    sock = socket.create_connection((proxy.host, proxy.port), CONNECT_S)
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        sock.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{proxy.head}\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n") and len(answer) < 65536:
            byte = sock.recv(1)
            if not byte:
                break
            answer += byte
        status = answer.split(b"\r\n")[0].decode(errors="replace")
        if status.split(" ")[1:2] != ["200"]:
            raise ProxyRefusedError(one_line(status, MOST_STATUS) or "it hung up")
    except OSError:
        sock.close()
        raise
    return sock


def first_bytes(sock: socket.socket) -> bytes:
    """Begin HTTP/2 and read how the other end answers; empty: it hung up or says nothing.

    Where HTTP/2 is spoken, a call is made and its answer waited for.

    Raises:
        ssl.SSLError: The other end refuses what it was shown.
    """
    got = b""
    try:
        sock.sendall(PREFACE + QUESTION)
        got = _read(sock, 9)
    except ssl.SSLError:
        raise
    except OSError:
        pass
    if is_http2(got):
        with suppress(OSError):
            _await_answer(sock, got)
    return got


def _read(sock: socket.socket, size: int) -> bytes:
    """So many bytes, or those that come before the end."""
    got = b""
    while len(got) < size and (more := sock.recv(size - len(got))):
        got += more
    return got


def _await_answer(sock: socket.socket, head: bytes) -> None:
    """Read until the call is answered; `head`: of the first frame."""
    sock.settimeout(ANSWER_S)
    for _ in range(MOST_FRAMES):
        if len(head) < 9 or head[3] == HEADERS:
            return
        _read(sock, int.from_bytes(head[:3], "big"))
        head = _read(sock, 9)


def is_http2(answer: bytes) -> bool:
    """Whether an answer begins as HTTP/2 must: with a frame of settings."""
    return len(answer) == 9 and answer[3] == SETTINGS and struct.unpack(">I", answer[5:])[0] == 0


def spoken_without_tls(host: str, port: int, proxy: Proxy | None) -> Spoken:
    """What a port speaks to somebody who speaks plain HTTP/2.

    Raises:
        OSError: It cannot be connected to.
    """
    with dial(host, port, proxy) as sock:
        answer = first_bytes(sock)
    if is_http2(answer):
        return "grpc"
    if answer.startswith(b"HTTP/"):
        return "http"
    if answer[:2] == b"\x15\x03" or speaks_tls(host, port, proxy):
        return "tls"
    return "other" if answer else "nothing"


def bare_context() -> ssl.SSLContext:
    """TLS that believes any certificate: it is looked at afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def speaks_tls(host: str, port: int, proxy: Proxy | None) -> bool:
    """Whether a port speaks TLS, be it to say no.

    Raises:
        OSError: It cannot be connected to.
    """
    try:
        with tls_socket(host, port, proxy, bare_context()):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "") and "WRONG_VERSION" not in (error.reason or "")
    except OSError:
        return False


@contextmanager
def tls_socket(
    host: str, port: int, proxy: Proxy | None, context: ssl.SSLContext
) -> Iterator[ssl.SSLSocket]:
    """A connection after its TLS handshake.

    Raises:
        OSError: No connection; `ssl.SSLError`: no handshake.
    """
    with dial(host, port, proxy) as sock:
        named = context.wrap_socket(sock, server_hostname=host)
        with named:
            yield named
