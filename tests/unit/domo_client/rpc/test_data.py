"""A silo and a coordinator that says whatever it is told to: nothing is believed unchecked."""

import gc
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
import xxhash
from torch import nn

from domo.errors import ChecksumError, ProtocolError
from domo.model.flat import byte_view
from domo.model.layout import Layout
from domo_client.rpc import session as line
from domo_client.rpc.data import Data
from domo_client.rpc.session import Session
from domo_client.rpc.watchdog import Watchdog
from domo_client.state.folder import SiloState
from domo_proto.assignment import read_header
from domo_proto.codec import VectorId, encode_frame
from domo_proto.v1 import federation_pb2 as pb

MODEL = nn.BatchNorm1d(2)
X = torch.tensor([1.0, 2.0, 3.0, 4.0])
DIGEST = xxhash.xxh3_128_digest(byte_view(X))


class Liar(grpc.GenericRpcHandler):
    """A coordinator's data rpcs; `turns` are the messages of the next answers to `FetchRound`."""

    def __init__(self) -> None:
        self.turns: list[Iterable[bytes]] = []
        self.answer = b""
        self.deaths = 0
        self.state = pb.ABSENT

    def service(self, details: Any) -> grpc.RpcMethodHandler:
        if details.method.endswith("FetchRound"):
            return grpc.unary_stream_rpc_method_handler(lambda _, context: iter(self.turns.pop(0)))
        if details.method.endswith("UploadStatus"):
            status = pb.UploadStatusResponse(state=self.state).SerializeToString()
            return grpc.unary_unary_rpc_method_handler(lambda _, context: status)
        return grpc.stream_unary_rpc_method_handler(lambda stream, _: self._taken(stream))

    def _taken(self, stream: Iterator[bytes]) -> bytes:
        list(stream)
        if self.deaths:
            self.deaths -= 1
            raise RuntimeError("the coordinator dies")
        return self.answer


@pytest.fixture
def liar() -> Liar:
    return Liar()


@pytest.fixture
def silo(liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Data]:
    monkeypatch.setattr(line, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(line, "JITTER_S", 0.0)
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[liar])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    state = SiloState(tmp_path / "state")
    session = Session(f"127.0.0.1:{port}", "a", state.instance_id)
    it = Data(session, state)
    it.vectors.expect(Layout.of(MODEL))
    yield it
    session.close()
    state.close()
    server.stop(None).wait()


def vector(**changes: Any) -> pb.VectorInfo:
    return pb.VectorInfo(**{"id": pb.X, "num_bytes": 16, "digest": DIGEST, "sent": True, **changes})


def header(*vectors: pb.VectorInfo, **changes: Any) -> bytes:
    values = {"action": pb.TRAIN, "round_index": 6, "num_steps": 1, "local_lr": 0.1}
    return pb.RoundHeader(**{**values, **changes}, vectors=vectors).SerializeToString()


def frame(x: torch.Tensor = X, at: int = 0) -> bytes:
    return encode_frame(VectorId.X, at, byte_view(x))


def test_a_turn_that_fits(liar: Liar, silo: Data) -> None:
    buffers = vector(id=pb.FLOAT_BUFFERS, num_bytes=16, sent=False)
    liar.turns = [[header(vector(), buffers), frame()]]
    told, vectors = silo.fetch_round("1-r")
    assert (told.action, told.round_index, told.num_steps) == ("TRAIN", 6, 1)
    assert torch.equal(vectors[VectorId.X], X)


def test_an_answer_is_read_to_its_end(liar: Liar, silo: Data) -> None:
    ended = threading.Event()

    def turn() -> Iterator[bytes]:
        yield header(vector())
        yield frame()
        time.sleep(0.3)
        ended.set()

    liar.turns = [turn()]
    silo.fetch_round("1-r")
    assert ended.is_set()  # the coordinator measures until here


def test_an_answer_that_goes_on_is_refused(liar: Liar, silo: Data) -> None:
    liar.turns = [[header(vector()), frame(), frame()]]
    with pytest.raises(ProtocolError, match="sent more than it had announced"):
        silo.fetch_round("1-r")


def test_an_answer_with_nothing_in_it_is_asked_for_again(liar: Liar, silo: Data) -> None:
    """No coordinator gives one: somebody in between has."""
    liar.turns = [[], [header(vector()), frame()]]
    _, vectors = silo.fetch_round("1-r")
    assert torch.equal(vectors[VectorId.X], X)


