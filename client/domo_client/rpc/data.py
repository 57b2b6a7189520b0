"""The data rpcs of a silo: models in, updates out, vectors to frames and back."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import torch
import xxhash
from torch import Tensor

from domo.errors import CoordinatorUnavailableError, DeadlineError, ProtocolError
from domo.model.flat import byte_view
from domo_client.rpc.assignment import Turn, check_header, turn_of
from domo_client.rpc.connection import CALL_S, Line
from domo_client.rpc.watchdog import Watchdog
from domo_client.state.folder import PendingUpdate
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES, VectorId, decode_frame, encode_frame, parse
from domo_proto.errors import from_rpc
from domo_proto.v1 import federation_pb2 as pb

T = TypeVar("T")

STALL_S = 120.0
"""Longest silence within a transfer."""
TRANSFER_S = 24 * 3600.0
"""Deadline of one transfer; the next attempt goes on where it ended."""

KNOWN = {
    pb.ACCEPTED: "the coordinator had it already",
    pb.STALE: "its round is over, or another update of this silo counts",
}
"""What is said of an update that need not be sent."""
DTYPES = {VectorId.INTEGER_BUFFERS: torch.uint8, VectorId.FROZEN: torch.uint8}


class Transfers(Line):
    """A line that carries vectors."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        name = "/domo_proto.v1.FederationData/"
        self._fetch: Any = self.channel.unary_stream(name + "FetchRound")
        self._submit: Any = self.channel.stream_unary(name + "SubmitUpdate")
        self.round_told = 0  # of the newest turn, kept or not
        self.page_locked = False  # whether vectors go on to a GPU
        self.sizes: Mapping[int, int] = {}  # of the vectors that may come, by id
        self.on_damage: Callable[[str], None] = lambda text: None
        self._reached = ("", 0)
        self._furthest: dict[str, int] = {}  # bytes of the turn's vectors that were ever here
        self._misfits: Counter[str] = Counter()  # how often each did not fit its digest
        self._memory: dict[str, Tensor] = {}  # vectors of the newest turn, by digest
        self._digests: Mapping[VectorId, str] = {}

    def fetch_round(self, run_id: str, evaluated_index: int, own: Sequence[str] = ()) -> Turn:
        """Wait for the next turn, and receive what this silo lacks.

        Args:
            run_id: The run.
            evaluated_index: Newest model whose numbers were sent; -1: none.
            own: Digests of vectors that the model itself holds (frozen parameters).

        Raises:
            ProtocolError: What the coordinator says does not fit the model.
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
            header = parse(pb.RoundHeader, first)
            self.round_told = header.round_index
            check_header(header, self.sizes)
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
        if needed:
            self._furthest = {d: n for d, n in self._furthest.items() if d in needed}
            self._misfits = Counter({d: n for d, n in self._misfits.items() if d in needed})
        free = [self._memory.pop(d) for d in list(self._memory) if d not in needed]
        if self.page_locked and free:
            torch.cuda.synchronize()  # copies to the GPU may still read them
        for info in header.vectors:
            vector_id, digest = VectorId(info.id), info.digest.hex()
            dtype = DTYPES.get(vector_id, torch.float32)
            if info.sent:
                target = _like(free, info.num_bytes, dtype, self.page_locked)
                vectors[vector_id] = self._receive(info, target, needed, stream, watch)
            elif self._may_use(digest, dtype, vectors.values()):
                vectors[vector_id] = self._memory[digest]
            elif vector_id is not VectorId.FROZEN or digest not in own:
                target = _like(free, info.num_bytes, dtype, self.page_locked)
                vectors[vector_id] = self.state.get(digest, target)
        if digests:
            self._digests = digests
            self._memory = {digests[v]: vector for v, vector in vectors.items()}
            self.state.keep_only(needed)
        return turn_of(header, vectors, digests)

    def _may_use(self, digest: str, dtype: torch.dtype, used: Collection[Tensor]) -> bool:
        """Whether memory has a vector; it is given once: who receives it may overwrite it."""
        old = self._memory.get(digest)
        return old is not None and old.dtype == dtype and all(old is not v for v in used)

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
        digest, before = info.digest.hex(), self.advanced
        with self.state.part(digest, needed) as part:
            part.begin(target[:at])
            while at < info.num_bytes:
                message = next(stream, b"")
                frame = decode_frame(message)
                size = len(frame.payload)
                if not size:
                    raise ProtocolError("the coordinator has sent an empty frame")
                if frame.vector_id != info.id or frame.offset != at or at + size > info.num_bytes:
                    raise ProtocolError("frames of a vector must follow in order and without gaps")
                part.append(frame.payload)
                target[at : at + size] = frame.payload
                at += size
                self.bytes_received += len(message) - HEAD_BYTES
                if at > self._furthest.get(digest, 0):
                    self._furthest[digest] = at
                    self.advanced += 1
                watch.feed(STALL_S)
            fits = xxhash.xxh3_128_digest(target) == info.digest
            if not fits:
                self.advanced = before
                self._note_misfit(VectorId(info.id).name, digest)
            part.finish(fits)
        return vector

    def _note_misfit(self, name: str, digest: str) -> None:
        self._misfits[digest] += 1
        times = self._misfits[digest]
        if times > 1 and not times & (times - 1):  # seldom, where nobody mends it
            self.on_damage(
                f"{name} of round {self.round_told + 1} has come {times} times and does not fit "
                "its digest: its file may be damaged at the coordinator"
            )

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
            self.advanced += 1

        def send(watch: Watchdog) -> bytes:
            frames = self._frames(header.SerializeToString(), update, data, status.offset, watch)
            return bytes(watch.guard(self._submit.future(frames, timeout=TRANSFER_S)).result())

        with self.counts.timed("uploading"):
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
