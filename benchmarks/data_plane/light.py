"""Silos without training: an update that is ready at once, and all silos ready at one instant.

`keeping` is a silo as it is, with its state folder: models and updates are written to files.
`streaming` keeps nothing: it makes the bytes of its update frame by frame and checks those of the
model frame by frame, so that sixteen of them with 1 GB each fit where one such silo would not.
"""

import contextlib
import queue
import resource
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
import xxhash
from torch import Tensor

from domo.errors import DomoError
from domo.meaning.value import NOTHING
from domo.model.flat import byte_view
from domo.model.layout import Entry, Layout, Section
from domo_client.rpc.control import Control
from domo_client.rpc.data import Data
from domo_client.rpc.session import Session
from domo_client.rpc.vectors import Vectors
from domo_client.state.folder import PendingUpdate, SiloState
from domo_proto.assignment import Announced, Assignment
from domo_proto.channel import TlsFiles
from domo_proto.codec import FRAME_BYTES, VectorId, decode_frame, encode_frame

PATIENCE_S = 1800.0
HEARTBEAT_S = 2.0


class Barrier(Protocol):
    """Of threads or of processes."""

    def wait(self, timeout: float | None = None) -> int:
        """Until all are here."""
        ...


class Stamp(NamedTuple):
    """What a silo tells the benchmark; seconds of the machine's monotonic clock.

    Attributes:
        silo: Its number.
        what: `ready` (the update exists), `sent` (it was accepted), `got` (x_r is here).
        round_index: r.
        at_s: When.
        cpu_s: CPU seconds of its process until now.
        peak_mb: VmHWM of its process.
    """

    silo: int
    what: str
    round_index: int
    at_s: float
    cpu_s: float
    peak_mb: float


class Stamps(Protocol):
    """A queue of threads or of processes."""

    def put(self, item: Stamp) -> None:
        """Give one to the benchmark."""
        ...


def layout_of(num_params: int) -> Layout:
    """The layout of a model that is one vector."""
    return Layout((Entry("w", (num_params,), "float32", Section.TRAINABLE),), {})


def value_of(silo: int) -> float:
    """Every entry of d_k of silo k, in each round."""
    return 1e-3 * (silo + 1)


class Checked(Vectors):
    """Keeps nothing of what comes, but checks it."""

    seen: Collection[str] = ()

    def receive(
        self,
        assignment: Assignment[Announced],
        stream: Iterator[bytes],
        watch: Any,
        own: Collection[str],
    ) -> dict[VectorId, Tensor]:
        """Frame by frame."""
        for vector_id, told in assignment.vectors.items():
            whole, at = xxhash.xxh3_128(), 0
            while told.sent and at < told.num_bytes:
                frame = decode_frame(next(stream))
                if (frame.vector_id, frame.offset) != (vector_id, at):
                    raise RuntimeError("frames do not follow")
                whole.update(frame.payload)
                at += len(frame.payload)
                watch.feed(120.0)
            if told.sent and whole.digest() != told.digest:
                raise RuntimeError("the model does not fit its digest")
        if assignment.vectors:
            self.seen = [told.digest.hex() for told in assignment.vectors.values()]
        return {}


