"""The vectors that came last: received, kept in memory and on disk, given to the trainer."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

import torch
import xxhash
from torch import Tensor

from domo.errors import ProtocolError
from domo.model.flat import byte_view
from domo.model.layout import Layout
from domo.outside.text import Public
from domo_client.rpc.session import Session
from domo_client.rpc.watchdog import Watchdog
from domo_client.state.download import Part
from domo_client.state.folder import SiloState
from domo_proto.assignment import Announced, Assignment, sizes_of
from domo_proto.codec import HEAD_BYTES, VectorId, decode_frame

STALL_S = 120.0
"""Longest silence within a transfer."""
DTYPES = {VectorId.INTEGER_BUFFERS: torch.uint8, VectorId.FROZEN: torch.uint8}


class Vectors:
    """What came down last.

    Args:
        session: Whose counts grow.
        state: The vectors' files.

    Attributes:
        sizes: Bytes of the vectors that may come, by id.
        on_damage: Told that a vector comes damaged again and again; it is fetched on.
    """

    def __init__(self, session: Session, state: SiloState):
        self._session, self._state = session, state
        self.sizes: Mapping[int, int] = {}
        self._page_locked = False
        self.on_damage: Callable[[Public], None] = lambda text: None
        self._furthest: dict[str, int] = {}  # bytes of its vectors that were ever here
        self._misfits: Counter[str] = Counter()  # how often each did not fit its digest
        self._memory: dict[str, Tensor] = {}  # its vectors, by digest
        self._digests: Mapping[VectorId, str] = {}

    def expect(self, layout: Layout, page_locked: bool = False) -> None:
        """From now on vectors of this model come; `page_locked`: they go on to a GPU."""
        self.forget()
        self.sizes, self._page_locked = sizes_of(layout), page_locked

    def receive(
        self,
        assignment: Assignment[Announced],
        stream: Iterator[bytes],
        watch: Watchdog,
        own: Collection[str],
    ) -> dict[VectorId, Tensor]:
        """The vectors of an assignment, from the coordinator, memory or disk.

        Args:
            assignment: Whose.
            stream: The frames that follow its header.
            watch: Told of progress.
            own: Digests of vectors that the model itself holds; they are left out.

        Raises:
            ChecksumError: One does not fit its digest; the next fetch brings it.
            ProtocolError: The frames do not follow.
        """
        if not assignment.vectors:  # nothing to do yet; what is here may be needed next
            return {}
        digests = assignment.digests
        vectors: dict[VectorId, Tensor] = {}
        needed = set(digests.values())
        self._furthest = {d: n for d, n in self._furthest.items() if d in needed}
        self._misfits = Counter({d: n for d, n in self._misfits.items() if d in needed})
        free = [self._memory.pop(d) for d in list(self._memory) if d not in needed]
        if self._page_locked and free:
            torch.cuda.synchronize()  # copies to the GPU may still read them
        for vector_id, told in assignment.vectors.items():
            digest = digests[vector_id]
            dtype = DTYPES.get(vector_id, torch.float32)
            if told.sent:
                target = _like(free, told.num_bytes, dtype, self._page_locked)
                where = f"{vector_id.name} of round {assignment.round_index + 1}"
                with self._state.part(digest, needed) as part:
                    self._receive(vector_id, told, where, target, part, stream, watch)
                vectors[vector_id] = target
            elif self._may_use(digest, dtype, vectors.values()):
                vectors[vector_id] = self._memory[digest]
            elif vector_id is not VectorId.FROZEN or digest not in own:
                target = _like(free, told.num_bytes, dtype, self._page_locked)
                vectors[vector_id] = self._state.get(digest, target)
        self._digests = digests
        self._memory = {digests[v]: vector for v, vector in vectors.items()}
        self._state.keep_only(needed)
        return vectors

    def forget(self) -> None:
        """A run is over, and the memory of its vectors is free."""
        self._memory, self._digests = {}, {}

    def spend(self, vector_ids: Collection[VectorId]) -> None:
        """These vectors are about to be overwritten by who received them."""
        for vector_id in vector_ids:
            digest = self._digests.get(vector_id)
            if digest in self._memory:
                self._memory[f"spent {digest}"] = self._memory.pop(digest)

    def _may_use(self, digest: str, dtype: torch.dtype, used: Collection[Tensor]) -> bool:
        """Whether memory has a vector; it is given once: who receives it may overwrite it."""
        old = self._memory.get(digest)
        return old is not None and old.dtype == dtype and all(old is not v for v in used)

    def _receive(
        self,
        vector_id: VectorId,
        told: Announced,
        where: str,
        vector: Tensor,
        part: Part,
        stream: Iterator[bytes],
        watch: Watchdog,
    ) -> None:
        """Receive a vector, or the rest of one, into `vector` and the state folder."""
        target, at, size = byte_view(vector), told.offset, told.num_bytes
        digest, before = told.digest.hex(), self._session.advanced
        part.begin(target[:at])
        while at < size:
            message = next(stream, b"")
            frame = decode_frame(message)
            end = at + len(frame.payload)
            if end == at:
                raise ProtocolError("the coordinator has sent an empty frame")
            if frame.vector_id != vector_id or frame.offset != at or end > size:
                raise ProtocolError("frames of a vector must follow in order and without gaps")
            part.append(frame.payload)
            target[at:end] = frame.payload
            at = end
            self._session.counts.bytes_received += len(message) - HEAD_BYTES
            if at > self._furthest.get(digest, 0):
                self._furthest[digest] = at
                self._session.advanced += 1
            watch.feed(STALL_S)
        fits = xxhash.xxh3_128_digest(target) == told.digest
        if not fits:
            self._session.advanced = before
            self._note_misfit(where, digest)
        part.finish(fits)

    def _note_misfit(self, where: str, digest: str) -> None:
        self._misfits[digest] += 1
        times = self._misfits[digest]
        if times > 1 and not times & (times - 1):  # seldom, where nobody mends it
            text = (
                f"{where} has come {times} times and does not fit its digest: its file may be "
                "damaged at the coordinator"
            )
            self.on_damage(Public(text))


def _like(free: list[Tensor], num_bytes: int, dtype: torch.dtype, page_locked: bool) -> Tensor:
    """A vector of this size: one of those no longer needed (its memory is in place), or new."""
    for i, old in enumerate(free):
        if old.dtype == dtype and old.numel() * dtype.itemsize == num_bytes:
            return free.pop(i)
    return torch.empty(num_bytes // dtype.itemsize, dtype=dtype, pin_memory=page_locked)
