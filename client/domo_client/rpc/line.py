"""A channel to the coordinator, with the calls that are under way on it; another one later."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import grpc

from domo.errors import CoordinatorUnavailableError
from domo_client.identity.look import Look
from domo_proto.certificates import CertificateError
from domo_proto.channel import TlsFiles, federation_stub, make_channel

READY_S = 10.0
"""How long a new connection may take before this silo stays with the one that it has."""
DATA = "/domo_proto.v1.FederationData/"


class Line:
    """A channel; each call is a `with line.begin()`. Once retired, it ends with its last call.

    Args:
        address: host:port.
        tls: PEM files, read now; None: no TLS.

    Attributes:
        stub: The control rpcs.
        fetch: The rpc FetchRound.
        submit: The rpc SubmitUpdate.
    """

    def __init__(self, address: str, tls: TlsFiles | None):
        self.channel = make_channel(address, tls)
        self.stub: Any = federation_stub(self.channel)
        self.fetch: Any = self.channel.unary_stream(DATA + "FetchRound")
        self.submit: Any = self.channel.stream_unary(DATA + "SubmitUpdate")
        self._calls, self._retired, self._lock = 0, False, threading.Lock()

    def is_ready(self, within_s: float) -> bool:
        """Whether the coordinator takes the connection, and this end its."""
        try:
            grpc.channel_ready_future(self.channel).result(timeout=within_s)
        except grpc.FutureTimeoutError:
            return False
        return True

    def begin(self) -> Self:
        """A call begins, and ends with the `with` block."""
        with self._lock:
            self._calls += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._calls -= 1
            over = self._retired and not self._calls
        if over:
            self.channel.close()

    def retire(self) -> None:
        """No call will be made on it: hang up once those that are under way have ended."""
        with self._lock:
            self._retired = True
            over = not self._calls
        if over:
            self.channel.close()

    def close(self) -> None:
        """Hang up; calls that are under way fail."""
        self.channel.close()


class Lines:
    """The channel of now, and those before it whose calls have not ended.

    Args:
        address: host:port.
        tls: PEM files, read again by `move`; None: no TLS.
        name: This silo's.

    Attributes:
        look: Finds out what is wrong with TLS.
        on_moved: Told when calls go over a new channel.
    """

    def __init__(self, address: str, tls: TlsFiles | None, name: str):
        self._address, self._tls = address, tls
        self.look = Look(address, tls, name)
        self.on_moved: Callable[[], None] = lambda: None
        self._now, self._retired = Line(address, tls), list[Line]()
        self._switching = threading.Lock()

    def now(self) -> Line:
        """The channel of now, for one call, which is the `with` block."""
        with self._switching:
            return self._now.begin()

    def move(self) -> None:
        """Let all new calls go over a new channel, with the files of now; those under way end.

        Raises:
            ConfigError: The files cannot be read.
            CertificateError, CoordinatorUnavailableError: Nobody takes the new connection: all
                stays as it is.
        """
        line = Line(self._address, self._tls)
        if not line.is_ready(READY_S):
            line.close()
            if why := self.look.why(anew=True):
                raise CertificateError(why)
            raise CoordinatorUnavailableError(f"no coordinator answers at {self._address}")
        with self._switching:
            old, self._now = self._now, line
            self._retired = [*self._retired[-1:], old]
        self.on_moved()
        old.retire()

    def close(self) -> None:
        """Hang up; calls that are under way fail."""
        with self._switching:
            lines = (*self._retired, self._now)
        for line in lines:
            line.close()
