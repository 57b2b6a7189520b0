"""The page's connections: how many, how long a request may take to come, an answer to be read.

Where there are too many, the one that has waited longest for its request gives way, so somebody who
asks at once gets in while others hold on to theirs and ask nothing. That is seen to where a
connection is accepted, so that it holds for TLS too, before anything is known of it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 20.0
"""From its first byte, or a new connection, to the end of a request."""
MOST_NEW, NEW_PER_S = 500, 100.0
"""New connections of one address (a proxy is one): at once, and a second on average."""
READ_S = 60.0
"""Nothing of an answer was taken for so long, though more is there to be sent."""


class Listener(socket.socket):
    """A listening socket that holds so many of the connections that it has accepted.

    Args:
        sock: Bound and listening; this one takes its place.
        most: Connections at a time.
        may_come: Whether one more of an address is not one too many.
    """

    def __init__(
        self, sock: socket.socket, most: int, may_come: Callable[[str], bool] = lambda address: True
    ):
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._most, self._may_come = most, may_come
        self._open: dict[int, socket.socket] = {}
        self._answering: set[int] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        """Take the next connection, in another's place where there are enough.

        Raises:
            ConnectionAbortedError: All have requests that are being answered, or its address has
                begun too many.
        """
        taken, address = super().accept()
        if not self._may_come(address[0]):
            taken.close()
            raise ConnectionAbortedError("too many new connections of one address")
        if len(self._open) >= self._most:
            self._tidy()
        if len(self._open) >= self._most and not self._give_way():
            taken.close()
            raise ConnectionAbortedError("too many connections")
        self._open.pop(taken.fileno(), None)  # a number may come again: the newest is last
        self._open[taken.fileno()] = taken
        self._answering.discard(taken.fileno())
        return taken, address

    def _tidy(self) -> None:
        self._open = {fd: one for fd, one in self._open.items() if one.fileno() == fd}
        self._answering &= self._open.keys()

    def _give_way(self) -> bool:
        """End the connection that has waited longest; False: none waits."""
        for fd, one in self._open.items():
            if fd not in self._answering:
                del self._open[fd]
                with contextlib.suppress(OSError):  # the other end was quicker
                    one.shutdown(socket.SHUT_RDWR)  # its transport sees the end of it, and closes
                return True
        return False

    def answers(self, fd: int, answering: bool) -> None:
        """Whether a connection has its request: then it does not give way."""
        if answering:
            self._answering.add(fd)
        elif fd in self._answering:
            self._answering.discard(fd)
            if (one := self._open.pop(fd, None)) is not None:
                self._open[fd] = one  # it waits since now


class Bounded(H11Protocol):
    """HTTP/1.1 whose requests come to their end, and whose answers are taken.

    Args:
        listener: Told which connections wait; None: nobody counts them.
    """

    def __init__(self, *args: Any, listener: Listener | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._listener, self._fd = listener, -1
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._fd = transport.get_extra_info("socket").fileno()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """No timer from now on."""
        super().connection_lost(exc)
        _stop(self._late)
        _stop(self._stuck)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or its end."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """It may ask again: uvicorn waits for the first byte of that, this for the last."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """What was sent lies here until the other end takes it."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        _stop(self._stuck)
        self._stuck = None

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.cycle.more_body:
            _stop(self._late)
            self._late = None
        elif self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self.transport.abort)
        if self._listener is not None:
            self._listener.answers(self._fd, answering and not self.cycle.more_body)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def protocol(listener: Listener | None) -> Any:
    """The class of protocols that uvicorn is to make."""
    return partial(Bounded, listener=listener)
