"""TLS handshakes that were refused: seen, counted, said with the peer's address.

grpc tells nobody. It does ask for the certificate at each handshake, and at that moment the
accepted socket is among this process's descriptors: its peer is noted there. A peer that is gone
and has made no call was refused, or has refused. What has said nothing at all was a probe: a port
scanner, or the check of a load balancer.

Under a flood it looks less often, so that it takes a twentieth of one core at most; what it has not
seen by then is counted without an address.
"""

import asyncio
import ipaddress
import os
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from domo_server.events import kinds
from domo_server.events.counters import Counters
from domo_server.events.repeated import Repeated

LOOK_S = 0.25
"""How often it is looked whether a peer that has made no call is still there."""
SHARE, SAVED_S = 0.05, 0.25
"""Of the time of one core that looks at all descriptors may take; what of it can be saved up."""
IDLE_S = 10.0
"""A connection that has made no call for so long is not waited for any more: nobody refused it."""
HELLO_S = 0.005
"""How long a first byte is waited for: who speaks TLS has sent it with the connection."""
MOST_WAITING = 256
"""Peers that are waited for; further ones are counted without an address."""
MOST_HEARD = 4096
"""Connections that have made a call and are remembered, the oldest are forgotten first."""
PROBED_S = 3600.0
"""How often it is said at most that an address connects and says nothing."""
MOST_PROBES = 64
"""Such addresses that are remembered."""
RECEIVED = struct.Struct("=Q")
"""`tcpi_bytes_received`, and where it is in Linux's `tcp_info`; the end of a connection is one."""
RECEIVED_AT = 128


@dataclass(slots=True)
class Waiting:
    """A connection of which no call has come.

    Attributes:
        address: Of its peer.
        number: Its descriptor.
        name: What the system calls it: the number may be another's soon.
        since: When it was seen.
        spoke: Whether its peer has sent anything.
    """

    address: str
    number: int
    name: str
    since: float
    spoke: bool


