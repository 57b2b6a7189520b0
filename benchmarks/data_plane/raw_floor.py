"""The floor under a round: its bytes through plain TCP sockets on loopback, and their sum.

A silo is a process with one connection. Up: each sends a vector, a thread for each connection
receives it into a buffer of its own, 1 MiB at a time, and adds that to a sum. Down: each receives
one vector that all share into a buffer. No frames, no checks, no files, nobody restarted: what a
coordinator adds to this is the price of what it does beyond moving bytes.
"""

import multiprocessing
import multiprocessing.synchronize
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch

CHUNK = 1 << 20
TIMEOUT_S = 300.0


class Floor(NamedTuple):
    """Medians over the rounds.

    Attributes:
        up_s: From the first byte sent to the last one added.
        down_s: From the first byte sent to the last one received.
        cpu_s: CPU seconds of a round, both ends.
    """

    up_s: float
    down_s: float
    cpu_s: float

    @property
    def round_s(self) -> float:
        """Seconds for both directions, one after the other."""
        return self.up_s + self.down_s


def _receive(connection: socket.socket, view: memoryview) -> None:
    got = 0
    while got < len(view):
        got += connection.recv_into(view[got:])


def _silo(
    port: int, num_bytes: int, rounds: int, start: multiprocessing.synchronize.Barrier
) -> None:
    data = memoryview(bytearray(os.urandom(CHUNK)) * (num_bytes // CHUNK + 1))[:num_bytes]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(rounds):
            start.wait(TIMEOUT_S)
            connection.sendall(data)
            start.wait(TIMEOUT_S)
            _receive(connection, data)
            connection.sendall(b"k")


def measure(num_bytes: int, num_silos: int, rounds: int = 6) -> Floor:
    """Move one vector of `num_bytes` up and down for each of `num_silos` silos.

    Args:
        num_bytes: A multiple of 4.
        num_silos: K.
        rounds: How often; the first is not counted.
    """
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    start = context.Barrier(num_silos + 1)
    with socket.create_server(("127.0.0.1", 0), backlog=num_silos) as server:
        port = server.getsockname()[1]
        silos = [
            context.Process(target=_silo, args=(port, num_bytes, rounds, start))
            for _ in range(num_silos)
        ]
        for silo in silos:
            silo.start()
        connections = [server.accept()[0] for _ in silos]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    total = torch.zeros(num_bytes // 4)
    locks = [threading.Lock() for _ in range(0, num_bytes, CHUNK)]
    model = memoryview(bytearray(num_bytes))

    def take(connection: socket.socket) -> None:
        chunk = bytearray(CHUNK)
        values, view = torch.frombuffer(chunk, dtype=torch.float32), memoryview(chunk)
        for i, lo in enumerate(range(0, num_bytes, CHUNK)):
            size = min(CHUNK, num_bytes - lo)
            _receive(connection, view[:size])
            with locks[i]:
                total[lo // 4 : (lo + size) // 4].add_(values[: size // 4])

    def give(connection: socket.socket) -> None:
        connection.sendall(model)
        connection.recv(1)

    times: list[tuple[float, float]] = []
    before = _cpu_s()
    for _ in range(rounds):
        start.wait(TIMEOUT_S)
        up = _all(take, connections)
        start.wait(TIMEOUT_S)
        times.append((up, _all(give, connections)))
    for connection in connections:
        connection.close()
    for silo in silos:
        silo.join(TIMEOUT_S)
    up_s, down_s = (median(column) for column in zip(*times[1:], strict=True))
    return Floor(up_s, down_s, (_cpu_s() - before) / rounds)


def _all(work: Callable[[socket.socket], None], connections: Sequence[socket.socket]) -> float:
    begun = time.monotonic()
    threads = [threading.Thread(target=work, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begun


def _cpu_s() -> float:
    """CPU seconds of this process, and of its children once they have ended."""
    whole = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in whole)
