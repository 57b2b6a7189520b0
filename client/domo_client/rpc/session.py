"""What every call to the coordinator needs: a channel, a session, retries."""

import logging
import random
import socket
import threading
import time
from collections.abc import Callable
from traceback import clear_frames
from typing import Any, TypeVar

import grpc
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    stop_never,
)

import domo
from domo.errors import (
    CoordinatorUnavailableError,
    DomoError,
    SiloConflictError,
    VersionError,
)
from domo.ops.words import duration
from domo.outside.text import NO_TEXT, Public
from domo_client.rpc.line import Lines
from domo_client.telemetry.counts import Counts
from domo_client.telemetry.describe import describe, sendable
from domo_proto import PRESENCE, PROTOCOL_VERSION
from domo_proto.certificates import CertificateError
from domo_proto.channel import TlsFiles
from domo_proto.codec import CAPABILITY, FRAME_BYTES
from domo_proto.errors import SessionError, from_rpc
from domo_proto.heard import empty
from domo_proto.tables import TABLES
from domo_proto.v1 import federation_pb2 as pb

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_CONNECT_S = 60.0
"""How long a coordinator is tried that this silo has never joined."""
LEAVE_S = 2.0
"""How long a goodbye waits for an answer."""
CALL_S = 30.0
"""Deadline of a control call, beyond what the coordinator may hold it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S, JITTER_S = 0.2, 15.0, 1.0
"""Between attempts."""
EXPIRED = "certificate-expired"
"""Code of what a coordinator says of an old certificate: a new one may come into its file."""
MOST_INTERVAL_S, MOST_HOLD_S = 3600.0, 300.0
"""A coordinator that wants to hear less often, or to hold a call for longer, is not believed."""
LEAST_INTERVAL_S = 0.1  # more often this silo does not report


class Session:
    """A session that is opened again whenever it is lost, over a channel that may be another later.

    Args:
        address: host:port.
        silo_id: The silo's name.
        instance_id: That of its state folder.
        tls: PEM files, read again by `move`; None: no TLS.
        role: `trainer` or `evaluator`.
        device: What it trains on, in words.
        first_connect_s: How long to try before the first success; None: for as long as it takes.
        on_trouble: Told in words when a call failed and will be retried.
        compression: `none`, or `zstd` for links below about 1 Gbit/s.

    Attributes:
        role: `trainer` or `evaluator`.
        token: Names the session in every call.
        zstd: Whether vectors travel compressed.
        tables: Whether the coordinator adds tables of metrics.
        report_interval_s: How often the coordinator wants to hear of this silo.
        long_poll_s: How long it may hold a call.
        closed: Whether this silo has left.
        refused: Why this silo was not let in again, as another one has its name; empty: it may.
        counts: What was done over it.
        advanced: Grows when a transfer has got further than ever: pauses begin anew.
        lines: The channel: `with session.lines.now() as line` is for one call.
        on_close: Called once this silo leaves.
    """

    def __init__(
        self,
        address: str,
        silo_id: str,
        instance_id: str,
        *,
        tls: TlsFiles | None = None,
        role: str = "trainer",
        device: str = "",
        first_connect_s: float | None = FIRST_CONNECT_S,
        on_trouble: Callable[[str], None] = lambda text: None,
        compression: str = "none",
    ):
        self.address, self.silo_id, self._instance_id = address, silo_id, instance_id
        self.role, self._device, self._on_trouble = role, device, on_trouble
        self._first_connect_s = first_connect_s
        self._wants_zstd, self.zstd = compression == "zstd", False
        self.tables = False
        self.lines = Lines(address, tls, silo_id)
        self.on_close: Callable[[], None] = lambda: None
        self.token = ""
        self._lock = threading.Lock()
        self.closed = False
        self.refused = ""
        self.report_interval_s = 2.0
        self.long_poll_s = 20.0
        self.counts = Counts()
        self.advanced = 0

    def join(self) -> None:
        """Open a session.

        Raises:
            CoordinatorUnavailableError: Nobody answered in `first_connect_s`.
            CertificateError: TLS fails, and not for a while only.
            SiloConflictError, VersionError, AccessError: As the text says.
        """
        with self._lock:
            longest = self._first_connect_s
            stop = stop_never if longest is None else stop_after_delay(longest)
            self._retry(self._first_join, stop, longest)

    def _first_join(self) -> None:
        try:
            self._join()
        except CoordinatorUnavailableError as error:
            if error.elsewhere and (why := self.lines.look.why()):
                raise CertificateError(why) from None
            raise

    def _join(self) -> None:
        answer = self.call(
            "Join",
            pb.JoinRequest(
                protocol_version=PROTOCOL_VERSION,
                software_version=domo.__version__,
                capabilities=["resume-upload", "resume-download", CAPABILITY, PRESENCE],
                silo_id=self.silo_id,
                instance_id=self._instance_id,
                role=pb.EVALUATOR if self.role == "evaluator" else pb.TRAINER,
                device=self._device,
                host=socket.gethostname(),
                session_before=self.token,
            ),
        )
        if answer.max_frame_bytes < FRAME_BYTES:
            raise VersionError(f"the coordinator takes frames of {answer.max_frame_bytes} bytes")
        self.tables = TABLES in answer.capabilities
        self.zstd = self._wants_zstd and CAPABILITY in answer.capabilities
        if self._wants_zstd and not self.zstd:
            log.warning("the coordinator knows no zstd; vectors travel as they are")
        self.token = answer.session
        self.counts.joins += 1
        self.report_after(answer.report_interval_s)
        if 0 < answer.long_poll_s <= MOST_HOLD_S:
            self.long_poll_s = answer.long_poll_s

    def report_after(self, interval_s: float) -> None:
        """The coordinator says how often to report; what is no such interval changes nothing."""
        if 0 < interval_s <= MOST_INTERVAL_S:
            self.report_interval_s = max(interval_s, LEAST_INTERVAL_S)

    def _rejoin(self, stale: str) -> None:
        """Open a new session, unless another thread has done so since."""
        with self._lock:
            if self.refused:
                raise SiloConflictError(self.refused)
            if self.token == stale and not self.closed:
                try:
                    self._join()
                except SiloConflictError as error:
                    self.refused = str(error)
                    raise

    def call(self, name: str, request: Any, hold_s: float = 0.0) -> Any:
        """One call of a control rpc, once; `hold_s` is how long the coordinator may hold it."""
        try:
            with self.lines.now() as line:
                method = getattr(line.stub, name)
                answer = method(request, timeout=CALL_S + hold_s, wait_for_ready=False)
            if answer is None:
                raise CoordinatorUnavailableError(empty(self.address))
            return answer
        except grpc.RpcError as error:
            raise from_rpc(error, self.address) from None
        except ValueError as error:
            if not self.closed:
                raise
            raise CoordinatorUnavailableError("this silo has left") from error

    def _retry(
        self, call: Callable[[], T], stop: Any = stop_never, longest_s: float | None = None
    ) -> T:
        began: float | None = None  # of the trouble: what failed may have waited long before

        def trouble(state: RetryCallState) -> None:
            nonlocal began
            began = began or time.monotonic()
            self.counts.retries += 1
            error = state.outcome.exception() if state.outcome else None
            self.counts.network = "" if error is None else describe(error)
            unmarked = isinstance(error, CoordinatorUnavailableError) and error.elsewhere
            text = (self.lines.look.why() if unmarked else "") or str(error)
            wait = state.next_action.sleep if state.next_action else 0.0
            for_s = time.monotonic() - began
            so_far = f", for {duration(for_s)} now" if for_s >= 1 else ""
            until = "" if longest_s is None else f", given up after {duration(longest_s)}"
            self._on_trouble(f"{text}; trying again in {wait:.0f} s{so_far}{until}")

        retrying = Retrying(
            retry=retry_if_exception(self._may_retry),
            wait=self._pause(),
            stop=stop,
            before_sleep=trouble,
            reraise=True,
        )
        try:
            return retrying(call)
        except Exception as error:
            clear_frames(error.__traceback__)  # tenacity's hold the error, which holds them
            raise

    def certify(self, request_pem: bytes) -> tuple[bytes, bytes]:
        """Ask for a certificate, with the present one; returns it and its CA (PEM)."""
        answer = self.call("Certify", pb.CertifyRequest(request_pem=request_pem))
        return answer.certificate_pem, answer.ca_pem

    def _pause(self) -> Callable[[RetryCallState], float]:
        """The pause before an attempt: longer each time, unless a transfer got further since."""
        seen, failures = self.advanced, 0

        def pause(state: RetryCallState) -> float:
            nonlocal seen, failures
            failures = failures + 1 if seen == self.advanced else 1
            seen = self.advanced
            longer = FIRST_PAUSE_S * 2.0 ** min(failures - 1, 10)
            return min(longer, LONGEST_PAUSE_S) + random.uniform(0.0, JITTER_S)

        return pause

    def _may_retry(self, error: BaseException) -> bool:
        if not isinstance(error, DomoError) or self.closed:
            return False
        return error.retryable or (bool(self.token) and error.code == EXPIRED)

    def ask(self, call: Callable[[str], T]) -> T:
        """Make a call that names the session, as often as it takes."""
        return self._retry(lambda: self.once(call))

    def once(self, call: Callable[[str], T]) -> T:
        """Make such a call; where the session is over, in a new one."""
        token = self.token
        try:
            return call(token)
        except SessionError:
            self._rejoin(token)
            return call(self.token)

    def close(self, reason: Public = NO_TEXT) -> None:
        """Say goodbye, if anybody listens, and hang up; a second time it is nothing."""
        if self.closed:
            return
        self.closed = True
        self.on_close()
        try:
            if self.token:
                request = pb.LeaveRequest(session=self.token, reason=sendable(reason))
                with self.lines.now() as line:
                    line.stub.Leave(request, timeout=LEAVE_S)
        except grpc.RpcError:
            log.debug("nobody heard the goodbye")
        finally:  # also where its operator does not wait for the goodbye
            self.lines.close()
