"""Whether a run gets on, as the dashboard sees it."""

from typing import Any

from domo.api.held_up import HeldUp
from domo_server.monitor.monitor import Stalled
from domo_server.monitor.stall import grouped


def stall_fields(stall: Stalled | None, now: float) -> dict[str, Any]:
    """The fields of `RunSummary` that say so."""
    if stall is None:
        return {}
    return {
        "stalled": stall.why.text,
        "stalled_s": round(now - stall.since, 1),
        "held_up_by": [
            HeldUp(silo_ids=ids, why=held.why, help=held.help, last=held.last)
            for held, ids in grouped(stall.why.silos)
        ],
    }
