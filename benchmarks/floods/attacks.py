"""The floods, each in a process of its own: what one peer without rights can send.

Frames of HTTP/2 are written as they are, so that a flood of calls takes few percent of a core here
and keeps no limit that the coordinator sets.
"""

import contextlib
import itertools
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from domo_proto import PROTOCOL_VERSION
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from tests.support.faults.http2 import CONTROL, DATA_PLANE, Hostile

TICK_S = 0.05
CALL_S = 5.0
FROM = ("127.0.0.2", 0)
"""The attacker's address."""


def ticks(seconds: float) -> Iterator[None]:
    """Every TICK_S until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        yield
        time.sleep(max(0.0, begun + TICK_S - time.monotonic()))


def joined(address: str, name: str = "evil") -> str:
    """The session of a silo that has joined, as anybody may without client certificates."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = pb_grpc.FederationStub(channel)  # type: ignore[no-untyped-call]
        return str(stub.Join(join_request(name), timeout=CALL_S).session)


def join_request(name: str) -> pb.JoinRequest:
    return pb.JoinRequest(
        protocol_version=PROTOCOL_VERSION,
        software_version="0",
        silo_id=name,
        instance_id=f"i-{name}",
        role=pb.TRAINER,
        device="x" * 128,
    )


def hold(address: str, num: int, first: bytes, a_second: int, seconds: float) -> None:
    """Hold so many connections; those that are closed are dialled anew, so many a second."""
    host, _, port = address.rpartition(":")
    held: list[socket.socket] = []
    for n in ticks(seconds) if num else ():
        del n
        still = []
        for sock in held:
            try:
                if sock.recv(4096) == b"":
                    sock.close()
                    continue
            except BlockingIOError:
                pass
            except OSError:
                sock.close()
                continue
            still.append(sock)
        held = still
        for _ in range(min(num - len(held), max(1, int(a_second * TICK_S)))):
            try:
                sock = socket.create_connection((host, int(port)), 1.0, FROM)
                sock.sendall(first)
                sock.setblocking(False)
                held.append(sock)
            except OSError:
                break


def idle(grpc_at: str, page_at: str, seconds: float) -> None:
    """10,000 idle connections, dialled anew when they are closed, 2,000 a second."""
    hold(grpc_at, 10_000, b"", 2000, seconds)


