"""HTTP/2 as a hostile client speaks it: frames as they are, no limit kept, nothing waited for."""

import contextlib
import socket
import struct
from collections.abc import Iterable

from domo.ops.addresses import grpc_address

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, END_HEADERS = 1, 4
CANCEL = struct.pack(">I", 8)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CONTROL = "/domo_proto.v1.Federation/"
DATA_PLANE = "/domo_proto.v1.FederationData/"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(
        ">I", stream
    ) + payload  # fmt: skip


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def headers(path: str) -> bytes:
    """The header block of a gRPC call: nothing is compressed, so that it is the same each time."""
    known = b"\x83\x86\x04" + bytes((len(path),)) + path.encode() + b"\x01\x01x"
    known += _literal(b"te", b"trailers")  # codespell:ignore te
    return known + _literal(b"content-type", b"application/grpc")


def message(payload: bytes) -> bytes:
    """A gRPC message."""
    return b"\0" + struct.pack(">I", len(payload)) + payload


class Hostile:
    """One connection that sends what it is told to, and dials again where it was hung up on.

    Args:
        address: host:port.
        source: Address that it comes from.

    Attributes:
        dialled: How often it has dialled.
        received: Bytes.
    """

    def __init__(self, address: str, source: str = "127.0.0.1"):
        host, _, port = grpc_address(address).rpartition(":")
        self._address, self._source = (host, int(port)), (source, 0)
        self.dialled = self.received = 0
        self._socket: socket.socket | None = None
        self._next = 1

    def send(self, data: bytes) -> bool:
        """Send, and read what has come; whether the connection is there."""
        try:
            if self._socket is None:
                self._dial()
            assert self._socket is not None
            self._socket.settimeout(1.0)
            self._socket.sendall(data)
            self._socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(8):
                    got = len(self._socket.recv(1 << 20))
                    self.received += got
                    if not got:
                        raise ConnectionResetError
        except OSError:
            self.close()
            return False
        return True

    def _dial(self) -> None:
        self.dialled, self._next = self.dialled + 1, 1
        self._socket = socket.create_connection(self._address, 1.0, self._source)
        window = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0) + window)

    def calls(self, path: str, payloads: Iterable[bytes], reset: bool = False) -> bool:
        """Begin so many calls; `reset`: and give each up at once."""
        if self._socket is None and not self.send(b""):
            return False
        block, out = headers(path), bytearray()
        for payload in payloads:
            out += frame(HEADERS, END_HEADERS, self._next, block)
            out += frame(DATA, END_STREAM, self._next, message(payload))
            if reset:
                out += frame(RST_STREAM, 0, self._next, CANCEL)
            self._next += 2
        return self.send(bytes(out))

    def pings(self, n: int) -> bool:
        """So many pings."""
        return self.send(frame(PING, 0, 0, b"12345678") * n)

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
