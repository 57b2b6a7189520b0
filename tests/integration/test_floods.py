"""What one peer can send without end, in short: others are answered, and it costs next to nothing.

How much is left to others is measured by `python -m benchmarks.floods`.
"""

import asyncio
import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from torch import nn

from domo.errors import CoordinatorUnavailableError
from domo_proto.channel import CLIENT_OPTIONS, MOST_PING_STRIKES, MOST_STREAMS
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator import strangers
from domo_server.dashboard import stream
from domo_server.events.event_log import BURST
from domo_server.rpc.held import MOST_HELD
from domo_server.silos import allowed
from domo_server.silos.allowed import HELD_BACK_S, MOST_REPORTS
from tests.support.faults.http2 import CONTROL, Hostile
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.played.raw import Raw, fault

REPORT_S = 0.2
"""How often these coordinators ask for heartbeats."""
QUICK_S = 20.0
"""Within which whoever is honest has an answer, on a machine that has much else to do."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Coordinator]:
    run = own_run(
        tmp_path, nn.Linear(2, 1), num_silos=None, roster=["site-a", "site-b"], evaluate_every=0
    )
    with coordinator(tmp_path, run, long_poll_s=20.0) as it:
        yield it


@pytest.fixture
def honest(server: Coordinator) -> Iterator[Raw]:
    """Enrolled in the run."""
    with contextlib.closing(Raw(server)) as raw:
        raw.join()
        assert raw.enroll().enrolled
        yield raw


@pytest.fixture
def evil(server: Coordinator) -> Iterator[Raw]:
    """Has joined, and has no place in the run."""
    with contextlib.closing(Raw(server)) as raw:
        raw.join(silo_id="evil", instance_id="e")
        yield raw


@pytest.fixture
def wire(server: Coordinator) -> Iterator[Hostile]:
    with contextlib.closing(Hostile(server.address)) as hostile:
        yield hostile


def answered(silo: Raw) -> None:
    """A silo that works has its answers."""
    begun = time.monotonic()
    silo.stub.Report(pb.ReportRequest(session=silo.session), timeout=QUICK_S)
    silo.status()
    assert time.monotonic() - begun < QUICK_S


def beat(silo: Raw, **given: Any) -> bytes:
    return pb.ReportRequest(session=silo.session, **given).SerializeToString()


def until(good: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    end = time.monotonic() + timeout_s
    while not good() and time.monotonic() < end:
        time.sleep(0.02)
    return good()


def test_of_calls_that_one_silo_holds_the_newest_stay(server: Coordinator, evil: Raw) -> None:
    request = pb.WaitForRunRequest(session=evil.session)
    held = []
    for _ in range(10):
        held.append(evil.stub.WaitForRun.future(request, timeout=60))
        time.sleep(0.05)  # each is newer than the one before
    assert until(lambda: sum(call.done() for call in held) == 10 - MOST_HELD)
    assert [call.done() for call in held] == [True] * (10 - MOST_HELD) + [False] * MOST_HELD
    assert not any(call.exception() for call in held[:-MOST_HELD])
    for call in held:
        call.cancel()


def test_of_streams_that_show_that_it_is_there_likewise(server: Coordinator, evil: Raw) -> None:
    streams = []
    for _ in range(6):
        streams.append(evil.stub.Attend(pb.AttendRequest(session=evil.session), timeout=60))
        streams[-1].initial_metadata()
    for held in streams[:-MOST_HELD]:
        assert set(map(str, held)) <= {""}  # ended in order
    assert server.silo("evil")["away"] is None
    assert all(held.is_active() for held in streams[-MOST_HELD:])
    for held in streams:
        held.cancel()


def test_a_connection_has_so_many_streams_and_another_one_its_own(
    server: Coordinator, honest: Raw
) -> None:
    with grpc.insecure_channel(server.address, CLIENT_OPTIONS) as channel:
        request, many = health_pb2.HealthCheckRequest(), health_pb2_grpc.HealthStub(channel)
        held = [many.Watch(request, timeout=60) for _ in range(MOST_STREAMS)]
        for watch in held:
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as one_more:
            many.Check(request, timeout=0.5)
        assert one_more.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        answered(honest)
        for watch in held:
            watch.cancel()


def test_heartbeats_without_end(server: Coordinator, honest: Raw, evil: Raw, wire: Hostile) -> None:
    for _ in range(20):
        wire.calls(CONTROL + "Report", [beat(evil)] * 500)
        answered(honest)
    request, begun = pb.ReportRequest(session=evil.session), time.monotonic()
    calls = [evil.stub.Report.future(request, timeout=30) for _ in range(3 * MOST_REPORTS)]
    refused = [from_rpc(e, "here") for e in (call.exception() for call in calls) if e is not None]
    assert refused
    for error in refused:
        assert isinstance(error, CoordinatorUnavailableError)  # so an honest program tries again
        assert error.code == "too-many-calls"
        assert str(error) == "evil sends too many heartbeats; wait a while"
    assert time.monotonic() - begun >= HELD_BACK_S - 0.1


def test_an_honest_silo_that_reports_as_it_was_asked_to_never_meets_it(
    server: Coordinator, honest: Raw
) -> None:
    """Also one that reports a little more often, and every change besides."""
    for _ in range(MOST_REPORTS):
        honest.stub.Report(pb.ReportRequest(session=honest.session), timeout=QUICK_S)
    for _ in range(20):
        time.sleep(REPORT_S / 4)
        honest.stub.Report(pb.ReportRequest(session=honest.session), timeout=QUICK_S)


def test_notes_and_failures_without_end(
    server: Coordinator, honest: Raw, evil: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowed, "HELD_BACK_S", 0.0)
    it = {"session": evil.session, "run_id": evil.run_id}
    for i in range(3 * BURST):
        with contextlib.suppress(grpc.RpcError):
            notes = [f"note {i} {k}" for k in range(4)]
            evil.stub.Report(pb.ReportRequest(**it, notes=notes, failure=f"f {i}"), timeout=30)
            evil.stub.Decline(pb.DeclineRequest(**it, reason=f"reason {i}"), timeout=30)
    events = server.get("/events?limit=1000")
    assert sum(e["silo_id"] == "evil" for e in events) <= BURST + 10
    assert any(e["kind"] == "enrolled" and e["silo_id"] == "site-a" for e in events)


def test_names_without_end(
    server: Coordinator, honest: Raw, wire: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strangers, "MOST_STRANGERS", 5)
    for n in range(0, 200, 20):
        wire.calls(CONTROL + "Join", [join(f"evil-{k}") for k in range(n, n + 20)])
    assert until(lambda: len(server.get("/silos")) == 6)
    answered(honest)
    with contextlib.closing(Raw(server)) as late:
        late.join(silo_id="site-b", instance_id="b")  # a roster names it
        error = fault(late.join, silo_id="site-c", instance_id="c")
        assert isinstance(error, CoordinatorUnavailableError)
        assert "5 silos are known that no run names" in str(error)
    assert len(server.get("/silos")) == 7
    assert len(server.get_text("/status")) < 20_000


def join(name: str) -> bytes:
    return pb.JoinRequest(protocol_version=1, silo_id=name, instance_id=name).SerializeToString()


def test_joins_in_a_loop(server: Coordinator, honest: Raw, evil: Raw) -> None:
    with contextlib.closing(Hostile(server.address)) as wire:
        for _ in range(10):
            wire.calls(CONTROL + "Join", [join("evil")] * 100)
            answered(honest)
        assert until(lambda: "domo_joins_total" in metrics(server))
        assert len(server.get("/events?limit=1000")) < 100


def metrics(server: Coordinator) -> str:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def test_calls_without_a_session(server: Coordinator, honest: Raw, wire: Hostile) -> None:
    request = pb.WaitForRunRequest(session="none").SerializeToString()
    for _ in range(20):
        wire.calls(CONTROL + "WaitForRun", [request] * 200)
        answered(honest)


def test_pings_without_end_end_their_connection(
    server: Coordinator, honest: Raw, wire: Hostile
) -> None:
    assert until(lambda: not wire.pings(10 * MOST_PING_STRIKES) or wire.dialled > 1)
    answered(honest)


def test_calls_that_are_given_up_at_once(
    server: Coordinator, honest: Raw, evil: Raw, wire: Hostile
) -> None:
    for _ in range(20):
        wire.calls(CONTROL + "Report", [beat(evil)] * 500, reset=True)
        answered(honest)


def test_of_streams_of_live_events_so_many_are_open(
    server: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_OF_ONE", 2)
    url = f"{server.url}/api/v1/stream"
    with contextlib.ExitStack() as held:
        for _ in range(2):
            answer = held.enter_context(urllib.request.urlopen(url, timeout=30))
            assert answer.readline().startswith(b"retry")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url, timeout=30)
        assert refused.value.code == 503
        assert b"2 of them from 127.0.0.1: close some" in refused.value.read()
    assert until(lambda: opens(url))


def opens(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30):
            return True
    except urllib.error.HTTPError:
        return False


def test_what_is_held_back_leaves_the_loop_free() -> None:
    """Held-back calls cost a timer each."""

    async def main() -> None:
        back = allowed.HeldBack()
        begun = time.monotonic()
        tasks = [
            asyncio.create_task(back.errs(CoordinatorUnavailableError("x"), "ipv4:1:1"))
            for _ in range(5000)
        ]
        await asyncio.sleep(0)
        assert time.monotonic() - begun < QUICK_S
        for task in tasks:
            task.cancel()

    asyncio.run(main())
