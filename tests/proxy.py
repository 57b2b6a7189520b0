"""A counting TCP proxy on loopback, one thread for each direction of each connection."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

CHUNK = 1 << 18


class Count(NamedTuple):
    """Bytes that passed: `up` from the client to the target, `down` back."""

    up: int = 0
    down: int = 0

    def since(self, before: "Count") -> "Count":
        return Count(self.up - before.up, self.down - before.down)


class Proxy:
    """Forwards connections from its own port to `target`."""

    def __init__(self, target: str):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._lock = threading.Lock()
        self._bytes = [0, 0]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _start(self, run, *args) -> None:
        thread = threading.Thread(target=run, args=args, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with self._lock:
                if self._closed:
                    client.close()
                    return
                try:
                    server = socket.create_connection(self._target, timeout=10)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                for s in (client, server):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
            self._start(self._pump, client, server, 0)
            self._start(self._pump, server, client, 1)

    def _pump(self, source: socket.socket, sink: socket.socket, direction: int) -> None:
        buffer = memoryview(bytearray(CHUNK))
        with contextlib.suppress(OSError):
            while size := source.recv_into(buffer):
                with self._lock:
                    self._bytes[direction] += size
                sink.sendall(buffer[:size])
        for s in (source, sink):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    @property
    def count(self) -> Count:
        with self._lock:
            return Count(*self._bytes)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for s in self._sockets:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        for s in self._sockets:
            s.close()


@contextlib.contextmanager
def proxy(target: str) -> Iterator[Proxy]:
    """A proxy that ends with the block."""
    it = Proxy(target)
    try:
        yield it
    finally:
        it.close()
