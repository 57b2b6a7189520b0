"""How often somebody may show wrong credentials."""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

MAX_WRONG = 10
"""Wrong tokens, codes and log-ins that one address may show in `PER_S`."""
PER_S = 60.0
MAX_WRONG_OF_ALL = 1000
"""Of all addresses in `PER_S`. Beyond it each address has one try: right ones still get in."""
MAX_ADDRESSES = 10_000
"""Addresses that are remembered; the one that was wrong the longest ago is forgotten first."""
V6_PREFIX = 64
"""Bits of an IPv6 address that are one subscriber's; the rest anybody there chooses."""


def source_of(address: str) -> str:
    """What counts as one address: of IPv6 a whole network."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found, V6_PREFIX), strict=False))
    return str(found)


class Tries:
    """Counts what was wrong, by address, over the last minute.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=MAX_WRONG_OF_ALL)
        self._under_way: Counter[str] = Counter()

    def begin(self, address: str) -> bool:
        """Whether one more of this address may be looked at now; then `end` says that it was.

        Those that are being looked at count as wrong until then, as many may come at once.
        """
        source = source_of(address)
        recent, allowed = self._recent(source)
        if len(recent) + self._under_way[source] >= allowed:
            return False
        self._under_way[source] += 1
        return True

    def end(self, address: str) -> None:
        """It was looked at, and `wrong` has been told if it was."""
        self._under_way -= Counter((source_of(address),))  # forgets who has none

    def wait_s(self, address: str) -> float:
        """How long this address has to wait before it may try again; 0: not at all."""
        recent, allowed = self._recent(source_of(address))
        return 0.0 if len(recent) < allowed else recent[-allowed] + PER_S - self._clock()

    def _recent(self, source: str) -> tuple[list[float], int]:
        """When it was wrong in the last minute, and how often it may be."""
        now = self._clock()
        of_all = len(self._all) == MAX_WRONG_OF_ALL and now - self._all[0] < PER_S
        recent = [at for at in self._wrong.get(source, ()) if now - at < PER_S]
        return recent, 1 if of_all else MAX_WRONG

    def wrong(self, address: str) -> None:
        """This address has shown something wrong."""
        now, source = self._clock(), source_of(address)
        self._wrong.setdefault(source, deque(maxlen=MAX_WRONG)).append(now)
        self._wrong.move_to_end(source)
        if len(self._wrong) > MAX_ADDRESSES:
            self._wrong.popitem(last=False)
        self._all.append(now)
