"""Wherever people see what a peer has said: fed with any texts, it has one line for each thing.

Each text goes as a silo's through the message that it comes in, the log of events and all that
shows events, and as a coordinator's through REST and the panel. It also goes past the gates where
messages are read, straight to what writes: either of the two has to hold.
"""

import asyncio
import io
import json
import logging
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import httpx
from rich.console import Console, ConsoleDimensions

from domo.api.client import Coordinator
from domo.api.schema import Event, RunDetail, SiloStatus
from domo.names import MOST_SAID, MOST_TEXT, one_line
from domo.ops import console as screen
from domo.ops.logs import JsonFormatter, TextFormatter
from domo.remote import show, tables
from domo.remote.events import show_event
from domo.remote.watch_view import result_line, view
from domo_client.loop.heartbeat import Progress
from domo_client.observe import panel as panel_module
from domo_client.observe.panel import Panel
from domo_client.telemetry.counts import Counts
from domo_proto.assignment import read_header
from domo_proto.codec import parse
from domo_proto.v1 import federation_pb2 as pb
from domo_server.dashboard import openapi_examples as examples
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Notifier
from domo_server.integrations.webhook_message import body_of
from domo_server.store.database import open_database
from domo_server.store.store import Store
from domo_server.view.rows import event_of
from tests.support.hostile import hostile

BATCH = 500
SIZE = ConsoleDimensions(100, 40)
NAME = 24
"""Columns in which a table's row begins, and its further lines do not."""


def through_all(number: int, seed: int) -> dict[str, int]:
    """Send so many texts through all outlets; how many lines each has written."""
    rng, written = random.Random(seed), dict.fromkeys(OUTLETS, 0)
    for at in range(0, number, BATCH):
        texts = [hostile(rng) for _ in range(min(BATCH, number - at))]
        for name, outlet in OUTLETS.items():
            written[name] += outlet(texts)
    return written


def clean(text: str, most: int, what: str) -> int:
    """See that a text has so many lines at most, and nothing that does not print."""
    lines = text.removesuffix("\n").split("\n") if text else []
    assert len(lines) <= most, f"{what}: {len(lines)} lines of {most} things"
    for line in lines:
        assert line.isprintable(), f"{what}: {line!a}"
    assert len(text.splitlines()) <= most
    return len(lines)


@contextmanager
def _logged() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """What the logger of events writes, as text and as JSON."""
    logger = logging.getLogger("domo_server.events.event_log")
    streams = io.StringIO(), io.StringIO()
    handlers = [logging.StreamHandler(stream) for stream in streams]
    for handler, form in zip(handlers, (TextFormatter(), JsonFormatter()), strict=True):
        handler.setFormatter(form)
        logger.addHandler(handler)
    before, logger.level, logger.propagate = (logger.level, logger.propagate), logging.INFO, False
    try:
        yield streams
    finally:
        logger.level, logger.propagate = before
        for handler in handlers:
            logger.removeHandler(handler)


@contextmanager
def _printed() -> Iterator[io.StringIO]:
    """What a command prints, to a pipe."""
    stream = io.StringIO()
    made = Console(file=stream, width=80, highlight=False, emoji=False, color_system=None)
    with (
        patch.object(screen, "console", made),
        patch.object(tables, "console", made),
        patch.object(panel_module, "console", made),
    ):
        yield stream


def of_silos(texts: Sequence[str]) -> int:
    """A silo's failures: into the log of events, its database, and from there to everybody."""
    said = [parse(pb.ReportRequest, pb.ReportRequest(failure=t).SerializeToString()) for t in texts]
    assert all(len(message.failure) <= MOST_TEXT for message in said)
    # one in two comes past that, as by a way that somebody has forgotten
    found = [t if i % 2 else m.failure for i, (t, m) in enumerate(zip(texts, said, strict=True))]
    with tempfile.TemporaryDirectory() as folder, _logged() as (text, lines):
        kept = asyncio.run(_recorded(Path(folder), found))
    clean(text.getvalue(), len(texts), "log")
    clean(lines.getvalue(), len(texts), "log in JSON")
    messages = [json.loads(line)["message"] for line in lines.getvalue().splitlines()]
    assert all(len(message) <= MOST_SAID for message in messages)
    assert len(kept) == len(texts)
    for event in kept:
        body = json.loads(json.dumps(body_of(event, None, "http://127.0.0.1:8080")))
        clean(body["text"], 2, "webhook")
        clean(body["reason"], 1, "webhook")
        assert not set("<>@") & set(body["text"]), ascii(body["text"])
    return _events(kept)


async def _recorded(folder: Path, texts: Sequence[str]) -> list[Event]:
    store = Store(open_database(f"sqlite:///{folder / 'events.db'}"))
    log = EventLog(store, Notifier(), Counters())
    try:
        for text in texts:
            log.say(kinds.SILO_FAILED, f"site-a failed in round 1: {text}")
        await log.close()
        return [event_of(row) for row in store.events_after(0, len(texts))]
    finally:
        store.close()


