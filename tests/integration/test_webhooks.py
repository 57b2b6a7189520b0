"""Webhooks: signed messages to a real receiver, however often it or the coordinator fails."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from torch import nn
from typer.testing import CliRunner

from domo.errors import ConfigError
from domo.ops.config_file import validate
from domo_proto.v1 import federation_pb2 as pb
from domo_server import check
from domo_server.cli import app
from domo_server.config import ServerConfig, WebhookConfig, load_config
from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.event_log import EventLog
from domo_server.events.notifier import Notifier
from domo_server.integrations import webhooks
from domo_server.integrations.webhook_message import Hook
from domo_server.integrations.webhooks import Webhooks, complete_log
from domo_server.store.database import open_database
from domo_server.store.store import Store, now_text
from tests.support.live.coordinator import coordinator, own_run
from tests.support.live.silos import agents, options
from tests.support.played.made_up import Federation
from tests.support.played.raw import Raw

SECRET = base64.b64encode(b"k" * 24).decode()


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent; answers with `answers`, one after the other, and then with 204."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/services/very-secret"

    def told(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """As docs/watch.md says that a receiver does it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret), signed, hashlib.sha256)
    right = "v1," + base64.b64encode(digest).decode()
    return hmac.compare_digest(right, headers["webhook-signature"])


@contextlib.asynccontextmanager
async def following(folder: Path, *hooks: WebhookConfig) -> AsyncIterator[EventLog]:
    """Webhooks over a log of events, without a coordinator."""
    store = Store(open_database(f"sqlite:///{folder / 'coordinator.db'}"))
    events = EventLog(store, Notifier(), Counters())
    them = Webhooks(hooks, store, events, Federation(), "https://domo.example.org/")
    await them.start()
    try:
        yield events
    finally:
        await them.close()
        await events.close()
        store.close()


async def until(receiver: Receiver, num: int) -> None:
    async with asyncio.timeout(20):
        while len(receiver.got) < num:  # noqa: ASYNC110 - it fills on another thread
            await asyncio.sleep(0.01)


