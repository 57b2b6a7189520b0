"""The control rpcs of the coordinator: protobuf in, calls on `Run` and `Coordinator` out."""

import asyncio
import math

import domo
from domo.errors import (
    DomoError,
    LayoutMismatchError,
    MeaningMismatchError,
    ProtocolError,
    VersionError,
)
from domo.meaning.value import NOTHING, Meaning
from domo.names import is_name
from domo_proto import PRESENCE, PROTOCOL_VERSION
from domo_proto.codec import CAPABILITY, FRAME_BYTES
from domo_proto.errors import known_code
from domo_proto.tables import TABLES
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server.coordinator.coordinator import Coordinator
from domo_server.events import kinds
from domo_server.rpc import heads
from domo_server.rpc.access import (
    Callers,
    Context,
    answers,
    digest_of,
    measured_of,
    not_ready_of,
    place_of,
    refuse,
    seconds,
)
from domo_server.rpc.certify import certified, note_certificate, shows_certificate
from domo_server.rpc.held import attend, check_reports, hold
from domo_server.rpc.offers import offer_of, role_of, why_not
from domo_server.rpc.words import PHASES, UPLOADS
from domo_server.runs.participants import failed_text
from domo_server.silos.doing import heard
from domo_server.silos.session import Process
from domo_server.silos.silo_log import resources
from domo_server.store.rows import Enrolment

MOST_NOTES = 4
"""Of a silo in one heartbeat."""


