"""Reports of a silo: one at a time, in the order of what they say."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from domo_client.loop import heartbeat


def test_what_is_older_does_not_arrive_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[str] = []
    begun, goes_on = threading.Event(), threading.Event()

    def measure(*_: Any) -> None:
        if threading.current_thread().name == "first":
            begun.set()
            assert goes_on.wait(30)

    def report(*, not_ready: Any, **_: Any) -> str:
        arrived.append(not_ready.reason)
        return "CONTINUE"

    monkeypatch.setattr(heartbeat, "measure", measure)
    connection: Any = SimpleNamespace(control=SimpleNamespace(report=report))
    watch: Any = SimpleNamespace(now=lambda: None)
    reporter = heartbeat.Reporter(connection, tmp_path / "status.json", watch)
    beats = []
    for name in ("first", "second"):
        reporter.not_ready = heartbeat.NotReady("1-r", name, "", 2.0)
        beats.append(threading.Thread(target=reporter.beat, name=name))
        beats[-1].start()
        assert begun.wait(30)
    beats[1].join(0.3)
    goes_on.set()
    for beat in beats:
        beat.join(30)
    assert arrived == ["first", "second"]
