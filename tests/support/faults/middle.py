"""A box between a silo and its coordinator that for a while answers by itself.

Its port stays the same: what is behind it passes, or is answered as HTTP/2 servers, proxies and
other services do. HTTP/2 is written by hand here (RFC 9113, 7541), since no library of grpc's says
what such boxes say.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
import pytest

from domo_client.rpc import session
from domo_proto import channel

QUICK = ("grpc.initial_reconnect_backoff_ms", "grpc.max_reconnect_backoff_ms")
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = 24
"""Bytes of what a client of HTTP/2 begins with."""


def tries_again_soon(patch: pytest.MonkeyPatch) -> None:
    """Channels that are made from now on dial again at once, and calls are made again likewise."""
    patch.setattr(session, "JITTER_S", 0.0)
    patch.setattr(session, "LONGEST_PAUSE_S", 0.5)
    quick = [(option, 100) for option in QUICK]
    others = [(k, v) for k, v in channel.CLIENT_OPTIONS if k not in QUICK]
    patch.setattr(channel, "CLIENT_OPTIONS", [*others, *quick])


class Answer(NamedTuple):
    """What the box says.

    Attributes:
        at_once: Of a connection, before anything was asked; empty: nothing.
        stream: Frames in answer to a request, given its stream's number; None: it hangs up.
        silent: It says nothing at all.
    """

    at_once: bytes = b""
    stream: Callable[[int], bytes] | None = None
    silent: bool = False


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def block(fields: dict[str, str]) -> bytes:
    """Header fields, each a literal without indexing (RFC 7541, 6.2.2), of up to 126 bytes."""
    pieces = [word.encode() for pair in fields.items() for word in pair]
    sized = [bytes([len(piece)]) + piece for piece in pieces]
    return b"".join(
        b"\0" + name + value for name, value in zip(sized[::2], sized[1::2], strict=True)
    )


def http(status: int, body: str = "<html>no</html>", **more: str) -> Answer:
    """An answer of HTTP, with a page for people."""
    fields = {":status": str(status), "content-type": "text/html"}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}

    def stream(number: int) -> bytes:
        head = frame(HEADERS, END_HEADERS, number, block(fields))
        return head + frame(DATA, END_STREAM, number, body.encode())

    return Answer(stream=stream)


def grpc_status(code: int, text: str, **more: str) -> Answer:
    """A call ended by a status of gRPC that no coordinator has given."""
    fields = {":status": "200", "content-type": "application/grpc"}
    fields |= {"grpc-status": str(code), "grpc-message": text} | more
    return Answer(stream=lambda n: frame(HEADERS, END_HEADERS | END_STREAM, n, block(fields)))


def no_trailers() -> Answer:
    """An answer that lost its end."""
    fields = {":status": "200", "content-type": "application/grpc"}
    head = block(fields)
    return Answer(
        stream=lambda n: frame(HEADERS, END_HEADERS, n, head) + frame(DATA, END_STREAM, n)
    )


def reset(code: int) -> Answer:
    """RST_STREAM."""
    return Answer(stream=lambda n: frame(RST_STREAM, 0, n, struct.pack(">I", code)))


def goaway(code: int, text: str = "") -> Answer:
    """GOAWAY that takes no stream."""
    payload = struct.pack(">II", 0, code) + text.encode()
    return Answer(stream=lambda n: frame(GOAWAY, 0, 0, payload))


class Box:
    """Listens on a port of loopback; `answer` decides what becomes of connections.

    Args:
        target: host:port of what is behind it.

    Attributes:
        address: host:port.
        asked: Requests, or connections, that the box itself has answered.
    """

    def __init__(self, target: str):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._answer: Answer | None = None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self._port = 0
        self.asked = 0
        self._listen()
        self.address = f"127.0.0.1:{self._port}"

    def _listen(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        listener.listen()
        self._port = listener.getsockname()[1]
        self._listener = listener
        self._start(self._accept, listener)

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=run, args=args, name="box", daemon=True)
        self._threads.append(thread)
        thread.start()

    def answers(self, answer: Answer) -> None:
        """From now on it answers so; connections that pass are cut."""
        self._answer = answer
        self._cut()

    def refuses(self) -> None:
        """Nothing listens."""
        assert self._listener is not None
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        self._cut()

    def passes(self, target: str = "") -> None:
        """Everything passes again, to another target if one is given."""
        if target:
            host, _, port = target.rpartition(":")
            self._target = (host, int(port))
        self._answer = None
        self._cut()
        if self._listener is None:
            self._listen()

    def _cut(self) -> None:
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with self._lock:
                    self._open.append(sock)
                self._start(self._serve, sock, self._answer)

    def _serve(self, sock: socket.socket, answer: Answer | None) -> None:
        with sock, contextlib.suppress(OSError, EOFError):
            if answer is None:
                self._pass(sock)
            elif answer.silent:
                self.asked += 1
                while sock.recv(65536):
                    pass
            elif answer.stream is None:
                self.asked += 1
                sock.sendall(answer.at_once)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            else:
                self._speak(sock, answer.stream)

    def _speak(self, sock: socket.socket, stream: Callable[[int], bytes]) -> None:
        _exactly(sock, PREFACE)
        sock.sendall(frame(SETTINGS, 0, 0))
        while True:
            head = _exactly(sock, 9)
            size, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
            payload = _exactly(sock, size)
            if kind == SETTINGS and not flags & ACK:
                sock.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                sock.sendall(frame(PING, ACK, 0, payload))
            elif kind == HEADERS:
                self.asked += 1
                sock.sendall(stream(int.from_bytes(head[5:9])))

    def _pass(self, sock: socket.socket) -> None:
        with socket.create_connection(self._target, 10) as there:
            there.settimeout(None)
            with self._lock:
                self._open.append(there)
            self._start(_pump, sock, there)
            _pump(there, sock)

    def close(self) -> None:
        """Hang up for good."""
        if self._listener is not None:
            self.refuses()
        self._cut()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for sock in (source, sink):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def box(target: str) -> Iterator[Box]:
    """A box that ends with the block."""
    it = Box(target)
    try:
        yield it
    finally:
        it.close()


@contextlib.contextmanager
def speaks_grpc(target: str, longest_s: float = 60.0) -> Iterator[str]:
    """A box that takes calls of gRPC and makes them again to its target; yields its address.

    Marks get lost: a status and its text pass, the rest of the trailers does not. A stream is ended
    after `longest_s`.
    """
    with grpc.insecure_channel(target) as channel, ThreadPoolExecutor(32) as threads:

        def forward(method: str) -> Callable[..., Iterator[bytes]]:
            def call(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
                there = channel.stream_stream(method)(requests, timeout=longest_s)
                context.add_callback(there.cancel)
                try:
                    yield from there
                except grpc.RpcError as error:
                    code, text = error.code(), error.details()  # type: ignore[attr-defined]
                    late = code is grpc.StatusCode.DEADLINE_EXCEEDED
                    context.abort(grpc.StatusCode.UNAVAILABLE if late else code, text)

            return call

        class Forward(grpc.GenericRpcHandler):
            def service(self, details: Any) -> Any:
                return grpc.stream_stream_rpc_method_handler(forward(details.method))

        server = grpc.server(threads, handlers=[Forward()])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait(20)
