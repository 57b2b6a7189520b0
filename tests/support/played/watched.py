"""A made-up federation with a run that is open, for those who watch it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from domo.api.schema import Event, SiloStatus
from tests.support.played.made_up import Federation
from tests.support.played.people import TOKEN
from tests.support.played.serving import Served, serving

AT = "2026-01-05T09:00:00Z"


def open_run() -> Federation:
    """Its run 1-fedavg has done one of two rounds; one of its silos has failed."""
    made = Federation()
    fields = {"state": "OPEN", "rounds_done": 1, "detail": "waiting for site-b", "remaining_s": 75}
    made.run_list[0] = made.run_list[0].model_copy(update=fields)
    made.silo_list = [
        SiloStatus(silo_id="site-a", phase="training", step=3, num_steps=12, last_seen_s=1.0),
        SiloStatus(silo_id="site-b", phase="failed", error="out of \x1b[2Jmemory"),
    ]
    made.event_list = [
        Event(event_id=1, at=AT, kind="started", text="fedavg started", run_id="1-fedavg")
    ]
    return made


@contextlib.contextmanager
def watched(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve it, with the variables that `domo watch` reads."""
    with serving(federation) as (url, server):
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("DOMO_SERVER", url)
        monkeypatch.setenv("DOMO_ADMIN_TOKEN", TOKEN)
        yield server


def end(federation: Federation, served: Served, state: Any) -> None:
    """One more event, and the run ends."""
    old = federation.event_list[-1]
    happened = {"event_id": old.event_id + 1, "kind": "round-committed", "text": "round 2 of 2"}
    federation.event_list.append(old.model_copy(update=happened))
    federation._change_run("1-fedavg", state)
    served.change()
