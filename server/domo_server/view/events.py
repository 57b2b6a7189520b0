"""The events as REST asks for them."""

import asyncio
from collections.abc import Collection, Sequence

from domo.api.schema import Event
from domo_server.events.event_log import EventLog
from domo_server.events.kinds import KINDS
from domo_server.store.store import Store
from domo_server.view.rows import event_of


async def events_of(
    store: Store,
    log: EventLog,
    after: int,
    limit: int,
    run_id: str | None,
    silo_id: str | None,
    kinds: Collection[str],
    level: str | None,
    but: Collection[str],
) -> Sequence[Event]:
    """The newest events above `after` that concern all that is given, oldest first."""
    await log.flush()
    problems = {name for name, kind in KINDS.items() if kind.level == "problem"}
    wanted = set(kinds) if kinds else None
    if level == "problem":
        wanted = problems if wanted is None else problems & wanted
    found = await asyncio.to_thread(
        store.events_after,
        after,
        limit,
        run_id,
        silo_id,
        None if wanted is None else sorted(wanted),
        sorted({*but, *(problems if level == "info" else ())}),
    )
    return [event_of(row) for row in found]
