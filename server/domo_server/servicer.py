"""The wire end of the coordinator: protobuf and frames in, calls on `Run` and `Coordinator` out.

The two data rpcs have identity serializers: their first message is a protobuf header, every other
one a frame (docs/protocol.md).
"""

import asyncio
import functools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

import domo
from domo.errors import (
    AccessError,
    CoordinatorUnavailableError,
    DomoError,
    LayoutMismatchError,
    ProtocolError,
    VersionError,
)
from domo_proto import PROTOCOL_VERSION, SILO_ID
from domo_proto.codec import FRAME_BYTES, decode_frame, encode
from domo_proto.errors import ERROR_KEY, status_of
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server.coordinator import Coordinator
from domo_server.run import Run, Turn
from domo_server.sessions import Session
from domo_server.status import SiloPhase

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])

MAX_METRICS = 64
CAPABILITIES = ("resume-upload", "evaluator")
ACTIONS = {"train": pb.TRAIN, "evaluate": pb.EVALUATE, "end": pb.END}
UPLOADS = {
    "absent": pb.ABSENT,
    "partial": pb.PARTIAL,
    "accepted": pb.ACCEPTED,
    "stale": pb.STALE,
}
PHASES: dict[int, SiloPhase] = {
    pb.IDLE: "idle",
    pb.WAITING: "waiting",
    pb.DOWNLOADING: "downloading",
    pb.EVALUATING: "evaluating",
    pb.TRAINING: "training",
    pb.UPLOADING: "uploading",
}


def _answers(handler: Handler) -> Handler:
    """Turn a `DomoError` into its status, with the class by name in the trailing metadata."""

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Context) -> Any:
        try:
            return await handler(self, request, context)
        except DomoError as error:
            return await _abort(context, error)

    return wrapped  # type: ignore[return-value]


async def _abort(context: Context, error: DomoError) -> Any:
    await context.abort(status_of(error), str(error), ((ERROR_KEY, type(error).__name__),))


def principals(context: Context) -> set[str] | None:
    """Names that the peer's certificate vouches for; None: it showed no certificate."""
    auth = context.auth_context()
    if "x509_pem_cert" not in auth:
        return None
    keys = ("x509_subject_alternative_name", "x509_common_name")
    return {value.decode(errors="replace") for key in keys for value in auth.get(key, ())}


