"""The data rpcs of a silo: models in, updates out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
from torch import Tensor

from domo.errors import CoordinatorUnavailableError, DeadlineError, ProtocolError
from domo_client.rpc.session import CALL_S, Session
from domo_client.rpc.vectors import STALL_S, Vectors
from domo_client.rpc.watchdog import Watchdog
from domo_client.state.folder import PendingUpdate, SiloState
from domo_proto.assignment import Announced, Assignment, read_header
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES, VectorId, encode_frame, parse
from domo_proto.errors import from_rpc
from domo_proto.heard import empty
from domo_proto.v1 import federation_pb2 as pb

T = TypeVar("T")

TRANSFER_S = 24 * 3600.0
"""Deadline of one transfer; the next attempt goes on where it ended."""

KNOWN = {
    pb.ACCEPTED: "the coordinator had it already",
    pb.STALE: "its round is over, or another update of this silo counts",
}
"""What is said of an update that need not be sent."""


class Tested(NamedTuple):
    """The newest model that a silo is through with testing.

    Attributes:
        model_index: i of x_i; -1: none yet.
        digest: As in `domo_proto.codec.model_digest`; empty: not known.
    """

    model_index: int = -1
    digest: str = ""


Fetched = tuple[Assignment[Announced], Mapping[VectorId, Tensor]]


class Data:
    """The data rpcs.

    Args:
        session: Over which they go.
        state: Where vectors are kept.

    Attributes:
        vectors: Those of the newest assignment.
        round_told: Of the newest assignment, kept or not.
    """

    def __init__(self, session: Session, state: SiloState):
        self._session, self._state = session, state
        self.vectors = Vectors(session, state)
        self.round_told = 0
        self._reached = ("", 0)

    def fetch_round(
        self,
        run_id: str,
        tested: Tested = Tested(),
        own: Sequence[str] = (),
        check: Callable[[Assignment[Announced]], None] = lambda assignment: None,
    ) -> Fetched:
        """Wait for the next assignment, and receive what this silo lacks.

        Args:
            run_id: The run.
            tested: Of its test data nothing more is asked for this model.
            own: Digests of vectors that the model itself holds (frozen parameters).
            check: Given the assignment before a byte of its vectors is taken.

        Returns:
            The assignment and its vectors, without `own`: CPU tensors, float32 or bytes (uint8).

        Raises:
            ProtocolError: What the coordinator says does not fit the model.
        """
        return self._session.ask(lambda s: self._fetch_once(s, run_id, tested, own, check))

    def _fetch_once(
        self,
        session: str,
        run_id: str,
        tested: Tested,
        own: Sequence[str],
        check: Callable[[Assignment[Announced]], None],
    ) -> Fetched:
        have = [bytes.fromhex(d) for d in (*self._state.held(), *own)]
        request = pb.FetchRequest(
            session=session,
            run_id=run_id,
            have=have,
            evaluated_index=tested.model_index,
            evaluated_digest=bytes.fromhex(tested.digest),
            compression="zstd" if self._session.zstd else "",
            partial=[
                pb.PartialVector(digest=bytes.fromhex(d), num_bytes=n)
                for d, n in self._state.parts().items()
            ],
        ).SerializeToString()

        def read(stream: Any, watch: Watchdog) -> Fetched:
            first = next(stream, None)
            if first is None:
                raise CoordinatorUnavailableError(empty(self._session.address))
            header = parse(pb.RoundHeader, first)
            assignment = read_header(header, self.vectors.sizes)
            check(assignment)
            self.round_told = header.round_index
            watch.feed(STALL_S)
            with self._session.counts.timed("downloading"):
                fetched = assignment, self.vectors.receive(assignment, stream, watch, own)
            if next(stream, None) is not None:  # a call that is cut before its end was not sent
                raise ProtocolError("the coordinator sent more than it had announced")
            return fetched

        hold_s = self._session.long_poll_s + CALL_S
        with self._session.lines.now() as line:
            return self._watched(
                lambda watch: read(watch.guard(line.fetch(request, timeout=TRANSFER_S)), watch),
                hold_s,
            )

    def _watched(self, work: Callable[[Watchdog], T], first_s: float) -> T:
        """Make a data rpc under a watchdog; its errors are `DomoError`."""
        with Watchdog(first_s) as watch:
            try:
                return work(watch)
            except (grpc.RpcError, grpc.FutureCancelledError) as error:
                error.with_traceback(None)  # it is the call: frames that hold it held the vectors
                address = self._session.address
                if watch.barked:
                    raise DeadlineError(f"nothing moved to or from {address}") from None
                if isinstance(error, grpc.FutureCancelledError):
                    raise CoordinatorUnavailableError("the transfer was cancelled") from None
                raise from_rpc(error, address) from None
            except ValueError as error:
                if not self._session.closed:
                    raise
                raise CoordinatorUnavailableError("this silo has left") from error

    def submit(
        self, update: PendingUpdate, data: Sequence[memoryview] | None = None
    ) -> tuple[str, str]:
        """Send a pending update, from where the coordinator has it.

        Args:
            update: The update.
            data: Its vectors, where they are still in memory; otherwise its file is read.

        Returns:
            `ACCEPTED` or `STALE`, and a text.
        """
        return self._session.ask(lambda s: self._submit_once(s, update, data))

    def _submit_once(
        self, session: str, update: PendingUpdate, data: Sequence[memoryview] | None
    ) -> tuple[str, str]:
        status = self._session.call(
            "UploadStatus",
            pb.UploadStatusRequest(
                session=session,
                run_id=update.run_id,
                round_index=update.round_index,
                digest=bytes.fromhex(update.digest),
            ),
        )
        if status.state in KNOWN:
            return str(pb.UploadState.Name(status.state)), KNOWN[status.state]
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
        if (update.digest, status.offset) != self._reached:
            self._reached = (update.digest, status.offset)
            self._session.advanced += 1

        def send(watch: Watchdog) -> bytes:
            frames = self._frames(header.SerializeToString(), update, data, status.offset, watch)
            answer = watch.guard(line.submit.future(frames, timeout=TRANSFER_S)).result()
            if answer is None:
                raise CoordinatorUnavailableError(empty(self._session.address))
            return bytes(answer)

        with self._session.lines.now() as line, self._session.counts.timed("uploading"):
            response = parse(pb.SubmitResponse, self._watched(send, STALL_S))
        if response.state not in KNOWN:
            raise ProtocolError(f"the coordinator says state {response.state} of an update")
        return str(pb.UploadState.Name(response.state)), response.text

    def _frames(
        self,
        header: bytes,
        update: PendingUpdate,
        data: Sequence[memoryview] | None,
        offset: int,
        watch: Watchdog,
    ) -> Iterator[bytes]:
        """An upload from an offset on; grpc takes the next message when the link has room."""
        yield header
        counts, start = self._session.counts, 0
        with self._state.pending_path.open("rb") as f:
            for i, (vector_id, num_bytes) in enumerate(update.vectors):
                for at in range(max(offset - start, 0), num_bytes, FRAME_BYTES):
                    size = min(FRAME_BYTES, num_bytes - at)
                    if data is None:
                        f.seek(start + at)
                        piece = memoryview(f.read(size))
                    else:
                        piece = data[i][at : at + size]
                    frame = encode_frame(vector_id, at, piece, self._session.zstd)
                    yield frame
                    counts.bytes_sent += len(frame) - HEAD_BYTES
                    watch.feed(STALL_S)
                start += num_bytes
