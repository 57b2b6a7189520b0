"""A coordinator that may have 1,024 descriptors, and thousands of connections that say nothing."""

import contextlib
import http.client
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from domo_proto.channel import CLIENT_OPTIONS, HANDSHAKE_S
from tests.support.live.federation import BIN, Federation, Process, federation

LIMIT, IDLE, SLOW = 1024, 3000, 600
LIMITED = (
    "import os,resource,sys; n=int(sys.argv[1]); "
    "resource.setrlimit(resource.RLIMIT_NOFILE,(n//2,n)); os.execv(sys.argv[2],sys.argv[2:])"
)
HOLD = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
host, port, num, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
held = []
for _ in range(num):
    held.append(socket.create_connection((host, port), timeout=10))
    held[-1].sendall(first.encode())
print("held", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def holding(at: str, num: int, first: str = "") -> Iterator[None]:
    """So many connections of another process."""
    host, _, port = at.rpartition(":")
    command = [sys.executable, "-c", HOLD, host, port, str(num), first]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < IDLE + 200:
        pytest.skip(f"{IDLE} connections need more descriptors than {hard}")
    folder = tmp_path_factory.mktemp("floods")
    with federation(folder) as fed:
        command = ["python", "-c", LIMITED, str(LIMIT), str(BIN / "domo-server")]
        flags = ["--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0"]
        state = ["--state-dir", str(folder / "state")]
        fed.server = Process([*command, *flags, *state], folder / "server.log", folder)
        fed.address = fed.server.wait_for(r"silos at (\S+:\d+)").group(1)
        fed.url = fed.server.wait_for(r"dashboard +(http://\S+)").group(1)
        yield fed


def is_served(channel: grpc.Channel) -> bool:
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
    except grpc.RpcError:
        return False
    return True


def events(fed: Federation) -> list[str]:
    """As somebody at another address than those who flood sees them."""
    page = fed.url.removeprefix("http://")
    asks = http.client.HTTPConnection(page, timeout=10, source_address=("127.0.0.2", 0))
    with contextlib.closing(asks):
        asks.request("GET", "/api/v1/events?limit=1000")
        return [event["kind"] for event in json.load(asks.getresponse())]


def test_idle_connections_leave_room_for_the_coordinator_and_for_who_is_there(
    served: Federation,
) -> None:
    with grpc.insecure_channel(served.address, CLIENT_OPTIONS) as connected:
        assert is_served(connected)
        with holding(served.address, IDLE):
            for _ in range(10):
                assert is_served(connected)
                assert events(served) is not None
            end, dialled = time.monotonic() + HANDSHAKE_S + 20, False
            while not dialled and time.monotonic() < end:
                with grpc.insecure_channel(served.address, CLIENT_OPTIONS) as anew:
                    dialled = is_served(anew)
            assert dialled  # once those that say nothing have been hung up on
    assert served.server is not None
    assert "Traceback" not in served.server.output
    assert "descriptors" in events(served)


def test_slow_requests_leave_room_for_quick_ones(served: Federation) -> None:
    page = served.url.removeprefix("http://")
    with holding(page, SLOW, "GET / HTTP/1.1\r\nX: "):
        for _ in range(20):
            begun = time.monotonic()
            events(served)
            assert time.monotonic() - begun < 10
        with grpc.insecure_channel(served.address, CLIENT_OPTIONS) as channel:
            assert is_served(channel)
    assert served.server is not None
    assert "Traceback" not in served.server.output


def test_it_has_taken_what_it_may_have(served: Federation) -> None:
    assert served.server is not None
    limits = Path(f"/proc/{served.server.pid}/limits").read_text()
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(LIMIT), str(LIMIT)]
    with socket.create_connection(("127.0.0.1", int(served.address.rpartition(":")[2]))):
        pass