class FederationServicer(pb_grpc.FederationServicer):
    """Control rpcs, and the two data rpcs as plain methods on bytes."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator

    # who asks

    def _session(self, token: str, context: Context) -> Session:
        session = self._coordinator.sessions.get(token)
        self._check_principal(session.silo_id, context)
        return session

    def _check_principal(self, silo_id: str, context: Context) -> None:
        names = principals(context)
        if names is not None and silo_id not in names:
            raise AccessError(
                f"this certificate is for {', '.join(sorted(names)) or 'nobody'}, not for "
                f"{silo_id}; the silo's name must be in it (subject alternative name)"
            )

    # control

    @_answers
    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinResponse:
        """Open a session."""
        if request.protocol_version != PROTOCOL_VERSION:
            raise VersionError(
                f"the silo speaks protocol {request.protocol_version} (domo "
                f"{request.software_version}), the coordinator {PROTOCOL_VERSION} (domo "
                f"{domo.__version__}); install the same version at both ends"
            )
        if not SILO_ID.fullmatch(request.silo_id):
            raise ProtocolError(
                f"{request.silo_id!r} is no silo name: letters, digits, '.', '_', '-', at most 64"
            )
        if not request.instance_id or len(request.instance_id) > 64:
            raise ProtocolError("an instance id has 1 to 64 characters")
        self._check_principal(request.silo_id, context)
        session = await self._coordinator.join(
            {
                "silo_id": request.silo_id,
                "instance_id": request.instance_id,
                "role": "evaluator" if request.role == pb.EVALUATOR else "trainer",
                "device": request.device[:128],
                "software_version": request.software_version[:64],
            }
        )
        return pb.JoinResponse(
            session=session.token,
            report_interval_s=self._coordinator.sessions.report_interval_s,
            long_poll_s=self._coordinator.long_poll_s,
            max_frame_bytes=FRAME_BYTES,
            software_version=domo.__version__,
        )

    @_answers
    async def WaitForRun(
        self, request: pb.WaitForRunRequest, context: Context
    ) -> pb.WaitForRunResponse:
        """Wait for a run that wants this silo."""
        session = self._session(request.session, context)
        session.declined.update(request.declined_run_ids)
        session.phase, session.run_id, session.round_index = "idle", None, None

        def look() -> Run | None:
            run = self._coordinator.current
            if self._coordinator.stopping or run is None or not run.offers_to(session):
                return None
            return run

        run = await self._coordinator.broadcast.until(look, self._coordinator.long_poll_s)
        if run is None or run.layout is None:
            return pb.WaitForRunResponse()
        return pb.WaitForRunResponse(
            offer=pb.RunOffer(
                run_id=run.run_id,
                title=run.config.title,
                task=run.config.task,
                config_json=run.config.model_dump_json(),
                config_digest=run.config.digest,
                layout_digest=bytes.fromhex(run.layout.digest),
            )
        )

    @_answers
    async def Enroll(self, request: pb.EnrollRequest, context: Context) -> pb.EnrollResponse:
        """Take a silo into a run."""
        session = self._session(request.session, context)
        run = await self._coordinator.locate(request.run_id)
        if request.config_digest != run.config.digest:
            raise ProtocolError(f"the silo saw another configuration of {run.run_id}")
        try:
            await run.enroll(
                session, request.layout_digest, request.num_samples, request.num_eval_samples
            )
        except LayoutMismatchError:
            assert run.layout is not None
            return pb.EnrollResponse(enrolled=False, layout_json=run.layout.to_json())
        return pb.EnrollResponse(enrolled=True)

    @_answers
    async def Decline(self, request: pb.DeclineRequest, context: Context) -> pb.DeclineResponse:
        """A silo will not take part."""
        session = self._session(request.session, context)
        await self._coordinator.decline(session, request.run_id, request.reason[:2000])
        return pb.DeclineResponse()

    @_answers
    async def UploadStatus(
        self, request: pb.UploadStatusRequest, context: Context
    ) -> pb.UploadStatusResponse:
        """Say how much of an upload is here."""
        session = self._session(request.session, context)
        run = await self._coordinator.locate(request.run_id)
        state, offset = run.upload_state(session.silo_id, request.round_index, request.digest.hex())
        return pb.UploadStatusResponse(state=UPLOADS[state], offset=offset)

    @_answers
    async def ReportEvaluation(
        self, request: pb.ReportEvaluationRequest, context: Context
    ) -> pb.ReportEvaluationResponse:
        """Take a silo's sums."""
        session = self._session(request.session, context)
        run = await self._coordinator.locate(request.run_id)
        if run.state.ended:
            return pb.ReportEvaluationResponse()
        sums = {name: (s.total, s.num) for name, s in request.metrics.items()}
        if len(sums) > MAX_METRICS or any(len(name) > 64 for name in sums):
            raise ProtocolError(f"at most {MAX_METRICS} metrics with names up to 64 characters")
        if session.silo_id not in run.enrolments:
            raise ProtocolError(f"{session.silo_id} is not part of {run.run_id}")
        for name, (total, num) in sums.items():
            if not math.isfinite(total) or not math.isfinite(num) or num <= 0:
                raise ProtocolError(f"metric {name!r} is not a finite sum over a positive count")
        await run.add_evaluation(session.silo_id, request.model_index, sums)
        return pb.ReportEvaluationResponse()

    @_answers
    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:
        """Heartbeat, progress and failures; answered with a directive."""
        session = self._session(request.session, context)
        session.phase = PHASES.get(request.phase, "idle")
        session.run_id = request.run_id or None
        session.round_index = request.round_index if request.run_id else None
        session.step, session.num_steps = request.step, request.num_steps
        has_loss = request.HasField("loss") and math.isfinite(request.loss)
        session.loss = request.loss if has_loss else None
        session.bytes_sent, session.bytes_received = request.bytes_sent, request.bytes_received
        run = self._coordinator.find(request.run_id) if request.run_id else None
        directive = pb.CONTINUE
        if request.failure:
            session.phase, session.error = "failed", request.failure[:2000]
            if run is not None:
                run.note_failure(session.silo_id, request.round_index, session.error)
        elif session.phase in ("training", "uploading"):
            session.error = None
        if run is not None:
            if run.state.ended or run.stop_text is not None:
                directive = pb.STOP_RUN
            elif session.phase == "training" and run.should_abandon(
                session.silo_id, request.round_index
            ):
                directive = pb.ABANDON_ROUND
        self._coordinator.broadcast.notify()
        return pb.ReportResponse(directive=directive)

    @_answers
    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveResponse:
        """A silo says goodbye."""
        session = self._session(request.session, context)
        self._coordinator.sessions.leave(session)
        reason = f": {request.reason[:500]}" if request.reason else ""
        text = f"{session.silo_id} left{reason}"
        self._coordinator.events.say("left", text, silo_id=session.silo_id)
        return pb.LeaveResponse()

    # data

    async def FetchRound(self, message: bytes, context: Context) -> AsyncIterator[bytes]:
        """Long-poll for the silo's next turn, then stream what it lacks."""
        try:
            request = _parse(pb.FetchRequest, message)
            session = self._session(request.session, context)
            run = await self._coordinator.locate(request.run_id)
            if request.evaluated_index >= 0:
                run.note_tested(session.silo_id, request.evaluated_index)

            def look() -> Turn | None:
                if self._coordinator.stopping:
                    return None
                return run.turn_for(session.silo_id, request.evaluated_index)

            turn = await self._coordinator.broadcast.until(look, self._coordinator.long_poll_s)
        except DomoError as error:
            await _abort(context, error)
            return
        if turn is None:
            session.phase = "waiting" if session.phase != "failed" else "failed"
            yield pb.RoundHeader(action=pb.ASK_AGAIN, run_id=run.run_id).SerializeToString()
            return
        if turn.action == "train":
            run.failed.pop(session.silo_id, None)  # it tries again
        have = set(request.have)
        header = pb.RoundHeader(
            action=ACTIONS[turn.action],
            run_id=run.run_id,
            round_index=turn.round_index,
            attempt=turn.attempt,
            num_rounds=run.config.num_rounds,
            num_steps=turn.num_steps,
            local_lr=turn.local_lr,
            inference_scale=turn.inference_scale,
            evaluate=turn.evaluate,
            outcome=turn.outcome,
            outcome_text=turn.text,
            remaining_s=turn.remaining_s,
            vectors=[
                pb.VectorInfo(
                    id=vector_id.value,  # type: ignore[arg-type]
                    num_bytes=len(wire.data),
                    digest=wire.digest,
                    sent=wire.digest not in have,
                )
                for vector_id, wire in turn.vectors.items()
            ],
        )
        yield header.SerializeToString()
        for vector_id, wire in turn.vectors.items():
            if wire.digest not in have:
                for frame in encode(vector_id, wire.data):
                    yield frame

    @_answers
    async def SubmitUpdate(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Take an update: header, then frames into the spool, then the checks over the whole."""
        header = _parse(pb.UpdateHeader, await anext(messages, b""))
        session = self._session(header.session, context)
        run = await self._coordinator.locate(header.run_id)
        silo_id, r, digest = session.silo_id, header.round_index, header.digest.hex()
        async with run.lock_of(silo_id):
            state, _ = run.upload_state(silo_id, r, digest)
            if state in ("accepted", "stale") or silo_id not in run.sampled:
                duplicate = state == "accepted"
                answer = pb.ACCEPTED if duplicate else pb.STALE
                text = "had it already" if duplicate else f"round {r + 1} is not open for {silo_id}"
                return pb.SubmitResponse(
                    state=answer, duplicate=duplicate, text=text
                ).SerializeToString()
            try:
                return await self._receive(run, session, header, messages)
            except DomoError as error:
                if not error.retryable:
                    run.say("refused", f"refused an update of {silo_id}: {error}", silo_id)
                    session.error = f"update refused: {error}"
                raise

    async def _receive(
        self,
        run: Run,
        session: Session,
        header: pb.UpdateHeader,
        messages: AsyncIterator[bytes],
    ) -> bytes:
        metrics = {k[:64]: v for k, v in header.metrics.items() if math.isfinite(v)}
        if len(metrics) > MAX_METRICS:
            raise ProtocolError(f"at most {MAX_METRICS} metrics")
        parts = [(int(v.id), v.num_bytes) for v in header.vectors]
        upload = run.begin_upload(
            session.silo_id, parts, header.digest.hex(), header.offset, header.num_steps
        )
        session.phase = "uploading"
        try:
            await _on_thread(upload.resume)
            async for message in messages:
                session.last_seen = max(session.last_seen, run.clock())
                await _on_thread(_write, upload, message)
            norm = await _on_thread(upload.finish, self._coordinator.durable_updates)
        except DomoError as error:
            if not error.retryable:
                upload.discard()
            raise
        except OSError as error:  # a full disk, or the round has closed and its folder is gone
            raise CoordinatorUnavailableError(
                f"the coordinator cannot keep the update: {error.strerror}"
            ) from error
        finally:
            upload.close()
        taken = await run.accept(
            session.silo_id, header.round_index, upload, norm, header.num_steps, metrics
        )
        state = pb.ACCEPTED if taken else pb.STALE
        return pb.SubmitResponse(state=state).SerializeToString()


async def _on_thread(work: Callable[..., T], *args: Any) -> T:
    """Work on an upload's file; a call that is cancelled meanwhile waits until it is done."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _write(upload: Any, message: bytes) -> None:
    upload.write(decode_frame(message))


def _parse(cls: Any, message: bytes) -> Any:
    try:
        return cls.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"the first message is no {cls.__name__}: {error}") from error


def data_handlers(servicer: FederationServicer) -> grpc.GenericRpcHandler:
    """The service domo_proto.v1.FederationData, on raw bytes."""
    return grpc.method_handlers_generic_handler(
        "domo_proto.v1.FederationData",
        {
            "FetchRound": grpc.unary_stream_rpc_method_handler(servicer.FetchRound),
            "SubmitUpdate": grpc.stream_unary_rpc_method_handler(servicer.SubmitUpdate),
        },
    )
