"""The typed client, against the real REST over a made-up federation."""

import errno
import inspect
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from domo.api import client as rest_client
from domo.api.client import Coordinator
from domo.api.schema import RunSummary, StreamMessage
from domo.api.transport import MAX_PIECE, server_sent_events
from domo.errors import (
    AccessError,
    ConfigError,
    CoordinatorUnavailableError,
    DeadlineError,
    NotFoundError,
    ProtocolError,
)
from domo_server.dashboard.stream import StreamHub
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN
from tests.support.played.serving import Served, serving

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture
def federation() -> Federation:
    return Federation()


@pytest.fixture
def there(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(federation) as (url, _), Coordinator(url, TOKEN) as coordinator:
        yield coordinator


def test_reading(there: Coordinator) -> None:
    assert there.status().num_silos_online == 1
    assert [run.run_id for run in there.runs()] == ["1-fedavg"]
    assert there.run("1-fedavg").metrics[0].metrics == {"accuracy": 0.5}
    assert there.rounds("1-fedavg")[0].left_out == {"site-b": "no update in time"}
    assert there.rounds("1-fedavg", after=0) == []
    assert there.silos()[0].loss is None, "a number that is not finite"
    assert there.silo("site-a").rounds[0].took_part
    assert [event.event_id for event in there.events(after=1)] == [2, 3]
    assert there.events(kinds=["refused"], run_id="1-fedavg") == []


def test_a_long_run_is_read_in_pieces(
    there: Coordinator, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, asked, real = federation.round_list[0], [], federation.rounds
    numbers = range(MAX_PIECE + 1)
    federation.round_list = [first.model_copy(update={"round_index": i}) for i in numbers]

    async def rounds(*given: Any) -> Any:
        asked.append(given)
        return await real(*given)

    monkeypatch.setattr(federation, "rounds", rounds)
    assert [r.round_index for r in there.rounds("1-fedavg")] == list(numbers)
    assert asked == [("1-fedavg", after, MAX_PIECE) for after in (-1, numbers[-2])]


def test_a_coordinator_that_knows_no_pieces_is_asked_for_all(
    there: Coordinator, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def rounds(run_id: str, after: int = -1, limit: int | None = None) -> Any:
        if limit is not None:
            raise ConfigError("'limit' is no parameter here. Known are after")
        return await real(run_id, after)

    real, all_rounds = federation.rounds, there.rounds("1-fedavg")
    monkeypatch.setattr(federation, "rounds", rounds)
    assert there.rounds("1-fedavg") == all_rounds
    assert there.rounds("1-fedavg", after=0) == []


def test_changing(there: Coordinator, federation: Federation) -> None:
    run = there.submit({"method": "DOMO", "name": "x"})
    assert federation.submitted[0]["name"] == "x"
    assert there.pause(run.run_id).state == "PAUSED"
    assert there.resume(run.run_id).state == "OPEN"
    assert there.stop(run.run_id).state == "STOPPED"
    assert there.drop("site-a", "on holiday").dropped == "on holiday"
    assert there.undrop("site-a").dropped is None
    assert there.rebind("site-a").silo_id == "site-a"


def test_refusals(there: Coordinator) -> None:
    for ask in (there.run, there.rounds, there.stop, there.silo, there.undrop, there.rebind):
        with pytest.raises(NotFoundError, match=r"no (run|silo) .9 x."):
            ask("9 x")
    with pytest.raises(ConfigError, match="method is missing"):
        there.submit({})
    with Coordinator(there.url) as stranger, pytest.raises(AccessError, match="the role admin"):
        stranger.stop("1-fedavg")
    with pytest.raises(CoordinatorUnavailableError, match="no coordinator answers at"):
        Coordinator("http://127.0.0.1:1").status()


def test_what_a_newer_coordinator_adds_is_left_out_and_nonsense_is_told(
    there: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = there.runs()[0]
    body: Any = [known.model_dump(mode="json") | {"of_next_year": {"a": 1}}]

    def request(*_: Any, **__: Any) -> httpx.Response:
        return httpx.Response(200, json=body, request=httpx.Request("GET", there.url))

    monkeypatch.setattr(httpx.Client, "request", request)
    assert there.runs() == [known]
    body[0]["num_rounds"] = "many"
    with pytest.raises(ProtocolError, match=r"\(0.num_rounds: .* Update domo here"):
        there.runs()


def test_the_model_comes_whole_or_not_at_all(
    there: Coordinator, federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match="has no model yet"):
        there.download_model("1-fedavg", tmp_path)
    federation.model_path = tmp_path / "made"
    federation.model_path.write_bytes(b"weights" * 1000)
    path = there.download_model("1-fedavg", tmp_path)
    assert path == tmp_path / "1-fedavg-x2.safetensors"
    assert path.read_bytes() == b"weights" * 1000
    told: list[tuple[int, int | None]] = []
    mine = there.download_model("1-fedavg", f"{tmp_path}/mine", lambda *done: told.append(done))
    assert (mine, told[-1]) == (tmp_path / "mine", (7000, 7000))
    assert not list(tmp_path.glob("*.part"))

    def full(*_: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=f"No space left on device: '{mine}'"):
        there.download_model("1-fedavg", mine, full)
    assert not list(tmp_path.glob("*.part"))


def test_waiting(
    there: Coordinator, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation.run_list[0] = federation.run_list[0].model_copy(update={"state": "OPEN"})
    with pytest.raises(DeadlineError, match=r"run 1-fedavg has not ended after 0\.05 s"):
        there.wait("1-fedavg", timeout_s=0.05)
    naps = iter((CoordinatorUnavailableError("the store is busy"), None, None))

    def nap(_seconds: float) -> None:
        federation.error = next(naps)
        if federation.error is None:
            federation._change_run("1-fedavg", "FAILED")

    clock = SimpleNamespace(sleep=nap, monotonic=time.monotonic)
    monkeypatch.setattr(rest_client, "time", clock)
    assert there.wait("1-fedavg").state == "FAILED"
    with pytest.raises(NotFoundError):
        there.wait("9-x")


def test_a_stream_goes_on_through_a_restart(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    first = Served(federation)
    port = first.start()
    second = Served(federation, port)
    away: list[str] = []

    def nap(_seconds: float) -> None:
        if len(away) == 2:
            second.start()

    clock = SimpleNamespace(sleep=nap, monotonic=time.monotonic)
    monkeypatch.setattr(rest_client, "time", clock)
    with Coordinator(f"http://127.0.0.1:{port}") as coordinator:
        stream = coordinator.stream(on_away=lambda error: away.append(str(error)))
        message = next(stream)
        assert [event.event_id for event in message.events] == [1, 2, 3]
        assert message.run is not None
        new = federation.event_list[-1].model_copy(update={"event_id": 4})
        first.stop()
        federation.event_list.append(new)
        assert next(stream).events == [new], "nothing twice, nothing missed"
        stream.close()
    second.stop()
    assert "connection refused" in away[1]
    gone = Coordinator(f"http://127.0.0.1:{port}")
    with gone, pytest.raises(CoordinatorUnavailableError):
        next(gone.stream())


def test_a_stream_that_falls_silent_is_lost(
    there: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_of_life_s = inspect.signature(StreamHub).parameters["keepalive_s"].default
    assert 2 * sign_of_life_s < rest_client.SILENCE_S < 10
    monkeypatch.setattr(rest_client, "SILENCE_S", 0.2)
    monkeypatch.setattr(rest_client, "RETRY_S", 0.0)
    away: list[str] = []
    stream = there.stream(on_away=lambda error: away.append(str(error)))
    next(stream)
    next(stream)  # of a new connection
    assert away == [
        f"no coordinator answers at {there.url}: no answer in time. Is that the address of its "
        "dashboard, as it printed it?"
    ]
    stream.close()


def test_lines_of_a_stream() -> None:
    lines = [
        *("retry: 2000", "", ": keepalive", ""),
        *("event: status", "id: 17", 'data: {"a":', "data: 1}", ""),
        *("data:bare", "id: x", "", "event: status", "data: cut off"),
    ]
    assert list(server_sent_events(lines)) == [("status", 17, '{"a":\n1}'), ("message", 0, "bare")]


class Quick(Federation):
    """Where a run has finished as soon as it is submitted."""

    async def submit(self, config: Mapping[str, Any], *by: str) -> RunSummary:
        run = await super().submit(config, *by)
        return self._change_run(run.run_id, "FINISHED")


def test_the_example_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DOCS / "rest.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    federation = Quick()
    federation.model_path = tmp_path / "made"
    federation.model_path.write_bytes(b"weights")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("DOMO_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    with serving(federation) as (url, _):
        assert "http://127.0.0.1:8080" in code
        exec(code.replace("http://127.0.0.1:8080", url), {})
    assert "FINISHED" in capsys.readouterr().out
    assert (tmp_path / "model.safetensors").read_bytes() == b"weights"


def test_a_message_of_the_stream_is_one_of_the_servers() -> None:
    from domo_server.dashboard import openapi_examples as examples

    line = next(x for x in examples.STREAM.splitlines() if x.startswith("data: "))
    assert StreamMessage.model_validate_json(line.removeprefix("data: ")).status.silos
