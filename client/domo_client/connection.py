"""Typed calls to the coordinator: sessions, retries, vectors to frames and back.

Every call either returns, or raises a `DomoError`. Network faults are retried with jittered
back-off for as long as it takes once the silo has been connected; a session that the coordinator
no longer knows (it was restarted) is opened again without anybody noticing.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
import torch
import xxhash
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    stop_never,
    wait_exponential,
    wait_random,
)
from torch import Tensor

import domo
from domo.errors import (
    ChecksumError,
    CoordinatorUnavailableError,
    DomoError,
    LayoutMismatchError,
    ProtocolError,
    VersionError,
)
from domo.run_config import RunConfig
from domo.tasks.base import Sum
from domo.vector import Layout
from domo_client.state import PendingUpdate, SiloState
from domo_proto import PROTOCOL_VERSION
from domo_proto.channel import TlsFiles, make_channel
from domo_proto.codec import FRAME_BYTES, VectorId, decode_frame, encode_frame
from domo_proto.errors import SessionError, from_rpc
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc

log = logging.getLogger(__name__)
T = TypeVar("T")

CALL_S = 30.0
"""Deadline of a control call, beyond what the coordinator may hold it."""
STALL_S = 120.0
"""Longest silence within a transfer."""
SLOWEST = 100_000
"""Bytes per second of the slowest link that an upload is given time for."""

DTYPES = {VectorId.INTEGER_BUFFERS: torch.uint8, VectorId.FROZEN: torch.uint8}
PHASES = {
    "idle": pb.IDLE,
    "waiting": pb.WAITING,
    "downloading": pb.DOWNLOADING,
    "evaluating": pb.EVALUATING,
    "training": pb.TRAINING,
    "uploading": pb.UPLOADING,
}


class Offer(NamedTuple):
    """A run that wants this silo."""

    run_id: str
    title: str
    task: str
    config: RunConfig


class Turn(NamedTuple):
    """What to do next; vectors are CPU tensors, float32 or bytes (uint8)."""

    action: str
    round_index: int = 0
    num_rounds: int = 0
    num_steps: int = 0
    local_lr: float = 0.0
    inference_scale: float | None = None
    evaluate: bool = False
    vectors: Mapping[VectorId, Tensor] = {}
    digests: Mapping[VectorId, str] = {}
    outcome: str = ""
    text: str = ""


class Connection:
    """One silo's line to the coordinator.

    Args:
        address: host:port.
        silo_id: The silo's name.
        state: Its state folder.
        tls: PEM files; None: no TLS.
        role: `trainer` or `evaluator`.
        device: What it trains on, in words.
        first_connect_s: How long to try before the first success.
        on_trouble: Told in words when a call failed and will be retried.
    """

    def __init__(
        self,
        address: str,
        silo_id: str,
        state: SiloState,
        tls: TlsFiles | None = None,
        role: str = "trainer",
        device: str = "",
        first_connect_s: float = 60.0,
        on_trouble: Callable[[str], None] = lambda text: None,
    ):
        self.address, self.silo_id, self.state = address, silo_id, state
        self._role, self._device, self._on_trouble = role, device, on_trouble
        self._first_connect_s = first_connect_s
        self._channel = make_channel(address, tls)
        self._stub = pb_grpc.FederationStub(self._channel)  # type: ignore[no-untyped-call]
        name = "/domo_proto.v1.FederationData/"
        self._fetch: Any = self._channel.unary_stream(name + "FetchRound")
        self._submit: Any = self._channel.stream_unary(name + "SubmitUpdate")
        self._session = ""
        self._lock = threading.Lock()
        self._closed = False
        self.report_interval_s = 2.0
        self._long_poll_s = 20.0
        self.bytes_sent = 0
        self.bytes_received = 0

    # sessions and retries

    def join(self) -> None:
        """Open a session.

        Raises:
            CoordinatorUnavailableError: Nobody answered in `first_connect_s`.
            SiloConflictError, VersionError, AccessError: As the text says.
        """
        with self._lock:
            self._retry(self._join, stop_after_delay(self._first_connect_s))

    def _join(self) -> None:
        answer = self._call(
            self._stub.Join,
            pb.JoinRequest(
                protocol_version=PROTOCOL_VERSION,
                software_version=domo.__version__,
                capabilities=["resume-upload"],
                silo_id=self.silo_id,
                instance_id=self.state.instance_id,
                role=pb.EVALUATOR if self._role == "evaluator" else pb.TRAINER,
                device=self._device,
            ),
        )
        if answer.max_frame_bytes < FRAME_BYTES:
            raise VersionError(f"the coordinator takes frames of {answer.max_frame_bytes} bytes")
        self._session = answer.session
        self.report_interval_s = answer.report_interval_s
        self._long_poll_s = answer.long_poll_s

    def _rejoin(self, stale: str) -> None:
        with self._lock:
            if self._session == stale and not self._closed:
                self._join()

    def _call(self, method: Any, request: Any, hold_s: float = 0.0) -> Any:
        try:
            return method(request, timeout=CALL_S + hold_s, wait_for_ready=False)
        except grpc.RpcError as error:
            raise from_rpc(error, self.address) from None
        except ValueError as error:
            if not self._closed:
                raise
            raise CoordinatorUnavailableError("this silo has left") from error

    def _retry(self, call: Callable[[], T], stop: Any = stop_never) -> T:
        def trouble(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            wait = state.next_action.sleep if state.next_action else 0.0
            self._on_trouble(f"{error}; trying again in {wait:.0f} s")

        retrying = Retrying(
            retry=retry_if_exception(self._may_retry),
            wait=wait_exponential(multiplier=0.2, max=15.0) + wait_random(0.0, 1.0),
            stop=stop,
            before_sleep=trouble,
            reraise=True,
        )
        return retrying(call)

    def _may_retry(self, error: BaseException) -> bool:
        return isinstance(error, DomoError) and error.retryable and not self._closed

    def _ask(self, call: Callable[[str], T]) -> T:
        """Make a call that names the session, as often as it takes."""

        def once() -> T:
            session = self._session
            try:
                return call(session)
            except SessionError:
                self._rejoin(session)
                return call(self._session)

        return self._retry(once)

    # control

    def wait_for_run(self, declined: Sequence[str] = ()) -> Offer | None:
        """Wait for a run that wants this silo; None: nothing yet, ask again."""

        def once(session: str) -> Any:
            request = pb.WaitForRunRequest(session=session, declined_run_ids=declined)
            return self._call(self._stub.WaitForRun, request, self._long_poll_s)

        answer = self._ask(once)
        if not answer.HasField("offer"):
            return None
        offer = answer.offer
        config = RunConfig.model_validate_json(offer.config_json)
        if config.digest != offer.config_digest:
            raise ProtocolError(
                f"the configuration of run {offer.run_id} is not what was announced"
            )
        return Offer(offer.run_id, offer.title, offer.task, config)

    def enroll(self, offer: Offer, layout: Layout, num_samples: int, num_eval_samples: int) -> None:
        """Take part in a run.

        Raises:
            LayoutMismatchError: Names the tensors that differ.
            ConfigError: The coordinator's text says what to do.
        """

        def once(session: str) -> Any:
            request = pb.EnrollRequest(
                session=session,
                run_id=offer.run_id,
                config_digest=offer.config.digest,
                layout_digest=bytes.fromhex(layout.digest),
                num_samples=num_samples,
                num_eval_samples=num_eval_samples,
            )
            return self._call(self._stub.Enroll, request)

        answer = self._ask(once)
        if not answer.enrolled:
            Layout.from_json(answer.layout_json).check_same(layout)
            raise LayoutMismatchError("the coordinator says that the models differ")

    def decline(self, run_id: str, reason: str) -> None:
        """Say that this silo will not take part, and why."""
        self._ask(
            lambda s: self._call(
                self._stub.Decline, pb.DeclineRequest(session=s, run_id=run_id, reason=reason)
            )
        )

    def report_evaluation(self, run_id: str, model_index: int, sums: Mapping[str, Sum]) -> None:
        """Send sums over this silo's test data."""
        metrics = {k: pb.MetricSum(total=s.total, num=s.num) for k, s in sums.items()}
        self._ask(
            lambda s: self._call(
                self._stub.ReportEvaluation,
                pb.ReportEvaluationRequest(
                    session=s, run_id=run_id, model_index=model_index, metrics=metrics
                ),
            )
        )

    def report(self, **fields: Any) -> str:
        """One heartbeat (fields of ReportRequest); returns the directive by name.

        Raises:
            TransportError: Not retried; the next heartbeat comes soon.
        """
        fields["phase"] = PHASES[fields["phase"]]
        fields |= {"bytes_sent": self.bytes_sent, "bytes_received": self.bytes_received}
        session = self._session
        try:
            answer = self._call(self._stub.Report, pb.ReportRequest(session=session, **fields))
        except SessionError:
            self._rejoin(session)
            answer = self._call(
                self._stub.Report, pb.ReportRequest(session=self._session, **fields)
            )
        return str(pb.Directive.Name(answer.directive))

    def close(self, reason: str = "") -> None:
        """Say goodbye, if anybody listens, and hang up."""
        self._closed = True
        if self._session:
            try:
                self._stub.Leave(pb.LeaveRequest(session=self._session, reason=reason), timeout=2)
            except grpc.RpcError:
                log.debug("nobody heard the goodbye")
        self._channel.close()

    # data

    def fetch_round(self, run_id: str, evaluated_index: int, own: Sequence[str] = ()) -> Turn:
        """Wait for the next turn, and receive what this silo lacks.

        Args:
            run_id: The run.
            evaluated_index: Newest model whose numbers were sent; -1: none.
            own: Digests of vectors that the model itself holds (frozen parameters).
        """
        return self._ask(lambda s: self._fetch_once(s, run_id, evaluated_index, own))

    def _fetch_once(self, session: str, run_id: str, evaluated: int, own: Sequence[str]) -> Turn:
        have = [bytes.fromhex(d) for d in (*self.state.held(), *own)]
        request = pb.FetchRequest(
            session=session, run_id=run_id, have=have, evaluated_index=evaluated
        ).SerializeToString()
        hold_s = self._long_poll_s + CALL_S
        try:
            stream = self._fetch(request, timeout=None)
            watch = _Watchdog(stream, hold_s)
            try:
                first = next(stream, None)
                if first is None:
                    raise ProtocolError("the coordinator ended its answer before it began")
                header = pb.RoundHeader.FromString(first)
                watch.feed(STALL_S)
                return self._read_turn(header, stream, watch, set(own))
            finally:
                watch.stop()
                stream.cancel()
        except grpc.RpcError as error:
            raise from_rpc(error, self.address) from None

    def _read_turn(
        self, header: Any, stream: Iterator[bytes], watch: "_Watchdog", own: set[str]
    ) -> Turn:
        digests = {VectorId(v.id): v.digest.hex() for v in header.vectors}
        vectors: dict[VectorId, Tensor] = {}
        for info in header.vectors:
            vector_id, digest = VectorId(info.id), info.digest.hex()
            dtype = DTYPES.get(vector_id, torch.float32)
            if info.sent:
                vectors[vector_id] = self._receive(info, dtype, stream, watch)
                if vector_id is not VectorId.FROZEN:
                    self.state.put(digest, vectors[vector_id])
            elif digest not in own:
                vectors[vector_id] = self.state.get(digest, dtype)
        if digests:
            self.state.keep_only(digests.values())
        return Turn(
            action=pb.Action.Name(header.action),
            round_index=header.round_index,
            num_rounds=header.num_rounds,
            num_steps=header.num_steps,
            local_lr=header.local_lr,
            inference_scale=(
                header.inference_scale if header.HasField("inference_scale") else None
            ),
            evaluate=header.evaluate,
            vectors=vectors,
            digests=digests,
            outcome=header.outcome,
            text=header.outcome_text,
        )

    def _receive(
        self, info: Any, dtype: torch.dtype, stream: Iterator[bytes], watch: "_Watchdog"
    ) -> Tensor:
        vector = torch.empty(info.num_bytes // dtype.itemsize, dtype=dtype)
        target, at = memoryview(vector.view(torch.uint8).numpy()), 0  # type: ignore[arg-type]
        while at < info.num_bytes:
            frame = decode_frame(next(stream, b""))
            size = len(frame.payload)
            if frame.vector_id != info.id or frame.offset != at or at + size > info.num_bytes:
                raise ProtocolError("frames of a vector must follow in order and without gaps")
            target[at : at + size] = frame.payload
            at += size
            self.bytes_received += size
            watch.feed(STALL_S)
        if xxhash.xxh3_128_digest(target) != info.digest:
            raise ChecksumError("a vector does not fit its digest")
        return vector

    def submit(self, update: PendingUpdate) -> tuple[str, str]:
        """Send a pending update, from where the coordinator has it.

        Returns:
            `ACCEPTED` or `STALE`, and a text.
        """
        return self._ask(lambda s: self._submit_once(s, update))

    def _submit_once(self, session: str, update: PendingUpdate) -> tuple[str, str]:
        status = self._call(
            self._stub.UploadStatus,
            pb.UploadStatusRequest(
                session=session,
                run_id=update.run_id,
                round_index=update.round_index,
                digest=bytes.fromhex(update.digest),
            ),
        )
        if status.state in (pb.ACCEPTED, pb.STALE):
            return str(pb.UploadState.Name(status.state)), "already known"
        header = pb.UpdateHeader(
            session=session,
            run_id=update.run_id,
            round_index=update.round_index,
            digest=bytes.fromhex(update.digest),
            offset=status.offset,
            num_steps=update.num_steps,
            metrics=update.metrics,
            vectors=[pb.VectorInfo(id=v, num_bytes=n) for v, n in update.vectors],  # type: ignore[arg-type]
        )
        size = sum(n for _, n in update.vectors)
        try:
            answer = self._submit(
                self._frames(header.SerializeToString(), update, status.offset),
                timeout=STALL_S + size / SLOWEST,
            )
        except grpc.RpcError as error:
            raise from_rpc(error, self.address) from None
        response = pb.SubmitResponse.FromString(answer)
        return str(pb.UploadState.Name(response.state)), response.text

    def _frames(self, header: bytes, update: PendingUpdate, offset: int) -> Iterator[bytes]:
        yield header
        start = 0
        with self.state.pending_path.open("rb") as f:
            for vector_id, num_bytes in update.vectors:
                for at in range(max(offset - start, 0), num_bytes, FRAME_BYTES):
                    f.seek(start + at)
                    data = f.read(min(FRAME_BYTES, num_bytes - at))
                    yield encode_frame(vector_id, at, memoryview(data))
                    self.bytes_sent += len(data)
                start += num_bytes


class _Watchdog(threading.Thread):
    """Cancels a stream that makes no progress."""

    def __init__(self, stream: Any, first_s: float):
        super().__init__(name="watchdog", daemon=True)
        self._stream, self._stopped = stream, threading.Event()
        self.feed(first_s)
        self.start()

    def feed(self, next_s: float) -> None:
        """Progress: wait anew, at most this long."""
        self._deadline = time.monotonic() + next_s

    def run(self) -> None:
        """Look every second."""
        while not self._stopped.wait(1.0):
            if time.monotonic() > self._deadline:
                self._stream.cancel()

    def stop(self) -> None:
        """The stream has ended."""
        self._stopped.set()