def test_what_happens_is_told_in_order_once_each_and_signed(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret").write_text(f"whsec_{SECRET}\n")
    names = ("failed", "stalled", "silo-lost")
    hook = WebhookConfig(url=receiver.url, events=names, secret_file=tmp_path / "secret")

    async def go() -> None:
        receiver.answers = [503, 204, 400]
        async with following(tmp_path, hook) as events:
            events.say(kinds.FINISHED, "not asked for", "1-fedavg")
            events.say(kinds.RUN_STALLED, "fedavg is stalled: no silo", "1-fedavg")
            events.say(kinds.SILO_LOST, "site-a is gone", None, "site-a")
            events.say(kinds.FAILED, "fedavg: failed: no", "1-fedavg")
            await until(receiver, 4)

    caplog.set_level("DEBUG")
    asyncio.run(go())
    first, again, lost, failed = receiver.told()
    assert first == again, "503 is tried again, 400 is not"
    assert [x["event"] for x in (first, lost, failed)] == ["stalled", "silo-lost", "failed"]
    assert first["reason"] == "fedavg is stalled: no silo"
    link = "https://domo.example.org/#/runs/1-fedavg"
    assert (first["link"], first["text"]) == (link, f"domo: {first['reason']}\n{link}")
    assert (first["run"]["run_id"], first["run"]["rounds_done"]) == ("1-fedavg", 2)
    assert (lost["silo_id"], lost["run"]) == ("site-a", None)
    assert [h["webhook-id"] for h, _ in receiver.got] == ["2", "2", "3", "4"]
    for headers, body in receiver.got:
        assert is_signed(headers, body, SECRET)
        assert not is_signed(headers, body + b" ", SECRET)
        assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    assert "was not told 'stalled': it answered 503; it is tried for 15 min" in caplog.text
    assert "was not told 'silo-lost': it answered 400; given up" in caplog.text
    assert "very-secret" not in caplog.text, "an address may be a secret"


def test_what_could_not_be_told_is_told_after_a_restart(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_S", 0.1)
    hook = WebhookConfig(url=receiver.url)

    async def go() -> None:
        receiver.answers = [500]
        async with following(tmp_path, hook) as events:
            events.say(kinds.FINISHED, "the end", "1-fedavg")
            await until(receiver, 1)
        async with following(tmp_path, hook):
            await until(receiver, 2)
        async with following(tmp_path, hook, WebhookConfig(url=receiver.url + "/new")) as events:
            events.say(kinds.FAILED, "another", "1-fedavg")
            await until(receiver, 4)

    asyncio.run(go())
    told = [(h["webhook-id"], json.loads(body)["event"]) for h, body in receiver.got]
    assert told[:2] == [("1", "finished")] * 2
    assert [event for _, event in told[2:]] == ["failed"] * 2, "a new one hears of no old events"
    assert "webhook-signature" not in receiver.got[0][0]


def test_an_end_whose_event_was_lost_is_told(tmp_path: Path) -> None:
    store = Store(open_database(f"sqlite:///{tmp_path / 'coordinator.db'}"))
    for name, state in (("a", "FINISHED"), ("b", "OPEN"), ("c", "FAILED")):
        row = store.create_run(name, {}, "")
        store.update_run(row.run_id, state=state, detail="why", finished_at=now_text())
    store.add_event("failed", "c: failed: why", "3-c")
    for _ in range(2):
        complete_log(store)
    told = [(e.kind, e.run_id, e.text) for e in store.events_after(0, 10)]
    store.close()
    assert told == [("failed", "3-c", "c: failed: why"), ("finished", "1-a", "a: finished: why")]


def test_a_run_tells_its_end_before_the_coordinator_stops(
    receiver: Receiver, tmp_path: Path
) -> None:
    run = {"task": "digits", "num_rounds": 1, "num_silos": 1, "local_steps": 1}
    hook = {"url": receiver.url}
    with (
        coordinator(tmp_path, run, webhooks=[hook]) as server,
        agents(server.address, ["site-a"], tmp_path, lambda i: options(shard=(0, 1))),
    ):
        server.ended()
    (end,) = receiver.told()
    assert (end["event"], end["run"]["state"], end["link"]) == ("finished", "FINISHED", None)


def test_a_run_that_stalls_and_fails_tells_both(receiver: Receiver, tmp_path: Path) -> None:
    policy = {"on_missing": "fail", "round_deadline_s": 3.0}
    run = own_run(tmp_path, nn.Linear(2, 1), **policy)
    with coordinator(tmp_path, run, webhooks=[{"url": receiver.url}]) as server:
        silo = Raw(server)
        silo.join()
        silo.enroll()
        silo.fetch()
        failure = {"phase": pb.TRAINING, "run_id": silo.run_id, "failure": "RuntimeError: no disk"}
        silo.stub.Report(pb.ReportRequest(session=silo.session, **failure), timeout=30)
        server.ended()
        silo.close()
    stalled, failed = receiver.told()
    assert stalled["event"] == "stalled"
    assert "site-a: failed: RuntimeError: no disk" in stalled["reason"]
    assert (failed["event"], failed["run"]["state"]) == ("failed", "FAILED")
    assert "site-a" in failed["reason"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"url": "ftp://x.example/"}, "url"),
        ({"url": "http://x.example/", "events": ["finish"]}, "events"),
        ({"url": "http://x.example/", "secret_file": "a", "secret_env": "B"}, "give one of them"),
    ],
)
def test_a_bad_webhook_is_a_fault_of_the_file(values: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        validate(ServerConfig, {"webhooks": [values]}, "the test")


def test_two_webhooks_with_one_address() -> None:
    same = {"url": "http://x.example/"}
    with pytest.raises(ConfigError, match="two have one url"):
        validate(ServerConfig, {"webhooks": [same, same]}, "the test")


def test_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hook(**secret: Any) -> Hook:
        return Hook(WebhookConfig(url="http://x.example/", **secret))

    (tmp_path / "empty").touch()
    (tmp_path / "bad").write_text("whsec_???")
    for name, text in (("none", "No such file"), ("empty", "is empty"), ("bad", "no base64")):
        with pytest.raises(ConfigError, match=text):
            hook(secret_file=tmp_path / name)
    with pytest.raises(ConfigError, match="variable HOOK_SECRET is not set"):
        hook(secret_env="HOOK_SECRET")
    monkeypatch.setenv("HOOK_SECRET", "plain")
    # by hand: printf '7.1700000000.{}' | openssl dgst -sha256 -hmac plain -binary | base64
    headers = hook(secret_env="HOOK_SECRET").headers("7", 1_700_000_000, b"{}")
    assert headers["webhook-signature"] == "v1,YhUK/uvmHmr+l5bBSkU4UO3bTyidS4eSYVcPawIpsEA="


def test_the_commands(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(
        f'[[server.webhooks]]\nurl = "{receiver.url}"\n'
        '[[server.webhooks]]\nurl = "http://127.0.0.1:9/"\n'
    )
    result = CliRunner().invoke(app, ["webhook-test", str(file)])
    assert result.exit_code == 1, result.output
    assert f"127.0.0.1:{receiver.server_address[1]}: delivered" in result.output
    assert "127.0.0.1:9: connection refused" in result.output
    assert [x["event"] for x in receiver.told()] == ["test"]
    (settings, _) = load_config(file, {})
    assert [f.state for f in check.webhooks(settings)] == ["ok", "ok"]
    assert len(receiver.got) == 1, "check sends nothing"
