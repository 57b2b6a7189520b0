"""A box between a silo and its coordinator answers for a while: what is said, and who goes on."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from domo.errors import CoordinatorUnavailableError, DomoError
from domo_client.loop import connect as joining
from domo_client.loop.connect import connect
from domo_client.rpc import presence
from domo_client.rpc import session as line
from domo_client.rpc.control import Control
from domo_client.rpc.presence import Presence
from domo_client.rpc.session import Session
from tests.support.faults.middle import (
    Answer,
    Box,
    box,
    goaway,
    grpc_status,
    http,
    no_trailers,
    reset,
    speaks_grpc,
    tries_again_soon,
)
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.silos import Agent, agents, options

REFUSED = "refused"
NOT_OURS = "which is no coordinator's answer (a proxy or load balancer"
WEB = rb"HTTP/1.1 400 Bad Request" + b"\r\nContent-Length: 0\r\n\r\n"
NOBODY = r"no coordinator answers at {at} \("
CUT = NOBODY + r"the (call|connection) was cut off\)"
ROWS: dict[str, tuple[Answer | str, str]] = {
    "a page for people": (http(200), r"{at} answers with no end of gRPC, as no coordinator does"),
    **{
        f"HTTP {status}": (http(status), rf"{{at}} answers with HTTP {status}, which is no coord")
        for status in (301, 302, 308, 400, 401, 403, 404, 407, 413, 418, 429, 500, 502, 503, 504)
    },
    **{
        f"grpc-status {code}": (
            grpc_status(code, "said by a box"),
            rf"{{at}} answers with {name}: said by a box, which is no coordinator's answer",
        )
        for code, name in {
            2: "UNKNOWN",
            3: "INVALID_ARGUMENT",
            5: "NOT_FOUND",
            6: "ALREADY_EXISTS",
            7: "PERMISSION_DENIED",
            8: "RESOURCE_EXHAUSTED",
            9: "FAILED_PRECONDITION",
            10: "ABORTED",
            11: "OUT_OF_RANGE",
            13: "INTERNAL",
            15: "DATA_LOSS",
            16: "UNAUTHENTICATED",
        }.items()
    },
    "no message": (grpc_status(0, ""), r"{at} answers with nothing in it, as no coordinator does"),
    "cancelled": (grpc_status(1, "said by a box"), NOBODY + r"said by a box\)"),
    "too late": (grpc_status(4, "upstream timeout"), r"no answer from {at} in time"),
    "unavailable": (grpc_status(14, "no healthy upstream"), NOBODY + r"no healthy upstream\)"),
    "another service": (
        grpc_status(12, "unknown service"),
        r"{at} speaks another protocol, or is no domo coordinator \(unknown service\)",
    ),
    "too large": (
        grpc_status(8, "Received message larger than max (70000 vs. 65536)"),
        r"{at} limits the size of messages .* domo needs 4 MB",
    ),
    "lines": (grpc_status(13, "one%0Atwo%1B"), r"{at} answers with INTERNAL: one two, which"),
    "no trailers": (no_trailers(), r"{at} answers with no end of gRPC"),
    **{f"RST_STREAM {code}": (reset(code), CUT) for code in (2, 7, 8, 11, 12, 13)},
    **{f"GOAWAY {code}": (goaway(code), CUT) for code in (0, 11)},
    "a web server": (Answer(at_once=WEB), NOBODY + "a web server answers, perhaps the dashboard"),
    "a TLS alert": (Answer(at_once=b"\x15\x03\x03\x00\x02\x02\x28"), NOBODY + "it hung up at once"),
    "something else": (Answer(at_once=b"SSH-2.0-x\r\n"), NOBODY + "it speaks something else than"),
    "nothing": (Answer(), NOBODY + "it hung up at once"),
    "nobody": (REFUSED, NOBODY + r"connection refused\)"),
    "a black hole": (Answer(silent=True), r"no answer from {at} in time"),
}


class Told(NamedTuple):
    """What was seen of one row: at first contact, and by a silo that was connected."""

    words: str
    first: DomoError
    trouble: str
    later: object


def meet(server: Coordinator, number: int, answer: Answer | str, words: str) -> Told:
    with box(server.address) as between:
        text = words.replace("{at}", re.escape(between.address))
        said: list[str] = []
        session = Session(between.address, f"site-{number}", "i", on_trouble=said.append)
        session.join()
        _stand(between, answer)
        late: list[object] = []

        def ask() -> None:
            try:
                late.append(Control(session).wait_for_run())
            except Exception as error:
                late.append(error)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        stranger = Session(between.address, "stranger", "j", first_connect_s=0.0)
        with contextlib.closing(session), contextlib.closing(stranger):
            with pytest.raises(DomoError) as first:
                stranger.join()
            end = time.monotonic() + 30
            while not (heard := [one for one in said if re.match(text, one)]) and asking.is_alive():
                assert time.monotonic() < end, said  # a connection that is cut comes first, perhaps
                time.sleep(0.01)
            between.passes()
            asking.join(60)
            assert not asking.is_alive()
        return Told(text, first.value, heard[0] if heard else str(said), late[0])


def _stand(between: Box, answer: Answer | str) -> None:
    if isinstance(answer, Answer):
        between.answers(answer)
    else:
        between.refuses()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Told]]:
    """All rows at once, each with a box of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line, "CALL_S", 2.0)
        tries_again_soon(patch)
        with (
            coordinator(tmp_path_factory.mktemp("middle"), long_poll_s=0.2) as server,
            ThreadPoolExecutor(len(ROWS)) as pool,
        ):
            meeting = {
                name: pool.submit(meet, server, number, *row)
                for number, (name, row) in enumerate(ROWS.items())
            }
            yield {name: told.result() for name, told in meeting.items()}


