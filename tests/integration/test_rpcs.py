"""The rpcs as another client would call them: what is refused, and with which words."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from torch import nn

from domo import errors
from domo.model.layout import Layout
from domo_proto import PROTOCOL_VERSION
from domo_proto.codec import FRAME_BYTES, encode_frame
from domo_proto.errors import SessionError
from domo_proto.v1 import federation_pb2 as pb
from domo_server.coordinator import strangers
from domo_server.events.event_log import BURST
from domo_server.identity.certify import Certifier
from domo_server.rpc.access import BUG, UNREADABLE
from domo_server.runs.roster import Roster
from domo_server.silos import allowed
from domo_server.silos.sessions import Sessions
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.played.raw import GOOD, Raw, fault

SECRET = "/srv/secret/x.safetensors"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Coordinator]:
    run = own_run(tmp_path, nn.Linear(2, 1), num_rounds=1, evaluate_every=0)
    with coordinator(tmp_path, run) as it:
        yield it


@pytest.fixture
def raw(server: Coordinator) -> Iterator[Raw]:
    it = Raw(server)
    yield it
    it.close()


@pytest.fixture
def trainer(raw: Raw) -> Raw:
    """Enrolled, with round 0 open."""
    raw.join()
    assert raw.enroll(num_eval_samples=4).enrolled
    header = pb.RoundHeader.FromString(raw.fetch()[0])
    assert (header.action, header.num_steps) == (pb.TRAIN, 1)
    return raw


def says(error: errors.DomoError, cls: type[errors.DomoError], text: str) -> None:
    assert (type(error), str(error)) == (cls, text)


def test_health(raw: Raw) -> None:
    for service in ("", "domo_proto.v1.Federation"):
        answer = raw.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_another_protocol_version(raw: Raw, server: Coordinator) -> None:
    error = fault(raw.join, protocol_version=9, software_version="9.1")
    assert type(error) is errors.VersionError
    assert str(error).startswith("the silo speaks protocol 9 (domo 9.1), the coordinator 1 (domo ")
    assert server.get("/silos") == []


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "x" * 65, "-a", "a\n"])
def test_names_that_are_none(name: str, raw: Raw, server: Coordinator) -> None:
    says(
        fault(raw.join, silo_id=name),
        errors.ProtocolError,
        f"{name!r} is no silo name: letters, digits, '.', '_', '-', at most 64",
    )
    assert server.get("/silos") == []


@pytest.mark.parametrize("instance", ["", "x" * 65])
def test_instances_that_are_none(instance: str, raw: Raw) -> None:
    text = "an instance id has 1 to 64 characters"
    says(fault(raw.join, instance_id=instance), errors.ProtocolError, text)


def test_a_session_is_needed_everywhere(raw: Raw) -> None:
    raw.session = "made up"
    stub, text = raw.stub, "this session is over; join again"
    for call, request in (
        (stub.WaitForRun, pb.WaitForRunRequest),
        (stub.Enroll, pb.EnrollRequest),
        (stub.Decline, pb.DeclineRequest),
        (stub.UploadStatus, pb.UploadStatusRequest),
        (stub.ReportEvaluation, pb.ReportEvaluationRequest),
        (stub.Report, pb.ReportRequest),
        (stub.Leave, pb.LeaveRequest),
    ):
        says(fault(call, request(session="made up"), timeout=30), SessionError, text)
    says(fault(raw.fetch), SessionError, text)
    says(fault(raw.submit), SessionError, text)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(5, "Input/output error", SECRET),
            "the coordinator's disk says: Input/output error",
        ),
        (errors.StateError(f"{SECRET} is shorter than it says"), UNREADABLE),
        (KeyError(SECRET), BUG),
    ],
)
def test_what_is_the_coordinators_own_fault_is_retryable_and_names_no_path(
    error: Exception, said: str, trainer: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all rpcs, those that stream too."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Sessions, "get", fail)
    monkeypatch.setattr(Sessions, "join", fail)
    monkeypatch.setattr(Roster, "has_place", fail)
    monkeypatch.setattr(Certifier, "certify", fail)
    stub, silo = trainer.stub, {"session": trainer.session}
    calls = {
        "WaitForRun": lambda: stub.WaitForRun(pb.WaitForRunRequest(**silo), timeout=30),
        "LookAtRun": lambda: stub.LookAtRun(pb.LookAtRunRequest(silo_id="site-a"), timeout=30),
        "Enroll": lambda: stub.Enroll(pb.EnrollRequest(**silo), timeout=30),
        "Decline": lambda: stub.Decline(pb.DeclineRequest(**silo), timeout=30),
        "UploadStatus": trainer.status,
        "ReportEvaluation": lambda: stub.ReportEvaluation(
            pb.ReportEvaluationRequest(**silo), timeout=30
        ),
        "Report": lambda: stub.Report(pb.ReportRequest(**silo), timeout=30),
        "Leave": lambda: stub.Leave(pb.LeaveRequest(**silo), timeout=30),
        "Attend": lambda: list(stub.Attend(pb.AttendRequest(**silo), timeout=30)),
        "Certify": lambda: stub.Certify(pb.CertifyRequest(), timeout=30),
        "Join": trainer.join,
        "FetchRound": trainer.fetch,
        "SubmitUpdate": trainer.submit,
    }
    service = pb.DESCRIPTOR.services_by_name["Federation"]
    assert set(calls) == {m.name for m in service.methods} | {"FetchRound", "SubmitUpdate"}
    for name, call in calls.items():
        answer = fault(call)
        assert (name, type(answer), str(answer)) == (name, errors.CoordinatorUnavailableError, said)


def test_only_who_takes_part_in_a_run_makes_events_of_it(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), roster=["site-a"], num_silos=None)
    with coordinator(tmp_path, run) as server:
        member, other = Raw(server), Raw(server)
        member.join()
        assert member.enroll().enrolled
        other.join(silo_id="site-b", instance_id="j")
        for raw in (other, member):
            it = {"session": raw.session, "run_id": raw.run_id}
            raw.stub.Report(pb.ReportRequest(**it, failure="no disk"), timeout=30)
            raw.stub.Decline(pb.DeclineRequest(**it, reason="no time"), timeout=30)
        events = server.get("/events")
        said = [(e["kind"], e["silo_id"]) for e in events]
        assert server.silo("site-b")["error"] == "no disk"
        member.close()
        other.close()
    assert ("silo-failed", "site-a") in said
    assert ("declined", "site-a") in said
    assert [kind for kind, silo_id in said if silo_id == "site-b"] == ["joined"]


def test_a_silo_cannot_fill_the_log(
    trainer: Raw, server: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowed, "HELD_BACK_S", 0.0)
    it = {"session": trainer.session, "run_id": trainer.run_id}
    for i in range(BURST + 20):
        with contextlib.suppress(grpc.RpcError):
            trainer.stub.Report(pb.ReportRequest(**it, failure=f"failure {i}"), timeout=30)
        with contextlib.suppress(grpc.RpcError):
            trainer.submit(num_steps=7)
    events = [e for e in server.get("/events?limit=500") if e["silo_id"] == "site-a"]
    assert BURST <= len(events) < BURST + 10


def test_names_that_are_new_come_at_a_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "MAX_NEW_NAMES", 2)
    monkeypatch.setattr(strangers, "NEW_NAMES_PER_S", 0.0)
    with coordinator(tmp_path, own_run(tmp_path, nn.Linear(2, 1))) as server:
        raw = Raw(server)
        for name in ("a", "b", "a"):
            raw.join(silo_id=name)
        text = "many new silos join at once; ask again"
        says(fault(raw.join, silo_id="c"), errors.CoordinatorUnavailableError, text)
        raw.join(silo_id="b")
        assert [silo["silo_id"] for silo in server.get("/silos")] == ["a", "b"]
        raw.close()


def test_what_a_silo_says_of_itself(trainer: Raw, server: Coordinator) -> None:
    def report(**given: Any) -> Any:
        trainer.stub.Report(pb.ReportRequest(session=trainer.session, **given), timeout=30)
        return server.silo("site-a")

    assert report()["resources"] is None, "an older silo says nothing"
    machine = {"gpu_memory_used_bytes": 7, "gpu_memory_total_bytes": 9, "disk_free_bytes": 2**63}
    text = "\x1b[31mround 1\x1b[0m <b>" + "x" * 600
    lines = [pb.LogLine(number=1, age_s=3.0, level="ERROR", text=text)]
    resources = report(resources=machine, shares_log=True, log_lines=lines)["resources"]
    assert (resources["gpu_memory_used_bytes"], resources["disk_free_bytes"]) == (7, None)
    (line,) = server.get("/silos/site-a/log")["lines"]
    assert (line["level"], line["text"][:12], len(line["text"])) == ("ERROR", "round 1 <b>x", 300)
    trainer.join()
    assert server.get("/silos/site-a/log")["lines"] == [line], "what was before its restart stays"
    report()
    log = server.get("/silos/site-a/log")
    assert (log["shared"], log["lines"]) == (False, [])


def test_a_run_that_never_was(trainer: Raw) -> None:
    trainer.run_id = "9-x"
    for call in (trainer.fetch, trainer.submit, trainer.status):
        says(fault(call), errors.ProtocolError, "there is no run '9-x' here")


def test_enrolling_with_another_model_or_configuration(raw: Raw, server: Coordinator) -> None:
    raw.join()
    answer = raw.enroll(layout_digest=b"x" * 16)
    assert not answer.enrolled
    assert Layout.from_json(answer.layout_json) == Layout.of(nn.Linear(2, 1))
    says(
        fault(raw.enroll, config_digest="x"),
        errors.ProtocolError,
        f"the silo saw another configuration of {raw.run_id}",
    )
    assert server.run()["state"] == "WAITING"


@pytest.mark.parametrize("named", [True, False])
def test_a_silo_that_has_no_place_is_told_why(tmp_path: Path, named: bool) -> None:
    roster = {"roster": ["site-a"], "num_silos": None} if named else {}
    run = own_run(tmp_path, nn.Linear(2, 1), **roster)
    with coordinator(tmp_path, run, long_poll_s=0.1) as server:
        member, late = Raw(server), Raw(server)
        member.join()
        asked, offer = pb.WaitForRunRequest(session=member.session), pb.RunOffer()
        while not offer.run_id:  # it is being loaded
            offer = member.stub.WaitForRun(asked, timeout=30).offer
        digests = {n: getattr(offer, n) for n in ("config_digest", "layout_digest")}
        late.join(silo_id="other", instance_id="j")
        no_place = f"other has no place in run {late.run_id}: "
        others = "the run's roster names others; "
        if named:
            said = f"{no_place}{others}the admin, or another --name, can change that"
            says(fault(late.enroll, **digests), errors.ProtocolError, said)
        assert member.enroll().enrolled
        member.fetch()  # the run has begun
        first = "the run has begun with the first 1 silo that enrolled; "
        said = f"{no_place}{others if named else first}it waits for the next run"
        says(fault(late.enroll, **digests), errors.ProtocolError, said)
        for raw in (late, member):
            raw.close()


def test_a_whole_update(trainer: Raw, server: Coordinator) -> None:
    assert trainer.status().state == pb.ABSENT
    answer = trainer.submit(metrics={"loss": 0.5})
    assert (answer.state, answer.duplicate) == (pb.ACCEPTED, False)
    assert server.ended()["state"] == "FINISHED"
    (record,) = server.rounds()
    assert record["participants"][0]["update_norm"] == pytest.approx(14**0.5)
    assert record["train_loss"] == 0.5
    assert trainer.submit().state == pb.STALE
    end = pb.RoundHeader.FromString(trainer.fetch()[0])
    assert (end.action, end.outcome) == (pb.END, "FINISHED")


def test_a_silo_for_which_there_is_nothing_is_told_what_its_run_waits_for(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=2, evaluate_every=0)
    with coordinator(tmp_path, run, long_poll_s=0.1) as it, contextlib.closing(Raw(it)) as silo:
        silo.join()
        assert silo.enroll().enrolled
        messages = silo.fetch()
        header = pb.RoundHeader.FromString(messages[0])
        assert (len(messages), header.action, header.run_id) == (1, pb.ASK_AGAIN, silo.run_id)
        assert header.outcome_text == "the run begins when all its silos have enrolled"


def test_a_second_update_is_a_duplicate_or_too_late(tmp_path: Path) -> None:
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=2)
    with coordinator(tmp_path, run) as server:
        a, b = Raw(server), Raw(server)
        a.join()
        b.join(silo_id="site-b", instance_id="j")
        a.enroll()
        b.enroll()
        a.fetch()
        assert a.submit().state == pb.ACCEPTED
        again = a.submit()
        assert (again.state, again.duplicate) == (pb.ACCEPTED, True)
        assert a.status().state == pb.ACCEPTED
        other = np.array([9, 9, 9], "<f4").tobytes()
        assert a.submit(other).state == pb.STALE
        assert a.status(other).state == pb.STALE
        assert server.run()["waiting_for"] == ["site-b"]
        a.close()
        b.close()


NAN = np.array([1, np.nan, 3], "<f4").tobytes()
REFUSED = {
    "not finite": ({"whole": NAN}, errors.DivergenceError, "the update has 1 non-finite entries"),
    "more steps": (
        {"num_steps": 2},
        errors.ProtocolError,
        "site-a made 2 local steps, the run wants 1",
    ),
    "another size": (
        {"vectors": [pb.VectorInfo(id=pb.UPDATE, num_bytes=8)]},
        errors.ProtocolError,
        "an update of this run has vectors [(7, 12)] (id, bytes); site-a sends [(7, 8)]",
    ),
    "another vector": (
        {"vectors": [pb.VectorInfo(id=pb.X, num_bytes=12)]},
        errors.ProtocolError,
        "an update of this run has vectors [(7, 12)] (id, bytes); site-a sends [(1, 12)]",
    ),
    "an offset of nothing": (
        {"offset": 4},
        errors.ChecksumError,
        "the upload continues at 4, but 0 bytes are here",
    ),
    "short": ({"frames": []}, errors.ProtocolError, "the upload ended after 0 of 12 bytes"),
    "no frame": (
        {"frames": [b"hello"]},
        errors.ChecksumError,
        "a frame has at least 32 bytes, this one 5",
    ),
    "long": (
        {"frames": [encode_frame(7, 0, memoryview(GOOD)), encode_frame(7, 12, memoryview(GOOD))]},
        errors.ProtocolError,
        "more bytes than the upload's header says",
    ),
    "digest": (
        {"digest": bytes(16)},
        errors.ChecksumError,
        "the upload does not fit its digest; send it again",
    ),
    "no digest": (
        {"digest": b"x" * 300},
        errors.ProtocolError,
        "the digest of an update has 16 bytes, this one 300",
    ),
    "metrics": (
        {"metrics": {f"m{i}": 1.0 for i in range(65)}},
        errors.ProtocolError,
        "at most 64 metrics",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_update_changes_nothing_and_a_good_one_still_counts(
    what: str, trainer: Raw, server: Coordinator
) -> None:
    given, cls, text = REFUSED[what]
    says(fault(trainer.submit, **given), cls, text)
    run = server.run()
    assert (run["state"], run["waiting_for"]) == ("OPEN", ["site-a"])
    spool = server.state_dir / "runs" / trainer.run_id / "spool"
    assert not list(spool.rglob("*.update"))
    assert trainer.status().state == pb.ABSENT
    assert trainer.submit().state == pb.ACCEPTED
    assert server.ended()["state"] == "FINISHED"


def test_a_refused_update_is_visible(trainer: Raw, server: Coordinator) -> None:
    fault(trainer.submit, NAN)
    text = "the update has 1 non-finite entries"
    told = server.silo("site-a")
    assert (told["error"], told["error_code"]) == (f"update refused: {text}", "divergence")
    events = [e["text"] for e in server.get("/events") if e["kind"] == "refused"]
    assert events == [f"refused an update of site-a: {text}"]


def test_a_damaged_frame_leaves_what_came_before(tmp_path: Path) -> None:
    n = FRAME_BYTES // 4 + 8
    run = own_run(tmp_path, nn.Linear(n, 1, bias=False), num_rounds=1, evaluate_every=0)
    whole = np.ones(n, "<f4").tobytes()
    with coordinator(tmp_path, run) as server:
        raw = Raw(server)
        raw.join()
        raw.enroll()
        raw.fetch()
        vectors = [pb.VectorInfo(id=pb.UPDATE, num_bytes=len(whole))]
        first = encode_frame(7, 0, memoryview(whole)[:FRAME_BYTES])
        rest = encode_frame(7, FRAME_BYTES, memoryview(whole)[FRAME_BYTES:])
        damaged = rest[:-1] + b"\x00"
        error = fault(raw.submit, whole, [first, damaged], vectors=vectors)
        text = f"a frame at offset {FRAME_BYTES} was damaged on the way"
        says(error, errors.ChecksumError, text)
        status = raw.status(whole)
        assert (status.state, status.offset) == (pb.PARTIAL, FRAME_BYTES)
        answer = raw.submit(whole, [rest], vectors=vectors, offset=FRAME_BYTES)
        assert answer.state == pb.ACCEPTED
        assert server.ended()["state"] == "FINISHED"
        raw.close()


def test_another_round_is_stale(trainer: Raw) -> None:
    assert trainer.submit(round_index=1).state == pb.STALE
    assert trainer.status(r=7).state == pb.STALE


def test_a_data_rpc_without_its_header(trainer: Raw) -> None:
    error = fault(trainer.submit_bytes, b"\xff\xff\xff")
    assert str(error).startswith("the first message is no UpdateHeader")
    assert type(fault(trainer.submit_bytes)) is SessionError


def report(raw: Raw, index: int = 0, **metrics: tuple[float, float]) -> Any:
    sums = {k: pb.MetricSum(total=t, num=n) for k, (t, n) in metrics.items()}
    request = pb.ReportEvaluationRequest(
        session=raw.session, run_id=raw.run_id, model_index=index, metrics=sums
    )
    return raw.stub.ReportEvaluation(request, timeout=30)


@pytest.mark.parametrize(
    ("index", "value", "text"),
    [
        (1, (1.0, 1), "there is no model x_1 yet"),
        (0, (float("nan"), 1), "metric 'loss' is not a finite sum over a positive count"),
        (0, (1.0, 0), "metric 'loss' is not a finite sum over a positive count"),
        (0, (1.0, float("inf")), "metric 'loss' is not a finite sum over a positive count"),
    ],
)
def test_numbers_that_are_none(
    index: int, value: tuple[float, float], text: str, trainer: Raw, server: Coordinator
) -> None:
    says(fault(report, trainer, index, loss=value), errors.ProtocolError, text)
    assert server.run()["metrics"] == []


def test_numbers_of_a_stranger(raw: Raw, trainer: Raw, server: Coordinator) -> None:
    stranger = Raw(server)
    stranger.join(silo_id="site-z", instance_id="z")
    text = f"site-z is not part of {stranger.run_id}"
    says(fault(report, stranger, loss=(1.0, 1)), errors.ProtocolError, text)
    assert stranger.submit().state == pb.STALE
    stranger.close()


def test_the_last_word_of_a_silo_about_a_model_counts(trainer: Raw, server: Coordinator) -> None:
    report(trainer, loss=(4.0, 2))
    report(trainer, loss=(6.0, 2))
    (point,) = server.run()["metrics"]
    assert (point["metrics"], point["num_silos"]) == ({"loss": 3.0}, 1)


def test_two_instances_at_once_get_one_name_once(server: Coordinator) -> None:
    both = [Raw(server), Raw(server)]
    calls = [
        raw.stub.Join.future(
            pb.JoinRequest(
                protocol_version=PROTOCOL_VERSION, silo_id="twin", instance_id=f"i{k}", role=1
            ),
            timeout=30,
        )
        for k, raw in enumerate(both)
    ]
    codes = sorted((call.code() for call in calls), key=str)
    assert codes == [grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.OK]
    for raw in both:
        raw.close()


def test_attending_is_one_stream_until_it_breaks_or_the_silo_leaves(
    raw: Raw, server: Coordinator
) -> None:
    raw.join()
    stream = raw.stub.Attend(pb.AttendRequest(session=raw.session), timeout=30)
    assert [next(stream) for _ in range(2)] == [pb.AttendResponse()] * 2
    assert server.silo("site-a")["away"] is None
    stream.cancel()
    away = server.until("/silos", lambda them: them[0]["away"] is not None)[0]["away"]
    assert away.startswith("its connection broke")
    again = raw.stub.Attend(pb.AttendRequest(session=raw.session), timeout=30)
    server.until("/silos", lambda them: them[0]["away"] is None)
    raw.stub.Leave(pb.LeaveRequest(session=raw.session, reason="for lunch"), timeout=30)
    assert len(list(again)) <= 1, "it ends with the session"
    assert server.silo("site-a")["away"] == "left: for lunch"


def test_what_a_silos_calls_met_on_the_way_is_an_event(trainer: Raw, server: Coordinator) -> None:
    """Not what it met before it had a session: every silo meets that as a coordinator restarts."""
    for text in ("nobody answered", "", "a proxy said 403\nand more", ""):
        trainer.stub.Report(pb.ReportRequest(session=trainer.session, network=text), timeout=30)
    (met,) = server.get("/events?kind=network")
    assert met["text"] == "site-a: its network: a proxy said 403 and more"
    assert (met["silo_id"], met["level"]) == ("site-a", "problem")