class Handshakes:
    """Who was refused before a call. Made and `watch`ed in the event loop.

    Args:
        port: Of the silos.
        counters: Count them.
        repeated: Says them.
    """

    def __init__(self, port: int, counters: Counters, repeated: Repeated):
        self._port, self._counters, self._repeated = port, counters, repeated
        self._loop, self._lock = asyncio.get_running_loop(), threading.Lock()
        self._begun = self._seen = 0
        self._budget_s, self._looked = SAVED_S, time.monotonic()
        self._known: set[str] = set()
        self._waiting: dict[str, Waiting] = {}
        self._heard: dict[str, float] = {}
        self._probed: dict[str, float] = {}
        self._wake = asyncio.Event()

    def begun(self) -> None:
        """A handshake begins; called by grpc, on a thread of its own."""
        self._begun += 1
        if self._lock.acquire(blocking=False):
            try:
                if self._may_look():
                    self._look(HELLO_S)
            finally:
                self._lock.release()
        if not self._wake.is_set():
            with suppress(RuntimeError):  # the loop is closed: the coordinator ends
                self._loop.call_soon_threadsafe(self._wake.set)

    def heard(self, peer: str) -> None:
        """A call has come from a peer, as grpc names it; in the event loop."""
        if len(self._heard) >= MOST_HEARD and peer not in self._heard:
            del self._heard[next(iter(self._heard))]
        self._heard[peer] = time.monotonic()

    def _has_called(self, peer: str, one: Waiting) -> bool:
        """Whether a call has come; one just before it was seen counts, an old one does not.

        The old one was of another connection from the same port.
        """
        return self._heard.get(peer, 0.0) > one.since - 2 * LOOK_S

    def _may_look(self) -> bool:
        now = time.monotonic()
        self._budget_s = min(self._budget_s + SHARE * (now - self._looked), SAVED_S)
        self._looked = now
        return self._budget_s > 0

    def _look(self, hello_s: float) -> None:
        """Find the connections that are new. With the lock."""
        began = time.monotonic()
        now, fresh = set(), []
        for number in _descriptors():
            name = _name(number)
            if name.startswith("socket:"):
                now.add(name)
                if name not in self._known:
                    fresh.append((int(number), name))
        self._known = now
        found = [one for number, name in fresh if (one := self._inspect(number, name, began))]
        found = found[: MOST_WAITING - len(self._waiting)]
        self._seen += len(found)
        quiet = [one for _, one in found if not one.spoke]
        if quiet and hello_s:
            _await_hello(quiet, hello_s)
        self._waiting.update(found)
        self._budget_s -= time.monotonic() - began

    def _inspect(self, number: int, name: str, now: float) -> tuple[str, Waiting] | None:
        """What is at the other end of a socket, if it is one of the silos' port."""
        try:
            sock = socket.socket(fileno=number)
        except OSError:
            return None
        try:
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            if sock.getsockname()[1] != self._port:
                return None
            host, port = sock.getpeername()[:2]
            spoke = _received(sock) > 1
        except OSError:
            return None  # it listens, or is gone
        finally:
            sock.detach()  # it is grpc's
        address = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or address
        text = f"[{mapped}]" if mapped.version == 6 else str(mapped)
        quoted = text.replace("[", "%5B").replace("]", "%5D")
        return f"ipv{mapped.version}:{quoted}:{port}", Waiting(
            str(mapped), number, name, now, spoke
        )

    async def watch(self) -> None:
        """Say who was refused, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(LOOK_S)
            self._wake.clear()
            if self.settle():
                self._wake.set()

    def settle(self) -> bool:
        """Say who was refused by now; returns whether there is anybody left to wait for."""
        with self._lock:
            if self._begun > self._seen and self._may_look():
                self._look(0.0)
                missed = max(self._begun - self._seen, 0)
                self._seen = self._begun
            else:
                missed = 0
            over = [(peer, one) for peer, one in self._waiting.items() if self._is_over(peer, one)]
            for peer, _ in over:
                del self._waiting[peer]
            left = bool(self._waiting) or self._begun > self._seen
        if missed:
            self._counters.handshakes("unknown", missed)
            text = f"{missed} connections came too fast to be looked at one by one: a flood?"
            self._repeated.say(kinds.REFUSED_HANDSHAKE, "", text)
        now = time.monotonic()
        for peer, one in over:
            if not self._has_called(peer, one) and now - one.since < IDLE_S:
                self._tell(one, now)
        return left

    def _is_over(self, peer: str, one: Waiting) -> bool:
        if self._has_called(peer, one) or time.monotonic() - one.since >= IDLE_S:
            return True
        return _name(one.number) != one.name

    def _tell(self, one: Waiting, now: float) -> None:
        if one.spoke:
            self._counters.handshakes("refused")
            text = (
                f"a TLS handshake with {one.address} was refused: its certificate is of another "
                "CA or expired, it has none, it speaks no TLS, or it does not trust this "
                "coordinator's certificate; domo-client doctor says there which"
            )
            self._repeated.say(kinds.REFUSED_HANDSHAKE, one.address, text)
            return
        self._counters.handshakes("silent")
        if now - self._probed.get(one.address, -PROBED_S) < PROBED_S:
            return
        if len(self._probed) >= MOST_PROBES:
            del self._probed[next(iter(self._probed))]
        self._probed.pop(one.address, None)
        self._probed[one.address] = now
        text = f"{one.address} connects, says nothing that TLS begins with, and hangs up: a probe?"
        self._repeated.say(kinds.REFUSED_HANDSHAKE, f"silent {one.address}", text)


def _descriptors() -> list[str]:
    """This process's descriptors; none where there is no such folder, or no descriptor left."""
    try:
        return os.listdir("/proc/self/fd")  # noqa: PTH208 - of thousands, in a handshake
    except OSError:
        return []


def _name(number: int | str) -> str:
    """What the system calls what a descriptor stands for; empty: nothing."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 - likewise
    except OSError:
        return ""


def _received(sock: socket.socket) -> int:
    """How many bytes have come over a connection."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED_AT + RECEIVED.size)
    received: int = RECEIVED.unpack_from(info, RECEIVED_AT)[0]
    return received


def _await_hello(quiet: list[Waiting], at_most_s: float) -> None:
    """Wait for the first bytes of connections that have just come."""
    poll, by_number = select.poll(), {one.number: one for one in quiet}
    for number in by_number:
        poll.register(number, select.POLLIN)
    end = time.monotonic() + at_most_s
    while by_number and (left := end - time.monotonic()) > 0:
        left_ms = 1000 * left
        for number, _ in poll.poll(left_ms):
            poll.unregister(number)
            one = by_number.pop(number)
            try:
                sock = socket.socket(fileno=number)
            except OSError:
                continue
            try:
                one.spoke = _name(number) == one.name and _received(sock) > 1
            except OSError:  # it is gone
                continue
            finally:
                sock.detach()
