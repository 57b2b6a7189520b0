"""How often somebody may show wrong credentials."""

import time
from collections import OrderedDict, deque
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

    def wait_s(self, address: str) -> float:
        """How long this address has to wait before it may try again; 0: not at all."""
        now = self._clock()
        of_all = len(self._all) == MAX_WRONG_OF_ALL and now - self._all[0] < PER_S
        wrong = self._wrong.get(source_of(address), ())
        recent = [at for at in wrong if now - at < PER_S]
        allowed = 1 if of_all else MAX_WRONG
        return 0.0 if len(recent) < allowed else recent[-allowed] + PER_S - now

    def wrong(self, address: str) -> None:
        """This address has shown something wrong."""
        now, source = self._clock(), source_of(address)
        self._wrong.setdefault(source, deque(maxlen=MAX_WRONG)).append(now)
        self._wrong.move_to_end(source)
        if len(self._wrong) > MAX_ADDRESSES:
            self._wrong.popitem(last=False)
        self._all.append(now)
