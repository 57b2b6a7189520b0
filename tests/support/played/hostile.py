"""A coordinator on the wire that says whatever it is told to, for real silos.

It plays one run of one small module rightly by itself: joins, offers, enrols, hands out rounds,
takes updates. A test puts another answer in the place of any call, or changes a header.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc
import xxhash
from torch import nn

from domo.model.flat import FlatModel, byte_view
from domo.run_config import RunConfig
from domo_proto.assignment import SECTIONS, Action, Announced, Assignment
from domo_proto.codec import FRAME_BYTES, VectorId, decode_frame, encode_frame
from domo_proto.v1 import federation_pb2 as pb

CONTROL, DATA = "domo_proto.v1.Federation", "domo_proto.v1.FederationData"
RUN_ID = "1-hostile"
Answer = Callable[[Any], Any]


class Hostile:
    """A coordinator; a context manager.

    Args:
        module: The run's model: x_0 is what is in it.
        config: The run as it is told, also with nonsense in it.
        samples: What the silo will say it has.
        silo_id: The silo that is played to.

    Attributes:
        address: host:port of loopback.
        heard: Every request, as (name of the rpc, message), in order.
        answers: Name of an rpc -> what gives its answer, in place of the right one; what it raises
            is an error of the wire. FetchRound and Attend give an iterable, FetchRound's of bytes.
        headers: Given the rounds that were handed out so far, and the right header: gives the one
            that is sent. By default the right one.
        updates: The vectors of each update that came.
        offer: The message of the offer; None: nothing is offered.
    """

    def __init__(
        self,
        module: nn.Module,
        config: Mapping[str, Any],
        samples: int = 0,
        silo_id: str = "site-a",
        workers: int = 16,
    ):
        self.config = RunConfig.model_validate({"task": "own:Loop", "num_silos": 1, **config})
        self.samples, self.silo_id = samples, silo_id
        flat = FlatModel(module)
        self.layout = flat.layout
        self.vectors = {v: flat.read(s) for v, s in SECTIONS.items() if len(flat.read(s))}
        self.vectors = {v: t for v, t in self.vectors.items() if v not in _BESIDE}
        self.heard: list[tuple[str, Any]] = []
        self.answers: dict[str, Answer] = {}
        self.headers: Callable[[int, pb.RoundHeader], pb.RoundHeader] = lambda n, header: header
        self.round_index, self.handed = 0, 0
        self.updates: list[dict[VectorId, bytes]] = []
        self.declined: dict[str, str] = {}
        self.offer: pb.RunOffer | None = pb.RunOffer(
            run_id=RUN_ID,
            title=self.config.title,
            task=self.config.task,
            config_json=self.config.model_dump_json(),
            config_digest=self.config.digest,
            layout_digest=bytes.fromhex(self.layout.digest),
        )
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(workers)
        self._server = grpc.server(self._pool)
        self._server.add_generic_rpc_handlers((self._control(), self._data()))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._over = threading.Event()
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.stop(0).wait(10)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # what it has heard

    def of(self, name: str) -> list[Any]:
        """The requests of one rpc so far."""
        with self._lock:
            return [message for rpc, message in self.heard if rpc == name]

    def until(self, good: Callable[[], Any], timeout_s: float = 30.0) -> Any:
        """The first truth of `good`."""
        end = time.monotonic() + timeout_s
        while not (found := good()):
            assert time.monotonic() < end, sorted({name for name, _ in self.heard})
            time.sleep(0.02)
        return found

    def hold(self, seconds: float) -> None:
        """Let time pass within an answer, until the test is over."""
        self._over.wait(seconds)

    # right answers

    def join(self, request: Any) -> Any:
        return pb.JoinResponse(
            session="s", report_interval_s=0.2, long_poll_s=1.0, max_frame_bytes=FRAME_BYTES
        )

    def wait_for_run(self, request: Any) -> Any:
        offer = self.offer
        if offer is None or offer.run_id in self.declined:
            self.hold(0.2)
            return pb.WaitForRunResponse()
        return pb.WaitForRunResponse(offer=offer)

    def assignment(self, **given: Any) -> Assignment[Announced]:
        """What a silo is rightly to do now, with some of it changed."""
        r, config = self.round_index, self.config
        vectors = {
            v: Announced(len(byte_view(t)), _digest(t), True, 0) for v, t in self.vectors.items()
        }
        over = r >= config.num_rounds
        values: dict[str, Any] = {
            "action": Action.END if over else Action.TRAIN,
            "run_id": RUN_ID,
            "round_index": r,
            "num_rounds": config.num_rounds,
        }
        if over:
            values |= {"outcome": "FINISHED", "text": "all rounds are done"}
        else:
            values |= {
                "num_steps": config.steps_at(r, self.silo_id, self.samples),
                "local_lr": config.lr_at(r),
                "vectors": vectors,
            }
        return Assignment(**{**values, **given})

    def fetch(self, request: Any) -> Iterator[bytes]:
        """The header, as the test has it, and the frames that it announces."""
        header = self.headers(self.handed, self.assignment().header(self.starts()))
        if header.action in (pb.TRAIN, pb.EVALUATE):
            self.handed += 1
        yield header.SerializeToString()
        for info in header.vectors:
            vector = self.vectors.get(VectorId(info.id)) if info.id in _KNOWN else None
            if info.sent and vector is not None:
                yield from self.frames(VectorId(info.id))

    def starts(self) -> dict[VectorId, int]:
        """Every vector is sent whole."""
        return dict.fromkeys(self.vectors, 0)

    def frames(self, vector_id: VectorId) -> Iterator[bytes]:
        """A vector."""
        view = byte_view(self.vectors[vector_id])
        for at in range(0, len(view), FRAME_BYTES):
            yield encode_frame(vector_id, at, view[at : at + FRAME_BYTES])

    def submit(self, header: Any) -> Any:
        """Take an update; the next round is open."""
        if header.round_index == self.round_index:
            self.round_index += 1
        return pb.SubmitResponse(state=pb.ACCEPTED)

    def report(self, request: Any) -> Any:
        return pb.ReportResponse(directive=pb.CONTINUE)

    def decline(self, request: Any) -> Any:
        self.declined[request.run_id] = request.reason
        return pb.DeclineResponse()

    def attend(self, request: Any) -> Iterable[Any]:
        while not self._over.is_set():
            self.hold(5.0)
            yield pb.AttendResponse()

    # the wire

    def _hear(self, name: str, right: Answer) -> Callable[[Any, Any], Any]:
        def answer(request: Any, context: Any) -> Any:
            with self._lock:
                self.heard.append((name, request))
            try:
                return self.answers.get(name, right)(request)
            except ConnectionError as error:
                context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

        return answer

    def _control(self) -> Any:
        right: dict[str, Answer] = {
            "Join": self.join,
            "WaitForRun": self.wait_for_run,
            "LookAtRun": lambda request: pb.LookAtRunResponse(offer=self.offer),
            "Enroll": lambda request: pb.EnrollResponse(enrolled=True),
            "Decline": self.decline,
            "UploadStatus": lambda request: pb.UploadStatusResponse(state=pb.ABSENT),
            "ReportEvaluation": lambda request: pb.ReportEvaluationResponse(),
            "Report": self.report,
            "Leave": lambda request: pb.LeaveResponse(),
        }
        unary = {
            name: grpc.unary_unary_rpc_method_handler(
                self._hear(name, one),
                getattr(pb, f"{name}Request").FromString,
                _as_bytes,
            )
            for name, one in right.items()
        }
        attend = grpc.unary_stream_rpc_method_handler(
            self._hear("Attend", self.attend), pb.AttendRequest.FromString, _as_bytes
        )
        return grpc.method_handlers_generic_handler(CONTROL, {**unary, "Attend": attend})

    def _data(self) -> Any:
        def fetch(request: bytes, context: Any) -> Iterator[bytes]:
            parsed = pb.FetchRequest.FromString(request)
            yield from self._hear("FetchRound", self.fetch)(parsed, context)

        def submit(messages: Iterator[bytes], context: Any) -> bytes:
            header = pb.UpdateHeader.FromString(next(messages))
            held: dict[VectorId, bytes] = {}
            for message in messages:
                frame = decode_frame(message)
                vector_id = VectorId(frame.vector_id)
                held[vector_id] = held.get(vector_id, b"") + bytes(frame.payload)
            self.updates.append(held)
            return _as_bytes(self._hear("SubmitUpdate", self.submit)(header, context))

        handlers = {
            "FetchRound": grpc.unary_stream_rpc_method_handler(fetch),
            "SubmitUpdate": grpc.stream_unary_rpc_method_handler(submit),
        }
        return grpc.method_handlers_generic_handler(DATA, handlers)


_BESIDE = (VectorId.X_PREV, VectorId.MEAN_MOMENTUM, VectorId.CONTROL)
_KNOWN = {v.value for v in SECTIONS}


def _digest(vector: Any) -> bytes:
    return xxhash.xxh3_128_digest(byte_view(vector))


def _as_bytes(message: Any) -> bytes:
    """A message as it travels; bytes as they are."""
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())