class FederationServicer(pb_grpc.FederationServicer):
    """The service domo_proto.v1.Federation."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator, self._callers = coordinator, Callers(coordinator)

    @answers
    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinResponse:
        """Open a session."""
        if request.protocol_version != PROTOCOL_VERSION:
            raise VersionError(
                f"the silo speaks protocol {request.protocol_version} (domo "
                f"{request.software_version}), the coordinator {PROTOCOL_VERSION} (domo "
                f"{domo.__version__}); install the same version at both ends"
            )
        if not is_name(request.silo_id):
            raise ProtocolError(
                f"{request.silo_id!r} is no silo name: letters, digits, '.', '_', '-', at most 64"
            )
        if not request.instance_id or len(request.instance_id) > 64:
            raise ProtocolError("an instance id has 1 to 64 characters")
        await self._callers.new(request.silo_id, joins=True)
        session = await self._coordinator.registry.join(
            {
                "silo_id": request.silo_id,
                "instance_id": request.instance_id,
                "role": role_of(request),
                "device": request.device[:128],
                "software_version": request.software_version[:64],
            },
            Process(
                place_of(request.host, context),
                request.session_before[:64],
                PRESENCE in request.capabilities,
                shows_certificate(),
            ),
        )
        note_certificate(session)
        self._coordinator.expiry.look_at(session)
        return pb.JoinResponse(
            session=session.token,
            report_interval_s=self._coordinator.sessions.report_interval_s,
            long_poll_s=self._coordinator.long_poll_s,
            max_frame_bytes=FRAME_BYTES,
            software_version=domo.__version__,
            capabilities=["resume-upload", "resume-download", CAPABILITY, TABLES],
        )

    @answers
    async def WaitForRun(
        self, request: pb.WaitForRunRequest, context: Context
    ) -> pb.WaitForRunResponse:
        """Wait for a run that wants this silo."""
        session = self._callers.session(request.session)
        for run_id in filter(self._coordinator.queue.find, request.declined_run_ids):
            session.declined.setdefault(run_id, "")
        if session.not_ready is None:
            session.phase, session.run_id, session.round_index = "idle", None, None

        is_new = hold(self._coordinator, session, "WaitForRun")

        def look() -> pb.WaitForRunResponse | None:
            run = self._coordinator.queue.current
            if not is_new():
                return pb.WaitForRunResponse()
            if self._coordinator.stopping or run is None:
                return None
            if run.offers_to(session):
                return pb.WaitForRunResponse(offer=offer_of(run))
            text = why_not(self._coordinator, session)
            new = request.HasField("told") and text not in ("", request.told)
            return pb.WaitForRunResponse(text=text) if new else None

        hold_s, silos = self._coordinator.long_poll_s, self._coordinator.changes.silos
        found = await silos.until(look, hold_s, session.silo_id)
        return found or pb.WaitForRunResponse(text=why_not(self._coordinator, session))

    @answers
    async def LookAtRun(
        self, request: pb.LookAtRunRequest, context: Context
    ) -> pb.LookAtRunResponse:
        """Say what would be offered to a silo, which need not have joined."""
        if not is_name(request.silo_id):
            raise ProtocolError(f"{request.silo_id[:64]!r} is no silo name")
        await self._callers.new(request.silo_id, joins=False)
        run, role = self._coordinator.queue.current, role_of(request)
        if run is None or not run.ready or run.state.ended:
            return pb.LookAtRunResponse()
        if not run.roster.has_place(request.silo_id, role):
            return pb.LookAtRunResponse(
                text=run.roster.no_place(request.silo_id, True, False, role=role)
            )
        wanted = run.roster.wanted_of(request.silo_id)
        return pb.LookAtRunResponse(offer=offer_of(run), meaning_json=wanted.to_json())

    @answers
    async def Enroll(self, request: pb.EnrollRequest, context: Context) -> pb.EnrollResponse:
        """Take a silo into a run."""
        session = self._callers.session(request.session)
        run = await self._coordinator.queue.locate(request.run_id)
        if request.config_digest != run.config.digest:
            raise ProtocolError(f"the silo saw another configuration of {run.run_id}")
        try:
            said = request.meaning_json
            place = Enrolment(
                session.role,
                request.num_samples,
                request.num_eval_samples,
                Meaning.from_json(said) if said else NOTHING,
            )
            await run.enroll(session, request.layout_digest, place)
            self._coordinator.registry.strangers.names.discard(session.silo_id)
        except MeaningMismatchError as error:
            wanted = run.roster.wanted_of(session.silo_id).to_json()
            refuse(run, session, "enrolment", str(error), code=error.code)
            return pb.EnrollResponse(enrolled=False, meaning_json=wanted)
        except LayoutMismatchError as error:
            assert run.model.layout is not None
            refuse(run, session, "enrolment", str(error), code=error.code)
            return pb.EnrollResponse(enrolled=False, layout_json=run.model.layout.to_json())
        except DomoError as error:
            if not error.retryable:
                refuse(run, session, "enrolment", str(error), code=error.code)
            raise
        return pb.EnrollResponse(enrolled=True)

    @answers
    async def Decline(self, request: pb.DeclineRequest, context: Context) -> pb.DeclineResponse:
        """A silo will not take part."""
        session = self._callers.session(request.session)
        await self._coordinator.registry.decline(
            session, request.run_id, request.reason, known_code(request.code)
        )
        return pb.DeclineResponse()

    @answers
    async def UploadStatus(
        self, request: pb.UploadStatusRequest, context: Context
    ) -> pb.UploadStatusResponse:
        """Say how much of an upload is here."""
        session = self._callers.session(request.session)
        run = await self._coordinator.queue.locate(request.run_id)
        digest = digest_of(request.digest)
        state, offset = run.receiver.upload_state(session.silo_id, request.round_index, digest)
        return pb.UploadStatusResponse(state=UPLOADS[state], offset=offset)

    @answers
    async def ReportEvaluation(
        self, request: pb.ReportEvaluationRequest, context: Context
    ) -> pb.ReportEvaluationResponse:
        """Take a silo's sums."""
        session = self._callers.session(request.session)
        run = await self._coordinator.queue.locate(request.run_id)
        if run.state.ended or session.silo_id in run.dropped:
            return pb.ReportEvaluationResponse()
        if session.silo_id not in run.roster.enrolled:
            raise ProtocolError(f"{session.silo_id} is not part of {run.run_id}")
        measured = await asyncio.to_thread(measured_of, request.metrics)
        tested = request.model_digest.hex()[:32]
        told = await run.evaluations.add(session.silo_id, request.model_index, measured, tested)
        return pb.ReportEvaluationResponse(text=told)

    @answers
    async def Report(self, request: pb.ReportRequest, context: Context) -> pb.ReportResponse:
        """Heartbeat, progress and failures; answered with a directive."""
        session = self._callers.session(request.session)
        check_reports(session)
        session.phase = PHASES.get(request.phase, "idle")
        session.run_id = request.run_id[:128] or None
        session.round_index = request.round_index if request.run_id else None
        session.step, session.num_steps = request.step, request.num_steps
        has_loss = request.HasField("loss") and math.isfinite(request.loss)
        session.loss = request.loss if has_loss else None
        session.longest_step_s = seconds(request, "longest_step_s")
        session.bytes_sent, session.bytes_received = request.bytes_sent, request.bytes_received
        run = self._coordinator.queue.find(request.run_id) if request.run_id else None
        if run is not None and run.ready and not run.roster.has_place_for(session):
            run = session.run_id = None  # it is no part of it, whatever it says
        if request.network and session.counted:  # else it is why there was no session
            text = f"{session.silo_id}: its network: {request.network}"
            self._coordinator.events.say(kinds.NETWORK, text, session.run_id, session.silo_id)
        session.counted = True
        said = request.resources if request.HasField("resources") else None
        session.resources = None if said is None else resources(said)
        session.now = heard(request.doing, session.now)
        session.log.hear(request.shares_log, request.log_lines)
        for note in request.notes[:MOST_NOTES]:
            text = f"{session.silo_id}: {note}"
            self._coordinator.events.say(
                kinds.SILO_NOTE, text, run.run_id if run else None, session.silo_id
            )
        directive = pb.CONTINUE
        if request.failure:
            session.phase, text = "failed", request.failure
            times, lasts = request.failure_times, request.failure_lasts
            shown_text = failed_text(text, times, lasts) if times > 1 else text
            session.fails(shown_text, known_code(request.failure_code), lasts)
            if run is not None and session.silo_id in run.roster.enrolled:
                run.receiver.note_failure(session.silo_id, request.round_index, text, times, lasts)
        elif session.phase == "training":
            session.error = None
            if run is not None and request.round_index == run.state.round_index:
                run.participants.times.seen_training(session.silo_id)
        self._coordinator.registry.note_ready(session, *not_ready_of(request))
        if run is not None:
            if run.state.ended or run.stop_text is not None:
                directive = pb.STOP_RUN
            elif (
                run.ready  # else it is being loaded, and may go on with this round
                and session.phase in ("training", "uploading")
                and run.should_abandon(session.silo_id, request.round_index)
            ):
                directive = pb.ABANDON_ROUND
        self._coordinator.changes.shown()
        next_s = self._coordinator.sessions.next_report_s(session)
        audit = await heads.exchanged(self._coordinator.record, session.silo_id, request)
        return pb.ReportResponse(directive=directive, next_s=next_s, audit=audit)

    @answers
    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveResponse:
        """A silo says goodbye."""
        session = self._callers.session(request.session)
        self._coordinator.sessions.leave(session, request.reason)
        self._coordinator.changes.assigned(session.silo_id)  # its calls are over
        reason = f": {request.reason}" if request.reason else ""
        text = f"{session.silo_id} left{reason}"
        self._coordinator.events.say(kinds.LEFT, text, silo_id=session.silo_id)
        await self._coordinator.registry.seen([session])
        return pb.LeaveResponse()

    @answers
    async def Certify(self, request: pb.CertifyRequest, context: Context) -> pb.CertifyResponse:
        """Make a certificate for a silo's key."""
        return await certified(self._coordinator, request)

    @answers
    async def Attend(self, request: pb.AttendRequest, context: Context) -> None:
        """Open for as long as the silo is there: it is cancelled when the connection breaks."""
        await attend(self._coordinator, self._callers.session(request.session), context)
