"""A channel to the coordinator, with the calls that are under way on it."""

import threading
from types import TracebackType
from typing import Any, Self

import grpc

from domo_proto.channel import TlsFiles, federation_stub, make_channel

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
