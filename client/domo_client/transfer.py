"""The data rpcs of a silo: models in, updates out, vectors to frames and back."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import grpc
import torch
import xxhash
from torch import Tensor

from domo.errors import CoordinatorUnavailableError, DeadlineError, ProtocolError
from domo.vector import byte_view
from domo_client.line import CALL_S, Line
from domo_client.residual import Counted
from domo_client.state import PendingUpdate
from domo_client.watchdog import Watchdog
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES, VectorId, decode_frame, encode_frame
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb

T = TypeVar("T")

STALL_S = 120.0
"""Longest silence within a transfer."""
TRANSFER_S = 24 * 3600.0
"""Deadline of one transfer; the next attempt goes on where it ended."""

DTYPES = {VectorId.INTEGER_BUFFERS: torch.uint8, VectorId.FROZEN: torch.uint8}


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
    counted: Counted | None = None


class Transfers(Line):
    """A line that carries vectors."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        name = "/domo_proto.v1.FederationData/"
        self._fetch: Any = self.channel.unary_stream(name + "FetchRound")
        self._submit: Any = self.channel.stream_unary(name + "SubmitUpdate")
        self.round_told = 0  # of the newest turn, kept or not
        self.page_locked = False  # whether vectors go on to a GPU
        self._reached = ("", 0)
        self._memory: dict[str, Tensor] = {}  # vectors of the newest turn, by digest
        self._digests: Mapping[VectorId, str] = {}

    def fetch_round(self, run_id: str, evaluated_index: int, own: Sequence[str] = ()) -> Turn:
        """Wait for the next turn, and receive what this silo lacks.

        Args:
            run_id: The run.
            evaluated_index: Newest model whose numbers were sent; -1: none.
            own: Digests of vectors that the model itself holds (frozen parameters).
        """
        return self.ask(lambda s: self._fetch_once(s, run_id, evaluated_index, own))

    def _fetch_once(self, session: str, run_id: str, evaluated: int, own: Sequence[str]) -> Turn:
        have = [bytes.fromhex(d) for d in (*self.state.held(), *own)]
        request = pb.FetchRequest(
            session=session,
            run_id=run_id,
            have=have,
            evaluated_index=evaluated,
            compression="zstd" if self.zstd else "",
            partial=[
                pb.PartialVector(digest=bytes.fromhex(d), num_bytes=n)
                for d, n in self.state.parts().items()
            ],
        ).SerializeToString()

        def read(stream: Any, watch: Watchdog) -> Turn:
            first = next(stream, None)
            if first is None:
                raise ProtocolError("the coordinator ended its answer before it began")
            header = pb.RoundHeader.FromString(first)
            self.round_told = header.round_index
            watch.feed(STALL_S)
            with self.counts.timed("downloading"):
                return self._read_turn(header, stream, watch, set(own))

        hold_s = self.long_poll_s + CALL_S
        return self._watched(
            lambda watch: read(watch.guard(self._fetch(request, timeout=TRANSFER_S)), watch), hold_s
        )

    def spend(self, vector_ids: Collection[VectorId]) -> None:
        """These vectors of the newest turn are about to be overwritten by who received them."""
        for vector_id in vector_ids:
            digest = self._digests.get(vector_id)
            if digest in self._memory:
                self._memory[f"spent {digest}"] = self._memory.pop(digest)

    def _watched(self, work: Callable[[Watchdog], T], first_s: float) -> T:
        """Make a data rpc under a watchdog; its errors are `DomoError`."""
        with Watchdog(first_s) as watch:
            try:
                return work(watch)
            except (grpc.RpcError, grpc.FutureCancelledError) as error:
                if watch.barked:
                    raise DeadlineError(f"nothing moved to or from {self.address}") from None
                if isinstance(error, grpc.FutureCancelledError):
                    raise CoordinatorUnavailableError("the transfer was cancelled") from None
                raise from_rpc(error, self.address) from None
            except ValueError as error:
                if not self._closed:
                    raise
                raise CoordinatorUnavailableError("this silo has left") from error

    def _read_turn(
        self, header: Any, stream: Iterator[bytes], watch: Watchdog, own: set[str]
    ) -> Turn:
        digests = {VectorId(v.id): v.digest.hex() for v in header.vectors}
        vectors: dict[VectorId, Tensor] = {}
        needed = set(digests.values())
        free = [self._memory.pop(d) for d in list(self._memory) if d not in needed]
        if self.page_locked and free:
            torch.cuda.synchronize()  # copies to the GPU may still read them
        for info in header.vectors:
            vector_id, digest = VectorId(info.id), info.digest.hex()
            dtype = DTYPES.get(vector_id, torch.float32)
            if info.sent:
                target = _like(free, info.num_bytes, dtype, self.page_locked)
                vectors[vector_id] = self._receive(info, target, needed, stream, watch)
            elif digest in self._memory:
                vectors[vector_id] = self._memory[digest]
            elif digest not in own:
                target = _like(free, info.num_bytes, dtype, self.page_locked)
                vectors[vector_id] = self.state.get(digest, target)
        if digests:
            self._digests = digests
            self._memory = {digests[v]: vector for v, vector in vectors.items()}
            self.state.keep_only(needed)
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
            counted=(
                Counted(header.counted_round, header.counted_digest.hex())
                if header.HasField("counted_round")
                else None
            ),
        )

    def _receive(
        self,
        info: Any,
        vector: Tensor,
        needed: Collection[str],
        stream: Iterator[bytes],
        watch: Watchdog,
    ) -> Tensor:
        """Receive a vector, or the rest of one, into `vector` and the state folder."""
        target, at = byte_view(vector), info.offset
        with self.state.part(info.digest.hex(), needed) as part:
            part.begin(target[:at])
            while at < info.num_bytes:
                message = next(stream, b"")
                frame = decode_frame(message)
                size = len(frame.payload)
                if frame.vector_id != info.id or frame.offset != at or at + size > info.num_bytes:
                    raise ProtocolError("frames of a vector must follow in order and without gaps")
                part.append(frame.payload)
                target[at : at + size] = frame.payload
                at += size
                self.bytes_received += len(message) - HEAD_BYTES
                self.advanced += 1
                watch.feed(STALL_S)
            part.finish(xxhash.xxh3_128_digest(target) == info.digest)
        return vector

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
        return self.ask(lambda s: self._submit_once(s, update, data))

    def _submit_once(
        self, session: str, update: PendingUpdate, data: Sequence[memoryview] | None
    ) -> tuple[str, str]:
        status = self.call(
            self.stub.UploadStatus,
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
        if (update.digest, status.offset) != self._reached:
            self._reached = (update.digest, status.offset)
            self.advanced += 1

        def send(watch: Watchdog) -> bytes:
            frames = self._frames(header.SerializeToString(), update, data, status.offset, watch)
            return bytes(watch.guard(self._submit.future(frames, timeout=TRANSFER_S)).result())

        with self.counts.timed("uploading"):
            response = pb.SubmitResponse.FromString(self._watched(send, STALL_S))
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
        start = 0
        with self.state.pending_path.open("rb") as f:
            for i, (vector_id, num_bytes) in enumerate(update.vectors):
                for at in range(max(offset - start, 0), num_bytes, FRAME_BYTES):
                    size = min(FRAME_BYTES, num_bytes - at)
                    if data is None:
                        f.seek(start + at)
                        piece = memoryview(f.read(size))
                    else:
                        piece = data[i][at : at + size]
                    frame = encode_frame(vector_id, at, piece, self.zstd)
                    yield frame
                    self.bytes_sent += len(frame) - HEAD_BYTES
                    watch.feed(STALL_S)
                start += num_bytes


def _like(free: list[Tensor], num_bytes: int, dtype: torch.dtype, page_locked: bool) -> Tensor:
    """A vector of this size: one of those no longer needed (its memory is in place), or new."""
    for i, old in enumerate(free):
        if old.dtype == dtype and old.numel() * dtype.itemsize == num_bytes:
            return free.pop(i)
    return torch.empty(num_bytes // dtype.itemsize, dtype=dtype, pin_memory=page_locked)
