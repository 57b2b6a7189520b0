"""The data rpcs of the coordinator: models out, updates in.

Both have identity serializers: the first message is a protobuf header, every other one a frame
(docs/protocol.md).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, TypeVar

import grpc
from prometheus_client import Counter

from domo.errors import CoordinatorUnavailableError, DomoError, ProtocolError, StateError
from domo.metrics.names import is_metric_name, why_no_share
from domo_proto.assignment import Action, Assignment
from domo_proto.codec import decode_frame, parse
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator.coordinator import Coordinator
from domo_server.events import kinds
from domo_server.rpc.access import (
    MAX_SUM,
    Callers,
    Context,
    answers,
    check_metric_names,
    digest_of,
    refuse,
    without_folder,
)
from domo_server.rpc.transfers import Progress, Transfers
from domo_server.runs.durable import said_by_disk, to_its_end
from domo_server.runs.run import Run
from domo_server.runs.wire_vector import WireVector
from domo_server.silos.session import Session
from domo_server.store.spool import Upload

T = TypeVar("T")

LOST_S = 1.0
"""How long a lost connection may look like a stream that its silo has ended."""
LEFT_OUT = "the admin has left this silo out; domo undrop takes it back"
QUICK_S = 0.005
"""A frame that took longer to write is the last one for which everybody waits."""


class DataServicer:
    """The service domo_proto.v1.FederationData."""

    def __init__(self, coordinator: Coordinator):
        self._coordinator, self._callers = coordinator, Callers(coordinator)
        self._downloads, self._uploads = Transfers(), Transfers()

    @answers
    async def FetchRound(self, message: bytes, context: Context) -> None:
        """Long-poll for the silo's next assignment, then stream what it lacks."""
        request = parse(pb.FetchRequest, message)
        session = self._callers.session(request.session)
        async with self._downloads.newest(session.silo_id) as progress:
            await self._answer(request, session, context, progress)

    async def _answer(
        self, request: pb.FetchRequest, session: Session, context: Context, progress: Progress
    ) -> None:
        queue = self._coordinator.queue
        run = await queue.locate(request.run_id)
        enrolled = session.silo_id in run.roster.enrolled
        if run.ready and not (enrolled or run.roster.has_place_for(session)):
            raise ProtocolError(f"{session.silo_id} is not part of {run.run_id}")
        tested = request.evaluated_index, request.evaluated_digest.hex()
        if request.evaluated_index >= 0 and enrolled:
            run.evaluations.note_tested(session.silo_id, *tested)

        def look() -> Assignment[WireVector] | None:
            nonlocal run
            run = queue.find(run.run_id) or run  # it may have been loaded again
            if self._coordinator.stopping or not (run.ready or run.state.ended):
                return None
            return run.assignment_for(session.silo_id, *tested)

        hold_s = self._coordinator.long_poll_s
        progress.made(hold_s)
        assignment = await self._coordinator.changes.silos.until(look, hold_s, session.silo_id)
        progress.made()
        if assignment is None:
            session.phase = "waiting" if session.phase != "failed" else "failed"
            again: Assignment[WireVector] = Assignment(
                Action.ASK_AGAIN, run.run_id, text=run.waits(session.silo_id)
            )
            await context.write(again.header().SerializeToString())
            return
        times = run.participants.times  # of this round, whatever comes while it is sent
        if assignment.action != Action.END:
            run.participants.try_again(session.silo_id)
            times.fetches(session.silo_id, assignment.evaluate, assignment.action == Action.TRAIN)
        have = set(request.have)
        held = {p.digest: p.num_bytes for p in request.partial}
        starts = {
            vector_id: min(held.get(wire.digest, 0), wire.num_bytes)
            for vector_id, wire in assignment.vectors.items()
            if wire.digest not in have
        }
        text = without_folder(assignment.text, self._coordinator)
        header = replace(assignment, run_id=run.run_id, text=text).header(starts)
        await context.write(header.SerializeToString())
        zstd = request.compression == "zstd"
        sent = self._coordinator.counters.bytes_of("sent", session.silo_id)
        for vector_id, start in starts.items():
            wire, at = assignment.vectors[vector_id], start
            while at < wire.num_bytes:
                if session.silo_id in run.dropped:
                    raise CoordinatorUnavailableError(LEFT_OUT)
                try:
                    frame, at = await wire.frame(at, zstd)
                except (OSError, StateError) as error:
                    run.note_damage(error)
                    raise
                await context.write(frame)
                sent.inc(len(frame))
                progress.made()
                session.last_seen = max(session.last_seen, run.clock())  # a slow link is alive
                session.frames += 1
        if assignment.action != Action.END:
            times.fetched(session.silo_id)

    @answers
    async def SubmitUpdate(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        """Take an update: header, then frames into the spool, then the checks over the whole."""
        header = parse(pb.UpdateHeader, await anext(messages, b""))
        session = self._callers.session(header.session)
        run = await self._coordinator.queue.locate(header.run_id)
        silo_id, r, digest = session.silo_id, header.round_index, digest_of(header.digest)
        async with self._uploads.newest(silo_id) as progress, run.receiver.lock_of(silo_id):
            state, _ = run.receiver.upload_state(silo_id, r, digest)
            if state == "accepted":
                text = f"{silo_id} sent its update again; it counts once"
                run.say(kinds.DUPLICATE, text, silo_id)
                return pb.SubmitResponse(
                    state=pb.ACCEPTED, duplicate=True, text="had it already"
                ).SerializeToString()
            if state == "stale" or not run.receiver.wants(silo_id, r):
                second = run.receiver.wants(silo_id, r)
                text = (
                    f"round {r + 1} has another update of {silo_id}"
                    if second
                    else (f"round {r + 1} is not open for {silo_id}")
                )
                refuse(run, session, "update", text, "late")
                return pb.SubmitResponse(state=pb.STALE, text=text).SerializeToString()
            try:
                return await self._receive(run, session, header, messages, progress)
            except (CoordinatorUnavailableError, OSError) as error:
                if run.receiver.wants(silo_id, r):
                    run.receiver.note_disk(said_by_disk(error))
                elif isinstance(
                    error, OSError
                ):  # the round's folder is gone, and the round with it
                    text = f"round {r + 1} is over"
                    return pb.SubmitResponse(state=pb.STALE, text=text).SerializeToString()
                raise
            except DomoError as error:
                refuse(run, session, "update", str(error), code=error.code)
                raise

    async def _receive(
        self,
        run: Run,
        session: Session,
        header: pb.UpdateHeader,
        messages: AsyncIterator[bytes],
        progress: Progress,
    ) -> bytes:
        names = {k for k in header.metrics if is_metric_name(k)}  # an older silo may have others
        check_metric_names(names)
        metrics = {k: v for k, v in header.metrics.items() if k in names and abs(v) <= MAX_SUM}
        for name in [name for name, value in metrics.items() if why_no_share(name, value)]:
            why = f"{session.silo_id}: {why_no_share(name, metrics.pop(name))}; it is left out"
            run.evaluations.say_once(session.silo_id, name, why)
        parts = [(int(v.id), v.num_bytes) for v in header.vectors]
        upload = run.receiver.begin_upload(
            session.silo_id, parts, header.digest.hex(), header.offset, header.num_steps
        )
        session.phase = "uploading"
        try:
            await _on_thread(upload.resume)
            progress.made()
            received = self._coordinator.counters.bytes_of("received", session.silo_id)
            await _keep(run, session, upload, _counting(messages, received), progress)
            if upload.position < upload.num_bytes:
                await asyncio.sleep(LOST_S)  # a lost connection is cancelled meanwhile
            progress.done()
            return await to_its_end(self._finish(run, session, header, upload, metrics))
        except DomoError as error:
            if not error.retryable:
                upload.discard()
            raise
        finally:
            upload.close()

    async def _finish(
        self,
        run: Run,
        session: Session,
        header: pb.UpdateHeader,
        upload: Upload,
        metrics: dict[str, float],
    ) -> bytes:
        norm = await asyncio.to_thread(upload.finish, self._coordinator.durable_updates)
        run = self._coordinator.queue.find(run.run_id) or run  # it may have been loaded again
        taken = await run.receiver.accept(
            session.silo_id, header.round_index, upload, norm, header.num_steps, metrics
        )
        session.error = None if taken else session.error
        state = pb.ACCEPTED if taken else pb.STALE
        return pb.SubmitResponse(state=state).SerializeToString()


async def _counting(messages: AsyncIterator[bytes], counter: Counter) -> AsyncIterator[bytes]:
    async for message in messages:
        counter.inc(len(message))
        yield message


async def _keep(
    run: Run,
    session: Session,
    upload: Upload,
    messages: AsyncIterator[bytes],
    progress: Progress,
) -> None:
    """Write frames as they come: here while the disk is quick, on a thread while it is not."""
    quick = True
    async for message in messages:
        session.last_seen = max(session.last_seen, run.clock())
        session.frames += 1
        begun = time.monotonic()
        if quick:
            _write(upload, message)
        else:
            await _on_thread(_write, upload, message)
        quick = time.monotonic() - begun < QUICK_S
        progress.made()


async def _on_thread(work: Callable[..., T], *args: Any) -> T:
    return await to_its_end(asyncio.to_thread(work, *args))


def _write(upload: Upload, message: bytes) -> None:
    upload.write(decode_frame(message))


def data_handlers(servicer: DataServicer) -> grpc.GenericRpcHandler:
    """The service domo_proto.v1.FederationData, on raw bytes."""
    return grpc.method_handlers_generic_handler(
        "domo_proto.v1.FederationData",
        {
            "FetchRound": grpc.unary_stream_rpc_method_handler(servicer.FetchRound),
            "SubmitUpdate": grpc.stream_unary_rpc_method_handler(servicer.SubmitUpdate),
        },
    )
