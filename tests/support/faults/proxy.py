"""A TCP proxy on loopback that counts, and that does to connections what networks do to them.

One thread for each direction of each connection. Offsets count the bytes of one direction over all
connections, so they name the same byte however often a client had to connect.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

CHUNK = 1 << 18
BUFFER = 1 << 16
"""Socket buffer towards the sender on a slow link; without it seconds of data lie in the kernel."""
UP, DOWN = 0, 1


class Count(NamedTuple):
    """Bytes that passed: `up` from the client to the target, `down` back."""

    up: int = 0
    down: int = 0

    def since(self, before: "Count") -> "Count":
        return Count(self.up - before.up, self.down - before.down)


class _Connection:
    """Two sockets; `forgotten` like an entry of a NAT that was idle for too long."""

    def __init__(self, client: socket.socket, server: socket.socket):
        self.ends = (client, server)
        self.active_at = time.monotonic()
        self.forgotten = False

    def cut(self) -> None:
        for s in self.ends:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


class _Bucket:
    """A token bucket: `take` sleeps until the bytes may pass."""

    def __init__(self, rate: float):
        self.rate, self._lock, self._free_at = rate, threading.Lock(), 0.0

    def take(self, size: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + size / self.rate
            wait = self._free_at - now
        time.sleep(wait)


class Proxy:
    """Forwards connections from its own port to `target`.

    Args:
        target: host:port.
        cuts: Byte offsets, up and down, at which a connection is cut in the middle of a stream.
        flips: Byte offsets, up and down, of bytes that are damaged.
        rate: Bytes per second in each direction, all connections together; None: no limit.
        idle_s: A connection without traffic for so long is silently forgotten: what is sent on it
            afterwards vanishes, and nobody is told.
        on_bytes: Called with the count whenever bytes have passed.
        on_data: Called with the direction and the bytes themselves, before.
    """

    def __init__(
        self,
        target: str,
        *,
        cuts: tuple[Sequence[int], Sequence[int]] = ((), ()),
        flips: tuple[Sequence[int], Sequence[int]] = ((), ()),
        rate: float | None = None,
        idle_s: float | None = None,
        on_bytes: Callable[[Count], None] = lambda count: None,
        on_data: Callable[[int, bytes], None] | None = None,
    ):
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._cuts = [sorted(c) for c in cuts]
        self._flips = [sorted(f) for f in flips]
        self._buckets = None if rate is None else (_Bucket(rate), _Bucket(rate))
        self._idle_s, self._on_bytes, self._on_data = idle_s, on_bytes, on_data
        self._lock = threading.Lock()
        self._bytes = [0, 0]
        self.connections = 0
        self.forgotten = 0
        self._open: list[_Connection] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._clear = threading.Event()
        self._clear.set()
        self._answer: bytes | None = None
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._small(self._listener)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def _small(self, s: socket.socket) -> None:
        if self._buckets is not None or any(self._cuts):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)

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
            self._clear.wait()
            with self._lock:
                if self._closed:
                    client.close()
                    return
                if self._answer is not None:
                    self._start(self._say, client, self._answer)
                    continue
                server = socket.socket()
                self._small(server)
                server.settimeout(10)
                try:
                    server.connect(self._target)
                except OSError:
                    client.close()
                    server.close()
                    continue
                server.settimeout(None)
                for s in (client, server):
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = _Connection(client, server)
                self._open.append(connection)
                self.connections += 1
            self._start(self._pump, connection, UP)
            self._start(self._pump, connection, DOWN)

    def _pump(self, connection: _Connection, direction: int) -> None:
        source, sink = connection.ends if direction == UP else reversed(connection.ends)
        buffer = memoryview(bytearray(CHUNK if self._buckets is None else BUFFER))
        with contextlib.suppress(OSError):
            while size := source.recv_into(buffer):
                self._clear.wait()
                if self._forgets(connection):
                    continue
                if (buckets := self._buckets) is not None:
                    buckets[direction].take(size)
                    self._clear.wait()
                passing, cut = self._pass(buffer[:size], direction)
                if self._on_data is not None:
                    self._on_data(direction, bytes(buffer[:passing]))
                sink.sendall(buffer[:passing])
                self._on_bytes(self.count)
                if cut:
                    break
        connection.cut()

    def _say(self, client: socket.socket, answer: bytes) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(5)
            if answer and client.recv(CHUNK):
                client.sendall(answer)

    def _forgets(self, connection: _Connection) -> bool:
        now = time.monotonic()
        with self._lock:
            idle = now - connection.active_at
            if not connection.forgotten and self._idle_s is not None and idle > self._idle_s:
                connection.forgotten = True
                self.forgotten += 1
            connection.active_at = now
            return connection.forgotten

    def _pass(self, data: memoryview, direction: int) -> tuple[int, bool]:
        """Damage and count; how much passes, and whether the connection is cut after it."""
        with self._lock:
            at, cuts, flips = self._bytes[direction], self._cuts[direction], self._flips[direction]
            size, cut = len(data), bool(cuts) and cuts[0] <= at + len(data)
            if cut:
                size = max(cuts.pop(0) - at, 0)
            while flips and flips[0] < at + size:
                data[flips.pop(0) - at] ^= 0xFF
            self._bytes[direction] += size
            return size, cut

    @property
    def count(self) -> Count:
        with self._lock:
            return Count(*self._bytes)

    @property
    def left(self) -> int:
        """Cuts and flips that are still to come."""
        with self._lock:
            return sum(len(offsets) for offsets in (*self._cuts, *self._flips))

    def silence(self) -> None:
        """From now on nothing passes and nobody is told, as if the cable were out."""
        self._clear.clear()

    def restore(self) -> None:
        """The cable is in again; what the kernels still hold goes on its way."""
        self._clear.set()

    def answer(self, answer: bytes | None) -> None:
        """Cut all, and answer each new connection with this, as a middle box does; b"": close it.

        None: connect them to the target again.
        """
        with self._lock:
            self._answer = answer
        if answer is not None:
            self.cut()

    def slow(self, rate: float | None) -> None:
        """From now on so many bytes per second in each direction; None: no limit."""
        self._buckets = None if rate is None else (_Bucket(rate), _Bucket(rate))

    def damage(self, direction: int, ahead: int) -> None:
        """Damage the byte that comes after so many others."""
        with self._lock:
            self._flips[direction] = sorted(
                [*self._flips[direction], self._bytes[direction] + ahead]
            )

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            for connection in self._open:
                connection.cut()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.cut()
        self._clear.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        for connection in self._open:
            for s in connection.ends:
                s.close()


@contextlib.contextmanager
def proxy(target: str, **faults) -> Iterator[Proxy]:
    """A proxy that ends with the block."""
    it = Proxy(target, **faults)
    try:
        yield it
    finally:
        it.close()