@pytest.mark.parametrize("name", ROWS)
def test_what_a_box_says_is_heard_and_passes(seen: dict[str, Told], name: str) -> None:
    told = seen[name]
    assert re.match(told.words, str(told.first)), told.first
    assert told.first.retryable
    assert re.match(f"{told.words}.*; trying again in ", told.trouble), told.trouble
    assert told.later is None, "the silo goes on: there is no run yet"
    assert "\n" not in told.trouble


RUN = {"task": "digits", "num_rounds": 6, "num_silos": 1, "local_steps": 2}


@contextlib.contextmanager
def in_a_run(folder: Path, between: Box) -> Iterator[Agent]:
    """An agent that trains by way of a box."""
    shard = options(shard=(0, 4))
    with agents(between.address, ["site-a"], folder, lambda i: shard) as (agent,):
        yield agent


def test_an_agent_in_a_run_waits_until_the_box_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries_again_soon(monkeypatch)
    with (
        coordinator(tmp_path, RUN) as server,
        box(server.address) as between,
        in_a_run(tmp_path, between) as agent,
    ):
        server.until(f"/runs/{server.run_ids[0]}", lambda run: run["rounds_done"] >= 1)
        between.answers(http(404))
        while between.asked < 3:
            time.sleep(0.02)
        assert agent.error is None
        between.passes()
        assert server.ended()["state"] == "FINISHED"


def test_another_coordinator_answers_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silo joins it, finds no run there, and is in its own run again afterwards."""
    tries_again_soon(monkeypatch)
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    with (
        coordinator(tmp_path, RUN) as server,
        coordinator(other_folder) as other,
        box(server.address) as between,
        in_a_run(tmp_path, between),
    ):
        server.until(f"/runs/{server.run_ids[0]}", lambda run: run["rounds_done"] >= 1)
        between.passes(other.address)
        other.until("/silos", lambda silos: len(silos) == 1)
        between.passes(server.address)
        assert server.ended()["state"] == "FINISHED"


def test_a_silo_that_starts_during_the_outage_tries_on_where_it_has_joined_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "FIRST_CONNECT_S", 0.0)
    tries_again_soon(monkeypatch)
    with coordinator(tmp_path) as server, box(server.address) as between:

        def join(said: list[str], **more: float) -> None:
            state = tmp_path / "state"
            connect(
                between.address, "site-a", state_dir=state, on_trouble=said.append, **more
            ).close()

        between.answers(http(403))
        with pytest.raises(CoordinatorUnavailableError, match="answers with HTTP 403"):
            join([])  # it has never been there
        between.passes()
        join([], first_connect_s=30)
        between.answers(http(403))
        with pytest.raises(CoordinatorUnavailableError, match="answers with HTTP 403"):
            join([], first_connect_s=0.0)  # its operator has said how long
        said: list[str] = []
        with ThreadPoolExecutor(1) as pool:
            joined = pool.submit(join, said)
            while not any("now" in text for text in said):
                assert not joined.done() or joined.result()
                time.sleep(0.05)
            between.passes()
            joined.result(60)
    assert re.search(r"answers with HTTP 403, .*; trying again in \d+ s, for \d+ s now$", said[-1])


def test_the_stream_of_presence_is_opened_again_after_a_404(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the coordinator would not see at once that this silo has died."""
    monkeypatch.setattr(presence, "UNKNOWN_S", 0.1)
    with coordinator(tmp_path) as server, box(server.address) as between:
        session = Session(between.address, "site-a", "i")
        session.join()
        between.answers(http(404))
        attending = Presence(session)
        attending.start()
        while not between.asked:
            time.sleep(0.01)
        assert attending.is_alive()
        attending.stop()
        session.close()
        attending.join(30)


def test_a_box_that_loses_marks_and_ends_long_streams(tmp_path: Path) -> None:
    """The run goes on, and a session that the coordinator no longer knows is opened again."""
    shard = options(shard=(0, 4))
    with (
        coordinator(tmp_path, RUN) as server,
        speaks_grpc(server.address, longest_s=0.5) as address,
        agents(address, ["site-a"], tmp_path, lambda i: shard) as (agent,),
    ):
        server.until(f"/runs/{server.run_ids[0]}", lambda run: run["rounds_done"] >= 1)
        agent.silo.connection.session.token = "forgotten"
        assert server.ended()["state"] == "FINISHED"
        assert agent.silo.connection.counts.joins > 1


def test_the_dashboards_port_is_named_and_an_address_is_taken_as_it_is_pasted(
    tmp_path: Path,
) -> None:
    with coordinator(tmp_path) as server:
        with pytest.raises(CoordinatorUnavailableError, match="perhaps the dashboard") as caught:
            connect(server.url, "site-a", state_dir=tmp_path / "state", first_connect_s=0.0)
        assert "silos dial the coordinator's port for silos, 50051 by default" in str(caught.value)
        pasted = f" \u201chttp://{server.address}/\u201d\u200b"
        with connect(pasted, "site-a", state_dir=tmp_path / "state") as silo:
            assert silo.connection.session.address == server.address
