"""What the data of a run mean, for people."""

import asyncio
from collections.abc import Sequence

from domo.meaning.compare import described
from domo_server.rounds.agreement import agreed
from domo_server.runs.run import Run
from domo_server.store.rows import RunRow
from domo_server.store.store import Store


async def meaning_of(row: RunRow, live: Run | None, store: Store) -> Sequence[str]:
    """A line for each thing that is said: by the run, or by the silos that enrolled first."""
    if live is not None and live.ready:
        return described(live.roster.agreement.wanted_of())
    enrolled = await asyncio.to_thread(store.enrolled, row.run_id)
    first = [s for s in row.roster or () if s in enrolled]  # before those that it began without
    ordered = {s: enrolled[s] for s in [*first, *(s for s in enrolled if s not in first)]}
    return described(agreed(row.run_config(), ordered, {}))
