"""Attacks on a coordinator, one a row, while honest silos train: none of them gets anywhere.

After each attack the honest silos' model is that of a run that nobody attacked, to the byte. Floods
are in `benchmarks/floods.py`, what is sent to a silo in `test_hostile_header.py`.
"""

import contextlib
import http.client
import json
import socket
import ssl
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import zstandard

from domo import errors
from domo_proto.codec import FIELDS, HEAD_BYTES, VectorId, encode_frame
from domo_proto.v1 import federation_pb2 as pb
from tests.support.attacks.scene import Player, Scene, right_sections
from tests.support.certificates import SERVER, Authority, Pair
from tests.support.played.raw import fault

pytestmark = pytest.mark.slow

Attack = Callable[[Scene], None]
ROWS: list[Any] = []
HUGE = np.full(len(right_sections()["UPDATE"]), 3e38, "<f4")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, bytes]]:
    """The federation, and what a run ends with that nobody attacks."""
    scene = Scene(tmp_path_factory.mktemp("attacked"))
    try:
        scene.begin()
        yield scene, scene.end()
    finally:
        scene.close()


def row(*cases: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """An attack of the table: one row, or one for each case; those of one attack share a run."""

    def add(attack: Callable[..., None]) -> Callable[..., None]:
        ROWS.append(pytest.param(attack, cases, id=attack.__name__))
        return attack

    return add


def refused(kind: type[errors.DomoError], call: Any, *args: Any, **given: Any) -> str:
    """The text of a refusal of this kind, or of one below it."""
    found = fault(call, *args, **given)
    assert isinstance(found, kind), repr(found)
    assert str(found).isprintable()
    assert len(str(found)) <= 400
    return str(found)


MAY_SAY = {
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAVAILABLE,
}  # fmt: skip


def answer_of(call: Any, *args: Any, **given: Any) -> Any:
    """What is answered; None: it was refused, which is as good."""
    with contextlib.suppress(grpc.RpcError):
        try:
            return call(*args, **given)
        except grpc.RpcError as error:
            if error.code() not in MAY_SAY:
                raise AssertionError(repr(error)) from error
            raise
    return None


def cannot_connect(scene: Scene, pair: Pair | None) -> None:
    it = scene.player("site-a", pair) if pair else Player(scene.server, scene.channel(None), "n")
    refused(errors.CoordinatorUnavailableError, it.join, silo_id="site-a")


# who is let in


@row()
def no_client_certificate(scene: Scene) -> None:
    cannot_connect(scene, None)


@row("another", "self-signed")
def a_certificate_that_another_ca_has_signed(scene: Scene, which: str) -> None:
    other = Authority(scene.folder / f"ca-{which}", which)
    cannot_connect(scene, other.sign("site-a", "site-a"))


@row((-3.0, -1.0), (0.5, 1.0))
def a_certificate_whose_time_is_not_now(scene: Scene, days: tuple[float, float]) -> None:
    cannot_connect(scene, scene.ca.sign("wrong-time", "site-a", days=days))


@row(())
def a_certificate_without_a_use(scene: Scene, uses: tuple[Any, ...]) -> None:
    pair = scene.ca.sign("no-use", "site-x", uses=uses)
    text = refused(errors.AccessError, scene.player("site-x", pair).join)
    assert "clientAuth" in text


@row()
def a_certificate_of_a_server(scene: Scene) -> None:
    cannot_connect(scene, scene.ca.sign("server-only", "site-a", uses=(SERVER,)))


@row()
def the_name_of_another_silo(scene: Scene) -> None:
    text = refused(errors.AccessError, scene.stranger.join, silo_id="site-a")
    assert "site-x" in text


@row("Report", "WaitForRun", "Leave", "Decline", "Enroll", "ReportEvaluation", "UploadStatus")
def a_call_in_the_session_of_another(scene: Scene, method: str) -> None:
    session = scene.honest("site-a").session
    refused(errors.AccessError, scene.stranger.call, method, session=session)


@row()
def the_model_in_the_session_of_another(scene: Scene) -> None:
    session = scene.honest("site-a").session
    refused(errors.AccessError, scene.stranger.fetch, session=session, run_id=scene.run_id)


@row()
def an_update_in_the_session_of_another(scene: Scene) -> None:
    update = scene.update()
    session = scene.honest("site-a").session
    refused(errors.AccessError, update.send, who=scene.stranger, session=session)


@row()
def the_stream_of_another(scene: Scene) -> None:
    request = pb.AttendRequest(session=scene.honest("site-a").session)
    refused(errors.AccessError, lambda: list(scene.stranger.stub.Attend(request, timeout=30)))


@row("common name", "uri", "address", "*", "*.example.org", "SITE-A")
def a_name_that_is_not_the_dns_name(scene: Scene, kind: str) -> None:
    names = {"common name": ["site-z"], "uri": ["urn:site-a"], "address": ["10.0.0.1"]}
    pair = scene.ca.sign("site-a", *names.get(kind, [kind]))
    scene._pairs.setdefault("site-a", pair)
    refused(errors.AccessError, scene.player("site-a", pair).join)
    again = scene.ca.sign("site-a-again", "site-a")  # the files were the same ones
    assert again.cert.exists()


@row("localhost", "127.0.0.1", "coordinator")
def the_coordinators_own_certificate_as_a_silo(scene: Scene, name: str) -> None:
    thief = Player(scene.server, scene.channel(scene.own_pair), name)
    refused(errors.AccessError, thief.join)


@row()
def a_certificate_of_the_ca_that_nobody_has_admitted(scene: Scene) -> None:
    text = refused(errors.AccessError, scene.player("site-z").join)
    assert "admit" in text


@row()
def one_that_was_revoked(scene: Scene) -> None:
    it = scene.player("site-y")
    it.join()
    stream = it.stub.Attend(pb.AttendRequest(session=it.session), timeout=30)
    scene.server.post("/silos/site-y/revoke", {})
    began = time.monotonic()
    refused(errors.AccessError, lambda: list(stream))
    assert time.monotonic() - began < 5.0
    refused(errors.AccessError, it.join)
    scene.server.admit("site-y")


@row()
def a_certificate_that_ends_on_an_open_connection(scene: Scene) -> None:
    soon = 1.5 / 86_400
    it = scene.player("site-x", scene.ca.sign("short", "site-x", days=(-1, soon)))
    it.join()
    time.sleep(2.5)
    refused(errors.AccessError, it.call, "WaitForRun")


@row()
def the_same_name_from_another_state_folder(scene: Scene) -> None:
    refused(errors.SiloConflictError, scene.player("site-x").join, instance_id="other")


@row()
def plain_text_to_the_port_of_tls(scene: Scene) -> None:
    channel = grpc.insecure_channel(scene.server.address)
    it = Player(scene.server, channel, "site-x")
    refused(errors.CoordinatorUnavailableError, it.join)
    it.close()


@row(ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
def an_old_version_of_tls(scene: Scene, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    host, _, port = scene.server.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain)


@row("", "a b", "a/../b", "é", "x" * 65, "-a", "a\nb", ".")
def a_name_that_is_none(scene: Scene, name: str) -> None:
    refused(errors.DomoError, scene.stranger.join, silo_id=name)


@row("", "x" * 65)
def an_instance_that_is_none(scene: Scene, instance: str) -> None:
    refused(errors.ProtocolError, scene.stranger.join, instance_id=instance)


@row("", "0" * 32, "../../x", "x" * 10_000)
def a_session_that_was_guessed(scene: Scene, session: str) -> None:
    refused(errors.ProtocolError, scene.stranger.call, "Report", session=session)


# what takes part


@row(pb.EVALUATOR, pb.TRAINER)
def a_silo_that_the_run_does_not_name(scene: Scene, role: int) -> None:
    it = scene.stranger
    it.join(role=role)
    answer = it.call("WaitForRun")
    assert answer.offer.run_id == ""
    assert answer.text
    fits = {
        "config_digest": scene.offer.config_digest,
        "layout_digest": scene.offer.layout_digest,
    }
    refused(errors.DomoError, it.call, "Enroll", run_id=scene.run_id, num_eval_samples=9, **fits)
    refused(errors.DomoError, it.fetch, run_id=scene.run_id)


@row(9e99, 1e-99, -1e100)
def numbers_of_a_silo_that_has_no_place(scene: Scene, total: float) -> None:
    sums = {"accuracy": pb.MetricSum(total=total, num=1.0)}
    call = scene.stranger.call
    refused(errors.DomoError, call, "ReportEvaluation", run_id=scene.run_id, metrics=sums)


@row((9e99, 1e99), (19.0, 1.0), (1e6, 1e6), (-4.0, 4.0), (4.0, 1e-99), (float("nan"), 1.0))
def numbers_that_its_samples_cannot_give(scene: Scene, given: tuple[float, float]) -> None:
    sums = {"accuracy": pb.MetricSum(total=given[0], num=given[1])}
    call, told = scene.member.call, {"run_id": scene.run_id, "model_index": 1}
    answer_of(call, "ReportEvaluation", **told, metrics=sums)
    for point in scene.run()["metrics"]:
        assert 0.0 <= point["metrics"].get("accuracy", 0.5) <= 1.0
        assert point["metrics"].get("accuracy", 0.5) >= 0.25, point


@row(b"\0" * 16, b"", b"\0" * 10_000)
def a_layout_digest_that_is_none(scene: Scene, digest: bytes) -> None:
    call, offer = scene.member.call, scene.offer
    given = {"config_digest": offer.config_digest, "layout_digest": digest}
    answer = answer_of(call, "Enroll", run_id=scene.run_id, num_samples=4, **given)
    assert answer is None or not answer.enrolled


@row("", "0" * 64, "../../etc")
def a_configuration_that_is_another(scene: Scene, digest: str) -> None:
    given = {"config_digest": digest, "layout_digest": scene.offer.layout_digest}
    refused(errors.DomoError, scene.member.call, "Enroll", run_id=scene.run_id, **given)


@row("../../etc", "", "99-other", "%2e%2e", "x" * 5000)
def a_run_that_is_none(scene: Scene, run_id: str) -> None:
    for call in (
        lambda: scene.member.fetch(run_id=run_id),
        lambda: scene.member.call("Enroll", run_id=run_id, config_digest="x"),
        lambda: scene.update().send(run_id=run_id),
    ):
        refused(errors.DomoError, call)


@row(2**63, 2**64 - 1, 10**12)
def more_samples_than_there_can_be(scene: Scene, samples: int) -> None:
    offer = scene.offer
    fits = {"config_digest": offer.config_digest, "layout_digest": offer.layout_digest}
    call = scene.member.call
    refused(errors.DomoError, call, "Enroll", run_id=scene.run_id, num_samples=samples, **fits)


# updates


@row(0, 2, 2**32 - 1)
def an_update_of_another_round(scene: Scene, r: int) -> None:
    answer = scene.update(r).send()
    assert answer.state == pb.STALE


@row(np.nan, np.inf, -np.inf, 3e38, -3.4e38, 1e30)
def an_update_that_no_training_gives(scene: Scene, value: float) -> None:
    wild = right_sections()["UPDATE"]
    wild[-1] = value
    refused(errors.DomoError, scene.update(UPDATE=wild).send)


@row(3.4e38, -1e30, np.nan, np.inf)
def buffers_that_no_batch_gives(scene: Scene, value: float) -> None:
    wild = right_sections()["FLOAT_BUFFERS"]
    wild[0] = value
    refused(errors.DomoError, scene.update(FLOAT_BUFFERS=wild).send)


@row(-(2**63), 2**63 - 1, -1)
def counts_of_batches_that_nobody_made(scene: Scene, value: int) -> None:
    refused(errors.DomoError, scene.update(INTEGER_BUFFERS=np.array([value], "<i8")).send)


@row(0, 1, 3, 2**32 - 1)
def another_number_of_steps(scene: Scene, steps: int) -> None:
    refused(errors.ProtocolError, scene.update().send, num_steps=steps)


@row(b"\0" * 16, b"\0" * 17, b"", b"\0" * 10_000)
def a_digest_that_does_not_fit(scene: Scene, digest: bytes) -> None:
    refused(errors.DomoError, scene.update().send, digest=digest)


def sealed(vector: int, offset: int, payload: bytes, **fields: int) -> bytes:
    """A frame with a right checksum over whatever is in its head."""
    from benchmarks.fuzz.wire import reseal

    frame = bytearray(encode_frame(vector, offset, memoryview(payload)))
    magic, v, at, length, flags = FIELDS.unpack_from(frame)
    told = {"vector": v, "offset": at, "length": length, "flags": flags, **fields}
    head = FIELDS.pack(magic, told["vector"], told["offset"], told["length"], told["flags"])
    frame[: FIELDS.size] = head
    return reseal(frame)


X, U = int(VectorId.X), int(VectorId.UPDATE)
FRAMES: dict[str, Callable[[bytes], list[bytes]]] = {
    "of another vector": lambda p: [sealed(X, 0, p)],
    "at 2^63": lambda p: [sealed(U, 2**63, p)],
    "behind the end": lambda p: [sealed(U, len(p), p)],
    "that says 2^32-1 bytes": lambda p: [sealed(U, 0, p, length=2**32 - 1)],
    "of 3 MiB": lambda p: [sealed(U, 0, bytes(3 << 20))],
    "with a flag that nobody knows": lambda p: [sealed(U, 0, p, flags=4)],
    "with a wrong checksum": lambda p: [encode_frame(U, 0, memoryview(p))[:-1] + b"\xff"],
    "that is empty": lambda p: [b""],
    "that is a head": lambda p: [bytes(HEAD_BYTES)],
    "of garbage": lambda p: [b"\xff" * 100],
    "twice": lambda p: [sealed(U, 0, p), sealed(U, 0, p)],
    "a bomb of zstd": lambda p: [
        sealed(U, 0, zstandard.ZstdCompressor().compress(bytes(256 << 20)), flags=1)
    ],
    "zstd of no size": lambda p: [
        sealed(U, 0, zstandard.ZstdCompressor(write_content_size=False).compress(p), flags=1)
    ],
    "zstd past the end": lambda p: [
        sealed(U, 0, zstandard.ZstdCompressor().compress(p + bytes(4)), flags=1)
    ],
    "zstd that is none": lambda p: [sealed(U, 0, p, flags=1)],
}


@row(*FRAMES)
def a_frame(scene: Scene, which: str) -> None:
    update = scene.update()
    refused(errors.DomoError, update.send, FRAMES[which](update.parts["UPDATE"]))


@row("nothing", "no header", "garbage", "a frame first", "a header and 3,000 empty messages")
def a_stream(scene: Scene, which: str) -> None:
    header = pb.UpdateHeader(session=scene.member.session, **scene.update().header())
    messages = {
        "nothing": [],
        "no header": [b""],
        "garbage": [b"\xff" * 50],
        "a frame first": [encode_frame(U, 0, memoryview(b"abcd"))],
        "a header and 3,000 empty messages": [header.SerializeToString()] + 3000 * [b""],
    }[which]
    refused(errors.DomoError, scene.member.submit_bytes, *messages)


VECTORS: dict[str, list[pb.VectorInfo]] = {
    "none": [],
    "unknown": [pb.VectorInfo(id=99, num_bytes=4)],
    "the model": [pb.VectorInfo(id=pb.X, num_bytes=88)],
    "2^63 bytes": [pb.VectorInfo(id=pb.UPDATE, num_bytes=2**63)],
    "twice": 2 * [pb.VectorInfo(id=pb.UPDATE, num_bytes=88)],
    "100,000": 100_000 * [pb.VectorInfo(id=pb.UPDATE)],
}


@row(*VECTORS)
def vectors_that_are_not_the_runs(scene: Scene, which: str) -> None:
    refused(errors.DomoError, scene.update().send, vectors=VECTORS[which])


@row({f"m{i}": 1.0 for i in range(100)}, {"loss": float("nan")}, {"a\nb": 1.0}, {"x" * 999: 1.0})
def metrics_of_an_update(scene: Scene, metrics: dict[str, float]) -> None:
    """What cannot be shown is left out or refused; the update is another silo's affair."""
    update = scene.update(UPDATE=HUGE)
    refused(errors.DomoError, update.send, metrics=metrics)


@row("site-a", "site-b")
def the_bytes_of_another_silos_update(scene: Scene, name: str) -> None:
    """They count for nobody before their round; of the round before they are stale."""
    assert scene.update(0).send().state == pb.STALE


@row()
def an_update_of_a_run_that_has_ended(scene: Scene) -> None:
    assert scene.update().send(run_id="1-r1").state == pb.STALE


@row(4 << 20, 64 << 20)
def a_message_that_is_too_large(scene: Scene, size: int) -> None:
    refused(errors.DomoError, scene.member.submit_bytes, bytes(size + 1))


@row()
def a_bomb_of_gzip(scene: Scene) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    bomb = b"".join(packer.compress(piece) for _ in range(256)) + packer.flush()
    assert len(bomb) < 1 << 20
    with pytest.raises(grpc.RpcError):
        scene.member.raw_call("Report", bomb, compression=grpc.Compression.NoCompression)


@row()
def metadata_without_end(scene: Scene) -> None:
    with pytest.raises(grpc.RpcError):
        scene.member.raw_call("Report", b"", metadata=[("x", "y" * 60_000)])


@row(b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f", b"\x08" * 4000)
def a_control_call_that_is_no_message(scene: Scene, data: bytes) -> None:
    with pytest.raises(grpc.RpcError):
        scene.member.raw_call("Report", data)


# words


@row(
    "a\nfinished r1",
    "\x1b[2J\x1b]52;c;aGk=\x07",
    "\u202emoc.live",
    "x" * 100_000,
    "\x00",
    "a\u2028b",
)
def words_of_a_silo(scene: Scene, text: str) -> None:
    it = scene.member
    it.call("Report", run_id=scene.run_id, round_index=1, phase=pb.TRAINING, failure=text)
    it.call("Report", run_id=scene.run_id, round_index=1, phase=pb.TRAINING, notes=[text])
    it.call("Decline", run_id="77-none", reason=text)
    time.sleep(0.3)
    for event in scene.server.get("/events?limit=50"):
        assert event["text"].isprintable()
        assert len(event["text"]) < 700
    for silo in scene.server.get("/silos"):
        assert str(silo.get("failure") or "").isprintable()


@row("<b>", "a\nb", "\x1b", "{}'\"", "=1+1", "../..")
def names_of_metrics(scene: Scene, name: str) -> None:
    sums = {name: pb.MetricSum(total=1.0, num=1.0)}
    told = {"run_id": scene.run_id, "model_index": 1}
    answer = answer_of(scene.member.call, "ReportEvaluation", **told, metrics=sums)
    assert answer is None or name.isprintable()


@row()
def metrics_without_number(scene: Scene) -> None:
    for i in range(20):
        sums = {f"m{i}-{k}": pb.MetricSum(total=1.0, num=1.0) for k in range(64)}
        told = {"run_id": scene.run_id, "model_index": 1}
        answer_of(scene.member.call, "ReportEvaluation", **told, metrics=sums)
    points = scene.run()["metrics"]
    assert all(len(point["metrics"]) <= 200 for point in points)


@row()
def phases_and_progress_that_are_none(scene: Scene) -> None:
    given: dict[str, Any] = {"step": 2**32 - 1, "num_steps": 0, "round_index": 2**32 - 1}
    wild = pb.Resources(gpu_busy=1e300, process_memory_bytes=2**64 - 1)
    call = scene.member.call
    call("Report", run_id=scene.run_id, phase=99, loss=float("inf"), resources=wild, **given)
    assert all(s["phase"] for s in scene.server.get("/silos"))


# REST


def ask(scene: Scene, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """A request as it is, headers and all."""
    host = scene.server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        data = None if body is None else json.dumps(body)
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request(method, path, data, named)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


VERBS = ("pause", "resume", "stop")


@row(*VERBS)
def a_verb_without_a_credential(scene: Scene, verb: str) -> None:
    path = f"/api/v1/runs/{scene.run_id}/{verb}"
    assert ask(scene, "POST", path, {}, Content_Type="application/json")[0] == 401
    assert ask(scene, "GET", path)[0] in (401, 404, 405)


@row("drop", "revoke", "rebind")
def a_silos_fate_without_a_credential(scene: Scene, verb: str) -> None:
    path = f"/api/v1/silos/site-a/{verb}"
    assert ask(scene, "POST", path, {}, Content_Type="application/json")[0] == 401


@row("evil.example", "127.0.0.1.evil.example", "", "x@evil", "localhost.evil")
def a_name_that_points_here(scene: Scene, host: str) -> None:
    assert ask(scene, "GET", "/api/v1/status", Host=host)[0] == 400


@row("/static/..%2f..%2fconfig.py", "/static/../app.py", "/static/%2e%2e/app.py",
     "/api/v1/runs/..%2f..%2fcoordinator.db/model", "/api/v1/silos/..%2fx", "/static//etc/passwd",
     "/static/%00", "/api/v1/runs/%2e%2e/model")  # fmt: skip
def a_path_out_of_the_folder(scene: Scene, path: str) -> None:
    status, body, _ = ask(scene, "GET", path)
    assert status in (400, 401, 404, 422)
    assert b"root:" not in body
    assert b"SQLite" not in body


@row("GET /api/v1/status HTTP/1.1\r\nHost: {host}\r\nHost: evil\r\n\r\n",
     "POST /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n"
     "Content-Length: 9\r\n\r\nabc",
     "POST /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
     "GET http://evil/ HTTP/1.1\r\nHost: evil\r\n\r\n", "\x16\x03\x01\x00\x05hello")  # fmt: skip
def a_request_that_means_two_things(scene: Scene, text: str) -> None:
    host = scene.server.url.removeprefix("http://")
    name, _, port = host.rpartition(":")
    with socket.create_connection((name, int(port)), 10) as plain:
        plain.sendall(text.format(host=host).encode("latin-1"))
        plain.shutdown(socket.SHUT_WR)
        said = plain.recv(4096)
    assert not said or said.split()[1] in (b"400", b"401", b"404", b"421"), said


@row()
def another_origin(scene: Scene) -> None:
    _, _, headers = ask(scene, "GET", "/api/v1/status", Origin="https://evil.example")
    assert not [h for h in headers if h.lower().startswith("access-control")]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@row()
def a_token_in_an_address(scene: Scene) -> None:
    status, _, headers = ask(scene, "GET", f"/login?token={scene.server.token}")
    assert status in (400, 401, 410, 422)
    assert "set-cookie" not in headers


@row("limit=99999999999999999999", "limit=-1", "limit=x", "before=9223372036854775808", "limit=%00")
def a_number_that_is_none(scene: Scene, query: str) -> None:
    assert ask(scene, "GET", f"/api/v1/events?{query}")[0] == 422


@pytest.mark.parametrize(("attack", "cases"), ROWS)
def test_an_attack_gets_nowhere(
    attack: Callable[..., None], cases: tuple[Any, ...], calm: tuple[Scene, bytes]
) -> None:
    scene, undisturbed = calm
    scene.begin()
    got_through: dict[str, BaseException] = {}
    for case in cases or (None,):
        try:
            attack(scene, *(() if case is None else (case,)))
        except (Exception, pytest.fail.Exception) as error:
            got_through[repr(case)[:80]] = error
    found = scene.end()
    assert not got_through, "\n".join(f"{k}: {v}" for k, v in got_through.items())
    assert found == undisturbed


def test_the_table_has_its_rows() -> None:
    assert len(ROWS) >= 40
    assert sum(len(param.values[1]) or 1 for param in ROWS) >= 150
