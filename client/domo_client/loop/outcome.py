"""How a run ends at a silo."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """How a run ended.

    Attributes:
        run_id: The run.
        state: FINISHED, FAILED or STOPPED.
        text: Why.
        num_rounds: Rounds that were committed.
    """

    run_id: str
    state: str
    text: str
    num_rounds: int