class Streaming(Data):
    """Keeps nothing of what it receives, and makes up what it sends."""

    def __init__(self, session: Session, state: SiloState):
        super().__init__(session, state)
        self.vectors: Checked = Checked(session, state)

    def _frames(
        self, header: bytes, update: PendingUpdate, data: Any, offset: int, watch: Any
    ) -> Iterator[bytes]:
        yield header
        (vector_id, num_bytes), *others = update.vectors
        for vector in (vector_id, *(v for v, _ in others)):
            for at in range(0, num_bytes, FRAME_BYTES):
                piece = self.block[: min(FRAME_BYTES, num_bytes - at)]
                yield encode_frame(vector, at, piece)
                watch.feed(120.0)

    def make_up(self, num_params: int, vectors: int, value: float) -> None:
        """The bytes of an update: its vectors are this value everywhere."""
        self.block = byte_view(torch.full((FRAME_BYTES // 4,), value))
        whole = xxhash.xxh3_128()
        for _ in range(vectors):
            for at in range(0, 4 * num_params, FRAME_BYTES):
                whole.update(self.block[: min(FRAME_BYTES, 4 * num_params - at)])
        self.digest = whole.hexdigest()


def run(
    silo: int,
    address: str,
    folder: Path,
    num_params: int,
    vectors: int,
    keeps: bool,
    together: Barrier,
    stamps: Stamps,
    pause_s: float = 0.0,
    tls: TlsFiles | None = None,
) -> None:
    """Take part in one run; the body of a process or of a thread.

    Args:
        silo: Its number.
        address: The coordinator's.
        folder: Its state folder.
        num_params: n.
        vectors: Vectors of an update: 2 where local momentum is averaged.
        keeps: Whether it is `keeping`, or `streaming`.
        together: All silos wait here before their updates are ready.
        stamps: Where it says what it has done.
        pause_s: How long it does nothing before its update is ready.
        tls: Its certificate, where silos show one.
    """
    torch.set_num_threads(1)

    def stamp(what: str, r: int) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        stamps.put(Stamp(silo, what, r, time.monotonic(), cpu_s, used.ru_maxrss / 1000))

    ids = (VectorId.UPDATE, VectorId.LOCAL_MOMENTUM)[:vectors]
    state = SiloState(folder)
    session = Session(address, f"silo-{silo:03d}", state.instance_id, tls=tls)
    control = Control(session)
    data = Data(session, state) if keeps else Streaming(session, state)
    ended = threading.Event()
    session.join()
    threading.Thread(target=_beat, args=(control, ended), daemon=True).start()
    layout = layout_of(num_params)
    data.vectors.expect(layout)
    if isinstance(data, Streaming):
        data.make_up(num_params, vectors, value_of(silo))
    else:
        update = torch.full((num_params,), value_of(silo))
    while (offer := control.wait_for_run()) is None:
        pass
    control.enroll(offer, layout, 1, 0, NOTHING)
    while True:
        own = data.vectors.seen if isinstance(data, Streaming) else ()
        told, _ = data.fetch_round(offer.run_id, own=list(own))
        if told.action == "ASK_AGAIN":
            continue
        r = told.round_index
        stamp("got", r)
        if told.action == "END":
            break
        time.sleep(pause_s)
        together.wait(PATIENCE_S)
        stamp("ready", r)
        if isinstance(data, Streaming):
            sizes = [(v, 4 * num_params) for v in ids]
            views = None
            pending = PendingUpdate(offer.run_id, r, "", data.digest, sizes, told.num_steps, {})
        else:
            made = [(v, byte_view(update)) for v in ids]
            views = [view for _, view in made]
            basis = f"{offer.config.digest}/{told.digests[VectorId.X]}"
            pending = state.save_pending(offer.run_id, r, basis, made, told.num_steps, {})
        answer, text = data.submit(pending, views)
        if answer != "ACCEPTED":
            raise RuntimeError(f"silo {silo}: {answer}: {text}")
        stamp("sent", r)
    ended.set()
    session.close()
    state.close()


def _beat(control: Control, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_S):
        with contextlib.suppress(DomoError):  # the run is over
            control.report(phase="waiting", run_id="", round_index=0, step=0, num_steps=0)


def threads_of(
    silos: int, body: Callable[[int, Barrier, Stamps], None]
) -> tuple["queue.Queue[Stamp]", list[threading.Thread]]:
    """Silos as threads of this process."""
    together, stamps = threading.Barrier(silos), queue.Queue[Stamp]()
    threads = [threading.Thread(target=body, args=(k, together, stamps)) for k in range(silos)]
    for thread in threads:
        thread.start()
    return stamps, threads
