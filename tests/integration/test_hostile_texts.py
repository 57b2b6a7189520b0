"""What silos and coordinators say, to the letter: no control character, no line more than events.

The long form is `python -m benchmarks.hostile_texts`.
"""

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest
from torch import nn
from typer.testing import CliRunner

from domo.commands.main import app
from domo.names import MOST_TEXT
from domo_proto.v1 import federation_pb2 as pb
from domo_server.silos.allowed import REPORTS_PER_BEAT
from tests.support.hostile import FORGED, hostile
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.outlets import OUTLETS, through_all
from tests.support.played.raw import Raw

EVENTS = ["events", "--limit", "1000"]


def test_some_texts_through_everything() -> None:
    written = through_all(500, seed=6)
    assert set(written) == set(OUTLETS)
    assert all(written.values())


@pytest.mark.parametrize(
    ("outlet", "where"),
    [
        ("log, events and webhooks, of silos", "domo_server.events.event_log.one_line"),
        ("log, events and webhooks, of silos", "domo_server.integrations.webhook_message.for_chat"),
        ("events, of coordinators", "domo.ops.console.printable"),
        ("status", "domo.remote.tables.one_line"),
        ("watch", "domo.remote.watch_view.one_line"),
        ("panel", "domo_client.observe.panel.one_line"),
    ],
)
def test_a_gap_is_seen(outlet: str, where: str) -> None:
    rng = random.Random(7)
    texts = [*FORGED, *(hostile(rng) for _ in range(100))]

    def gap(text: str, *_: Any) -> str:
        return text

    with patch(where, gap), patch("domo.api.answers.one_line", gap), pytest.raises(AssertionError):
        OUTLETS[outlet](texts)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Coordinator]:
    with coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1), evaluate_every=0)) as it:
        yield it


def test_a_real_silo_that_says_such_things_in_every_field(
    server: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    evil = "lost\n13:00:00 INFO  forged \x1b[2J\u202e" + "x" * 500
    raw = Raw(server)
    raw.join(device=evil, software_version=evil, host=evil, capabilities=[evil])
    assert raw.enroll().enrolled
    for text in [evil, *FORGED]:
        time.sleep(1 / REPORTS_PER_BEAT)  # more often it would not be heard
        raw.stub.Report(
            pb.ReportRequest(
                session=raw.session,
                run_id=raw.run_id,
                failure=text,
                failure_code=text,
                network=text,
                notes=[text],
                shares_log=True,
                log_lines=[pb.LogLine(number=1, level=text, text=text)],
                doing=pb.Doing(stage=text, activity=text, for_s=9.0),
                not_ready=pb.NotReady(reason=text, code=text),
            ),
            timeout=30,
        )
    for call, request in {
        raw.stub.Decline: pb.DeclineRequest(session=raw.session, run_id=raw.run_id, reason=evil),
        raw.stub.Leave: pb.LeaveRequest(session=raw.session, reason=evil),
        raw.stub.Join: pb.JoinRequest(software_version=evil, silo_id=evil, instance_id=evil),
        raw.stub.LookAtRun: pb.LookAtRunRequest(silo_id=evil),
    }.items():
        with contextlib.suppress(grpc.RpcError):
            call(request, timeout=30)
    raw.close()

    events = server.get("/events")
    assert sum("forged" in event["text"] for event in events) >= 4
    for path in ("/events", "/status", "/silos", "/silos/site-a", "/silos/site-a/log", "/runs"):
        for text in _texts(server.get(path)):
            assert text.isprintable(), (path, text)
            assert "x" * (MOST_TEXT + 1) not in text
    for record in caplog.records:
        if record.name.startswith("domo"):
            assert record.getMessage().isprintable(), record.getMessage()
    for command in (EVENTS, [*EVENTS, "--json"], ["status"], ["runs"]):
        result = CliRunner().invoke(app, [*command, "--server", server.url])
        assert result.exit_code == 0, result.output
        lines = result.output.removesuffix("\n").split("\n")
        assert all(line.isprintable() for line in lines)
        if command[0] == "events":
            assert len(lines) == len(events)


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from _texts(value) if key not in ("config", "notes") else ()
    elif isinstance(found, list):
        for one in found:
            yield from _texts(one)