WHERE = "the coordinator's header of round 7"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([b"\xff\xff"], "the first message is no RoundHeader"),
        ([header(action=77)], f"{WHERE} asks for action 77"),
        ([header()], f"{WHERE} has no X"),
        ([header(vector(), num_steps=0)], "asks for 0 local steps with step size 0.1"),
        ([header(vector(), local_lr=float("nan"))], "1 local steps with step size nan"),
        ([header(vector(), local_lr=0.0), frame()], "1 local steps with step size 0.0"),
        ([header(vector(), local_lr=-0.1), frame()], "1 local steps with step size -0.1"),
        ([header(vector(), inference_scale=-0.5), frame()], "has an inference scale of -0.5"),
        ([header(vector(), inference_scale=0.0)], f"{WHERE} has an inference scale of 0.0"),
        (
            [header(vector(), inference_scale=float("inf"))],
            f"{WHERE} has an inference scale of inf",
        ),
        (
            [header(vector(), counted_round=5, counted_digest=b"x")],
            "of 1 bytes for the update that",
        ),
        ([header(vector(id=99))], f"{WHERE} has a vector of id 99"),
        ([header(vector(id=pb.UPDATE))], f"{WHERE} has a vector of id 7"),
        ([header(vector(), vector())], f"{WHERE} has X twice"),
        ([header(vector(num_bytes=1 << 60))], f"says {1 << 60} bytes of X; the model has 16"),
        ([header(vector(offset=17))], "begins X at byte 17 of 16"),
        ([header(vector(digest=b"xyz"))], "a digest of 3 bytes for X, not 16"),
        ([header(vector()), frame(X[:0])], "an empty frame"),
        ([header(vector()), frame(torch.zeros(5))], "must follow in order and without gaps"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    messages: list[bytes], text: str, liar: Liar, silo: Data
) -> None:
    liar.turns = [messages]
    with pytest.raises(ProtocolError, match=text):
        silo.fetch_round("1-r")
    assert silo._state.held() == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"\xff\xff", "is no SubmitResponse"),
        (pb.SubmitResponse(state=77).SerializeToString(), "says state 77 of an update"),
    ],
)
def test_an_answer_to_an_update_that_is_none(
    answer: bytes, text: str, liar: Liar, silo: Data
) -> None:
    liar.answer = answer
    update = silo._state.save_pending("1-r", 6, "c/x", [(VectorId.UPDATE, byte_view(X))], 1, {})
    with pytest.raises(ProtocolError, match=text):
        silo.submit(update)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (pb.ACCEPTED, "the coordinator had it already"),
        (pb.STALE, "its round is over, or another update of this silo counts"),
    ],
)
def test_an_update_that_need_not_be_sent(
    state: pb.UploadState, text: str, liar: Liar, silo: Data
) -> None:
    liar.state = state
    update = silo._state.save_pending("1-r", 6, "c/x", [(VectorId.UPDATE, byte_view(X))], 1, {})
    assert silo.submit(update) == (pb.UploadState.Name(state), text)


def test_a_model_that_is_damaged_at_the_coordinator(liar: Liar, silo: Data) -> None:
    """No progress is counted, so the pauses grow; and from the second time on it is said."""
    said: list[str] = []
    silo.vectors.on_damage = said.append
    wrong = [header(vector()), frame(X[:2]), frame(X[:2], 8)]
    told = read_header(pb.RoundHeader.FromString(wrong[0]), silo.vectors.sizes)
    with Watchdog(60.0) as watch:
        for times in range(1, 5):
            with pytest.raises(ChecksumError, match="does not fit its digest"):
                silo.vectors.receive(told, iter(wrong[1:]), watch, ())
            assert silo._session.advanced == 0
            assert len(said) == times // 2
    assert said[0].startswith("X of round 7 has come 2 times and does not fit its digest")
    liar.turns = [
        wrong,
        [header(vector()), frame(X[:2])],
        [header(vector(offset=8)), frame(X[2:], 8)],
    ]
    assert torch.equal(silo.fetch_round("1-r")[1][VectorId.X], X)
    assert silo._session.advanced == 0  # nothing got further than it had been


def test_vectors_stay_in_memory_through_long_waits_and_go_with_their_run(
    liar: Liar, silo: Data
) -> None:
    """A wait that is longer than the long poll comes in pieces; the disk is not read after it."""
    wait = header(action=pb.ASK_AGAIN, num_steps=0)
    before = vector(id=pb.X_PREV, digest=DIGEST, sent=False)
    later = torch.tensor([5.0, 6.0, 7.0, 8.0])
    new = vector(digest=xxhash.xxh3_128_digest(byte_view(later)))
    liar.turns = [[header(vector()), frame()], [wait], [wait], [header(new, before), frame(later)]]
    first = silo.fetch_round("1-r")[1][VectorId.X]
    for path in silo._state.folder.glob("vectors/*"):
        path.write_bytes(b"damaged")
    assert [silo.fetch_round("1-r")[0].action for _ in range(2)] == ["ASK_AGAIN"] * 2
    _, vectors = silo.fetch_round("1-r")
    assert vectors[VectorId.X_PREV] is first
    assert torch.equal(vectors[VectorId.X], later)
    assert len(silo.vectors._memory) == 2
    silo.vectors.forget()
    assert not silo.vectors._memory


def test_two_vectors_of_the_same_bytes_never_share_memory(liar: Liar, silo: Data) -> None:
    """The trainer overwrites x_{r-1}, and then x_r."""
    before = vector(id=pb.X_PREV, sent=False)
    liar.turns = [[header(vector()), frame()], [header(vector(sent=False), before)]]
    silo.fetch_round("1-r")
    _, vectors = silo.fetch_round("1-r")
    vectors[VectorId.X_PREV].zero_()
    assert torch.equal(vectors[VectorId.X], X)


class Held:
    """What whoever made the call has in hand, such as the vectors of a round."""


@pytest.mark.parametrize("upload", [False, True])
def test_a_call_that_failed_keeps_nothing_of_who_made_it(
    upload: bool, liar: Liar, silo: Data
) -> None:
    """The garbage collector counts objects, not bytes."""

    def broken() -> Iterator[bytes]:
        yield header(vector())
        raise RuntimeError("the coordinator dies")

    def make_the_call() -> weakref.ref[Held]:
        held = Held()
        if upload:
            silo.submit(update)
        else:
            silo.fetch_round("1-r")
        return weakref.ref(held)

    update = silo._state.save_pending("1-r", 6, "", [(VectorId.UPDATE, byte_view(X))], 1, {})
    liar.turns = [broken(), [header(vector()), frame()]]
    liar.deaths, liar.answer = 1, pb.SubmitResponse(state=pb.ACCEPTED).SerializeToString()
    gc.disable()
    try:
        assert make_the_call()() is None
        assert silo._session.counts.retries == 1
    finally:
        gc.enable()