def slow_http(grpc_at: str, page_at: str, seconds: float) -> None:
    """1,000 requests to the page that never come to their end, 500 new ones a second."""
    hold(page_at, 1000, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", 500, seconds)


def streams(grpc_at: str, page_at: str, seconds: float) -> None:
    """One silo holds 2,000 calls, of two kinds, over 21 connections, and begins them anew."""
    session = joined(grpc_at)
    wait = pb.WaitForRunRequest(session=session).SerializeToString()
    attend = pb.AttendRequest(session=session).SerializeToString()
    one, many = Hostile(grpc_at, FROM[0]), [Hostile(grpc_at, FROM[0]) for _ in range(20)]
    for i, _ in enumerate(ticks(seconds)):
        if i % 20 == 0:
            one.calls(CONTROL + "WaitForRun", [wait] * 2000)
            for connection in many:
                connection.calls(CONTROL + "WaitForRun", [wait] * 50)
                connection.calls(CONTROL + "Attend", [attend] * 50)
        one.calls(CONTROL + "Report", [pb.ReportRequest(session=session).SerializeToString()] * 5)


def reports(grpc_at: str, page_at: str, seconds: float) -> None:
    """10,000 heartbeats a second of one silo over 4 connections."""
    beat = pb.ReportRequest(session=joined(grpc_at)).SerializeToString()
    flood(grpc_at, "Report", lambda _: beat, 10_000, seconds)


def event_flood(grpc_at: str, page_at: str, seconds: float) -> None:
    """1,000 heartbeats a second of one silo, each with four notes and a failure."""
    session = joined(grpc_at)

    def told(n: int) -> bytes:
        notes = [f"note {n} {k} " + "x" * 280 for k in range(4)]
        failure = f"failure {n} " + "y" * 280
        return pb.ReportRequest(session=session, notes=notes, failure=failure).SerializeToString()

    flood(grpc_at, "Report", told, 1000, seconds)


def names(grpc_at: str, page_at: str, seconds: float) -> None:
    """10,000 names join, 2,000 a second over 4 connections, and again those that were refused."""
    requests = [join_request(f"evil-{n}").SerializeToString() for n in range(10_000)]
    flood(grpc_at, "Join", lambda n: requests[n % len(requests)], 2000, seconds)


def join_loop(grpc_at: str, page_at: str, seconds: float) -> None:
    """One silo joins and joins again, 1,000 times a second."""
    request = join_request("evil").SerializeToString()
    flood(grpc_at, "Join", lambda _: request, 1000, seconds)


def no_session(grpc_at: str, page_at: str, seconds: float) -> None:
    """5,000 calls a second without a session."""
    request = pb.WaitForRunRequest(session="none").SerializeToString()
    flood(grpc_at, "WaitForRun", lambda _: request, 5000, seconds)


def fetches(grpc_at: str, page_at: str, seconds: float) -> None:
    """2,000 calls a second for the model, by a silo without a place in the run."""
    run = pb.FetchRequest(session=joined(grpc_at), run_id="1-floods", evaluated_index=-1)
    request = run.SerializeToString()
    flood(grpc_at, DATA_PLANE + "FetchRound", lambda _: request, 2000, seconds)


def resets(grpc_at: str, page_at: str, seconds: float) -> None:
    """10,000 calls a second that are given up at once (rapid reset)."""
    beat = pb.ReportRequest(session=joined(grpc_at)).SerializeToString()
    flood(grpc_at, "Report", lambda _: beat, 10_000, seconds, reset=True)


def flood(
    address: str,
    method: str,
    payload: Callable[[int], bytes],
    a_second: int,
    seconds: float,
    reset: bool = False,
    connections: int = 4,
) -> None:
    """So many calls a second, whatever comes back."""
    path = method if method.startswith("/") else CONTROL + method
    many, numbers = [Hostile(address, FROM[0]) for _ in range(connections)], itertools.count()
    each = max(1, int(a_second * TICK_S / connections))
    for _ in ticks(seconds):
        for connection in many:
            connection.calls(path, [payload(next(numbers)) for _ in range(each)], reset)


def pings(grpc_at: str, page_at: str, seconds: float) -> None:
    """10,000 pings of HTTP/2 a second over 4 connections."""
    many = [Hostile(grpc_at, FROM[0]) for _ in range(4)]
    for _ in ticks(seconds):
        for connection in many:
            connection.pings(int(10_000 * TICK_S / 4))


def listeners(grpc_at: str, page_at: str, seconds: float) -> None:
    """500 streams of live events, 100 new ones a second; none is read."""
    asked = b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    hold(page_at, 500, asked, 100, seconds)


def requests(grpc_at: str, page_at: str, seconds: float) -> None:
    """400 requests a second for the coordinator's status, whose answers nobody waits for."""
    asked = b"GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    host, _, port = page_at.rpartition(":")
    left: list[socket.socket] = []
    for _ in ticks(seconds):
        for _ in range(int(400 * TICK_S)):
            with contextlib.suppress(OSError):
                left.append(socket.create_connection((host, int(port)), 1.0, FROM))
                left[-1].sendall(asked)
        while len(left) > 200:
            left.pop(0).close()


ATTACKS: dict[str, Callable[[str, str, float], None]] = {
    "10,000 idle connections": idle,
    "2,000 streams of one silo": streams,
    "10,000 reports a second": reports,
    "10,000 names": names,
    "1,000 slow HTTP clients": slow_http,
    "HTTP/2 pings": pings,
    "rapid reset": resets,
    "notes and failures": event_flood,
    "joins in a loop": join_loop,
    "calls without a session": no_session,
    "models asked for": fetches,
    "500 event streams": listeners,
    "400 requests a second": requests,
}


def main() -> None:
    """NAME GRPC PAGE SECONDS: one of them, in this process, which yields to all others."""
    name, grpc_at, page_at, seconds = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(15)
    print("begins", flush=True)
    ATTACKS[name](grpc_at, page_at, float(seconds))


if __name__ == "__main__":
    main()