def _events(events: Sequence[Event]) -> int:
    """`domo events`, of a coordinator that says this."""
    with _printed() as out:
        for event in events:
            show_event(event)
            show_event(event, as_json=True)
    return clean(out.getvalue(), 2 * len(events), "events")


def of_coordinators(texts: Sequence[str]) -> int:
    """A coordinator that is hostile itself: what the commands make of its REST."""
    names = "at", "kind", "text", "run_id", "silo_id"
    told = [{"event_id": i + 1, **dict.fromkeys(names, t)} for i, t in enumerate(texts)]
    with _answering(lambda path: told) as coordinator:
        events = coordinator.events()
    for event in events:
        assert all(one_line(t, MOST_SAID) == t for t in (event.text, event.kind, event.at))
    raw = [Event.model_validate(one) for one in told]
    return _events(events) + _events(raw)


@contextmanager
def _answering(answer: Callable[[str], Any]) -> Iterator[Coordinator]:
    with Coordinator("http://127.0.0.1:1") as coordinator:
        coordinator.http = httpx.Client(
            transport=httpx.MockTransport(
                lambda request: httpx.Response(200, json=answer(request.url.path))
            )
        )
        yield coordinator


def _silo(text: str, name: str | None = None) -> dict[str, Any]:
    return examples.SILO.model_dump(mode="json") | {
        "silo_id": text if name is None else name,
        "device": text,
        "error": text,
        "doing": text,
        "dropped": text,
        "away": text,
        "software_version": text,
    }


def _run(text: str) -> dict[str, Any]:
    found = examples.RUN.model_dump(mode="json")
    names = ("run_id", "name", "task", "method", "detail", "stalled", "primary_metric", "notes")
    return found | dict.fromkeys(names, text) | {"tags": [text], "created_at": text}


def status(texts: Sequence[str]) -> int:
    """`domo status` and `domo runs`, with these silos and runs."""
    silos, runs = [_silo(text) for text in texts], [_run(text) for text in texts[:10]]
    about = examples.STATUS.model_dump(mode="json") | {"silos": silos}
    about |= {"version": texts[0], "grpc_address": texts[0]}
    shown = {"/api/v1/status": about, "/api/v1/runs": runs}
    with _answering(shown.__getitem__) as coordinator, _printed() as out:
        show.show_status(coordinator, as_json=False)
    lines = out.getvalue().split("\n")
    rows = sum(1 for line in lines if line[:NAME].strip())
    assert rows <= len(silos) + len(runs) + 4, f"status: {rows} rows"
    assert all(line.isprintable() for line in lines)
    return rows


def watch(texts: Sequence[str]) -> int:
    """`domo watch`: its view, and its last line, of what comes and past what reads it."""
    lines = 0
    for at in range(0, len(texts), 5):
        part = texts[at : at + 5]
        run = RunDetail.model_validate(_run(part[0]) | {"roster": []})
        silos = [SiloStatus.model_validate(_silo(text)) for text in part]
        events = [
            Event(event_id=i, at=t, kind=t, text=t, silo_id=t, run_id=t) for i, t in enumerate(part)
        ]
        with _printed() as out:
            screen.console.print(view(run, silos, events, ValueError(part[0]), SIZE))
            drawn = clean(out.getvalue(), SIZE.height, "watch")
        lines += drawn + clean(one_line(result_line(run), None), 1, "watch")
    return lines


def panel(texts: Sequence[str]) -> int:
    """The panel of a silo whose coordinator says this."""
    lines = 0
    for i, text in enumerate(texts):
        header = pb.RoundHeader(action=pb.ASK_AGAIN, run_id=text, outcome=text, outcome_text=text)
        read = read_header(parse(pb.RoundHeader, header.SerializeToString()), {})
        assert all(len(t) <= MOST_TEXT for t in (read.text, read.outcome, read.run_id))
        session = SimpleNamespace(silo_id="site-a", address=text, report_interval_s=2.0)
        silo: Any = SimpleNamespace(
            connection=SimpleNamespace(session=session, counts=Counts()),
            progress=Progress(phase="waiting", run_id=text),
            doing=None,
            waits_for=text if i % 2 else read.text,
            has_unsaved=False,
        )
        drawing = Panel(silo, certificate_note=lambda text=text: text, clock=lambda: 0.0)
        drawing.trouble = text
        config = SimpleNamespace(num_rounds=3, method="DOMO")
        drawing.offer = SimpleNamespace(run_id=text, task=text, config=config)  # type: ignore[assignment]
        with _printed() as out:
            screen.console.print(drawing)
        lines += clean(out.getvalue(), 10, "panel")
    return lines


OUTLETS: dict[str, Callable[[Sequence[str]], int]] = {
    "log, events and webhooks, of silos": of_silos,
    "events, of coordinators": of_coordinators,
    "status": status,
    "watch": watch,
    "panel": panel,
}
