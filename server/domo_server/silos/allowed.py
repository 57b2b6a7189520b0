"""How many calls peers may make: honest ones never meet it, and a flood costs next to nothing."""

import asyncio

from domo_proto.errors import TooManyCallsError
from domo_server.silos.rates import Bucket, Rates

MOST_CALLS, CALLS_PER_S, CALLS_PER_ROUND = 200, 50.0, 20
"""Calls of one silo: at once, a second on average, and for each round that was opened since."""
MOST_REPORTS, REPORTS_PER_BEAT = 20, 8.0
"""Heartbeats among them: at once, and on average so many times those that it was asked for."""
MOST_JOINS, JOINS_PER_S = 60, 1.0
"""Times that one silo joins: at once, and a second on average."""
MOST_ERRORS, ERRORS_PER_S = 100, 10.0
"""Calls of one address that end with an error: at once, and a second on average."""
HELD_BACK_S = 5.0
"""After how long a call too many is answered."""
MOST_HELD_BACK = 4000
"""Such calls at a time, as each takes memory; further ones are answered at once."""


class Allowed:
    """How many calls one silo may make: of any kind, and heartbeats.

    Args:
        interval_s: Of its heartbeats.
    """

    def __init__(self, interval_s: float = 1.0):
        self._calls = Bucket(MOST_CALLS, CALLS_PER_S)
        self._reports = Bucket(MOST_REPORTS, REPORTS_PER_BEAT / interval_s)
        self._joins = Bucket(MOST_JOINS, JOINS_PER_S)
        self._rounds = 0

    def call(self, rounds: int) -> bool:
        """Whether it may make one more; `rounds`: how many this coordinator has opened so far."""
        opened, self._rounds = rounds - self._rounds, rounds
        return self._calls.take(CALLS_PER_ROUND * opened)

    def join(self) -> bool:
        """Whether it may join once more."""
        return self._joins.take()

    def report(self) -> bool:
        """Whether it may send one more heartbeat."""
        return self._reports.take()


class HeldBack:
    """Calls that end with an error: where these come too often, they end late.

    So whoever makes them waits with all others that it makes on its connection. It is known by its
    address only: nobody vouches for it. Used from the event loop only.
    """

    def __init__(self) -> None:
        self._rates = Rates(MOST_ERRORS, ERRORS_PER_S)
        self._held = 0

    async def errs(self, error: Exception, peer: str) -> None:
        """A call of a peer (`ipv4:10.0.0.7:41234`) has ended with an error: let it wait, or not."""
        late = isinstance(error, TooManyCallsError) or not self._rates.take(peer.rpartition(":")[0])
        if not late or self._held >= MOST_HELD_BACK:
            return
        self._held += 1
        try:
            await asyncio.sleep(HELD_BACK_S)
        finally:
            self._held -= 1
