"""`domo events`: what happened, a line for each."""

import json
import time
from collections.abc import Mapping
from typing import Any

from domo.api.client import Coordinator
from domo.api.schema import MAX_EVENTS, Event
from domo.errors import CoordinatorUnavailableError
from domo.ops.console import complain, console, say
from domo.remote.tables import local_time
from domo.remote.which import find_run

FOLLOW_S = 1.0
"""How often `domo events --follow` asks."""


def show_events(
    coordinator: Coordinator, wanted: Mapping[str, Any], limit: int, follow: bool, as_json: bool
) -> None:
    """Print what happened, oldest first.

    Args:
        coordinator: Whose; it is hung up.
        wanted: `run_id`, `silo_id` and `kinds`; only these.
        limit: How many of those that have happened.
        follow: Go on with new ones; a coordinator that is away is waited for.
        as_json: One object on each line.
    """
    seen, away = 0, False
    with coordinator:
        if wanted.get("run_id"):
            wanted = {**wanted, "run_id": find_run(coordinator, wanted["run_id"])}
        page = coordinator.events(limit=limit, **wanted)
        while True:
            for event in page:
                seen = event.event_id
                show_event(event, as_json)
            console.file.flush()
            if not follow:
                break
            time.sleep(FOLLOW_S)
            try:
                page = coordinator.events(after=seen, limit=MAX_EVENTS, **wanted)
                away = False
            except CoordinatorUnavailableError as error:
                if not away:
                    complain(f"{error}; waiting for it")
                page, away = [], True


def show_event(event: Event, as_json: bool = False) -> None:
    """Print one event as a line."""
    if as_json:
        say(json.dumps(event.model_dump(mode="json")))
        return
    about = "/".join(name for name in (event.run_id, event.silo_id) if name)
    where = f"[{about}] " if about else ""
    line = f"{local_time(event.at)} {event.kind:<16} {where}{event.text}"
    say(line.replace("\n", " "), style=event.colour)
