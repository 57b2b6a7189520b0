"""What is known of one silo, and events by run, silo and kind: from the read model, in passing."""

from collections.abc import Collection, Sequence

from domo.api.schema import Event, SiloDetail, SiloStatus
from domo_server.dashboard.advice import advice_on
from domo_server.view.interfaces import ReadModel

NUM_SILO_ROUNDS = 300
"""How many of the last rounds of a run its detail has a silo's part in, and the one that closes."""
NUM_SILO_EVENTS = 50
"""How many of a silo's last events its detail has."""
SCANNED = 10_000
"""How many of the last events are looked through for those of a run, a silo or a kind."""


async def pick_events(
    read: ReadModel,
    after: int = 0,
    limit: int = 200,
    run_id: str | None = None,
    silo_id: str | None = None,
    kinds: Collection[str] = (),
) -> Sequence[Event]:
    """The newest `limit` events above `after` that concern all that is given, oldest first."""
    if run_id is None and silo_id is None and not kinds:
        return await read.events(after=after, limit=limit)
    found = [
        event
        for event in await read.events(after=after, limit=SCANNED)
        if (run_id is None or event.run_id == run_id)
        and (silo_id is None or event.silo_id == silo_id)
        and (not kinds or event.kind in kinds)
    ]
    return found[-limit:]


async def silo_detail(read: ReadModel, silo: SiloStatus) -> SiloDetail:
    """The silo with its part in the rounds of the current (or newest) run, and its last events."""
    run = (await read.status()).current_run or next(iter(await read.runs()), None)
    first = 0 if run is None else run.rounds_done - NUM_SILO_ROUNDS
    return SiloDetail(
        **silo.model_dump(),
        rounds_run_id=None if run is None else run.run_id,
        rounds=[] if run is None else await read.silo_rounds(run.run_id, silo.silo_id, first - 1),
        events=await pick_events(read, limit=NUM_SILO_EVENTS, silo_id=silo.silo_id),
        advice=advice_on(silo.error),
    )
