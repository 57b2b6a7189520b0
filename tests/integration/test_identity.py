"""Who is let in: codes, renewal, admission, and how soon a connection ends that may not go on."""

import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from torch import nn

import domo_client
from domo.errors import AccessError, DomoError
from domo_client.loop.silo import Silo
from domo_proto.channel import TlsFiles, make_channel
from domo_proto.identities import dns_names, fingerprint, key_to_pem, make_request, new_key
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server.identity.certify import MOST_CERTIFIED
from tests.support.certificates import ODD, SERVER, Authority, Pair, signed_request
from tests.support.live.coordinator import Coordinator, coordinator, own_run
from tests.support.live.enrolled import Enrolling, Paper, certify, enrolling, stub_of

SECOND = 1 / 86_400
"""Of days."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Enrolling]:
    with enrolling(tmp_path) as it:
        yield it


def refused(call: Callable[[], object]) -> str:
    """What a call is told that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
    return str(caught.value.details())


def connect(home: Enrolling, folder: Path, paper: Paper, name: str = "site-a") -> Silo:
    tls = paper.files(folder / f"identity-{name}")
    return domo_client.connect(
        home.coordinator.address, name, state_dir=folder / f"state-{name}", tls=tls
    )


def test_a_code_becomes_a_certificate_for_exactly_its_name(home: Enrolling) -> None:
    paper = home.enrolled("site-a")
    cert = x509.load_pem_x509_certificate(paper.cert)
    assert dns_names(cert) == ("site-a",)
    assert 29.9 < (cert.not_valid_after_utc - cert.not_valid_before_utc).days + 1 < 31.1
    row = home.admissions.of("site-a")
    assert row is not None
    assert (row.state, row.key) == ("active", fingerprint(cert))
    (text,) = home.events("admitted")
    assert "site-a" in text
    assert "127.0.0.1" in text
    assert fingerprint(cert) in text


def test_a_code_that_was_used_that_is_late_and_for_another_name_is_refused_with_three_texts(
    home: Enrolling,
) -> None:
    address = home.coordinator.address
    used, late, other = home.code("site-a"), home.code("site-b", valid_s=-1), home.code("site-c")
    certify(address, used, make_request(new_key(), "site-a"))
    texts = [
        refused(lambda: certify(address, used, make_request(new_key(), "site-a"))),
        refused(lambda: certify(address, late, make_request(new_key(), "site-b"))),
        refused(lambda: certify(address, other, make_request(new_key(), "site-EVIL"))),
    ]
    for text, why in zip(
        texts, ("was used already", "expired at", "asks to be site-EVIL"), strict=True
    ):
        assert why in text
    said = home.coordinator.until("/events?kind=refused-code", lambda found: len(found) == 3)
    for event, text in zip(said, texts, strict=True):
        assert text in event["text"]
        assert "127.0.0.1" in event["text"]
    assert home.admissions.of("site-EVIL") is None
    certify(address, other, make_request(new_key(), "site-c"))  # it was not used up by that


def test_an_answer_that_was_lost_is_fetched_again_with_the_same_key(home: Enrolling) -> None:
    code, request = home.code("site-a"), make_request(new_key(), "site-a")
    first = certify(code.address, code, request)
    assert certify(code.address, code, request).certificate_pem == first.certificate_pem
    assert len(home.events("admitted")) == 1


def test_of_two_that_use_one_code_at_once_one_gets_in(home: Enrolling) -> None:
    code, got, told = home.code("site-a"), [], []

    def use() -> None:
        try:
            got.append(certify(code.address, code, make_request(new_key(), "site-a")))
        except grpc.RpcError as error:
            told.append(error.details())

    users = [threading.Thread(target=use) for _ in range(6)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert len(got) == 1
    assert len(told) == 5
    assert all("was used already" in text for text in told)


def test_a_newer_code_and_a_revocation_void_one(home: Enrolling) -> None:
    old, address = home.code("site-a"), home.coordinator.address
    new = home.code("site-a")
    request = make_request(new_key(), "site-a")
    assert "is not known here" in refused(lambda: certify(address, old, request))
    home.admissions.revoke("site-a", "a test")
    assert "is not known here" in refused(lambda: certify(address, new, request))


def test_a_code_may_do_nothing_but_enrol(home: Enrolling) -> None:
    code = home.code("site-a")
    ask = pb.JoinRequest(protocol_version=1, silo_id="site-a", instance_id="x")
    with stub_of(code.address, code) as stub:
        assert "nothing else" in refused(lambda: stub.Join(ask, timeout=60))
        look = pb.LookAtRunRequest(silo_id="site-a")
        assert "nothing else" in refused(lambda: stub.LookAtRun(look, timeout=60))
        report = pb.ReportRequest(session="x")
        assert "nothing else" in refused(lambda: stub.Report(report, timeout=60))


def test_a_certificate_is_renewed_for_its_own_key_and_name(home: Enrolling) -> None:
    paper, address = home.enrolled("site-a"), home.coordinator.address
    renewed = x509.load_pem_x509_certificate(
        certify(address, paper, paper.request("site-a")).certificate_pem
    )
    old = x509.load_pem_x509_certificate(paper.cert)
    assert fingerprint(renewed) == fingerprint(old)
    assert renewed.serial_number != old.serial_number
    text = refused(lambda: certify(address, paper, make_request(new_key(), "site-a")))
    assert "is renewed for its own key" in text
    assert "asks to be site-b" in refused(lambda: certify(address, paper, paper.request("site-b")))
    home.admissions.revoke("site-a", "a test")
    time.sleep(1)
    assert "was revoked" in refused(lambda: certify(address, paper, paper.request("site-a")))


def waits(silo: Silo) -> tuple[threading.Thread, list[tuple[float, DomoError]]]:
    """A thread that asks for a run again and again, and when it was refused, with what."""
    found: list[tuple[float, DomoError]] = []

    def ask() -> None:
        try:
            while True:
                silo.connection.control.wait_for_run()
        except DomoError as error:
            found.append((time.monotonic(), error))

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.3)
    return thread, found


def test_who_is_revoked_is_cut_off_within_a_second(home: Enrolling, tmp_path: Path) -> None:
    silo = connect(home, tmp_path, home.enrolled("site-a"))
    other = connect(home, tmp_path, home.enrolled("site-b"), "site-b")
    thread, found = waits(silo)
    begun = time.monotonic()
    home.admissions.revoke("site-a", "a test")
    thread.join(60)
    ((at, error),) = found
    assert at - begun < 1.0
    assert isinstance(error, AccessError)
    assert error.code == "revoked"
    assert "site-a was revoked by a test" in str(error)
    home.coordinator.until("/silos", lambda all_: _phase(all_, "site-a") == "offline", 1.0)
    other.connection.control.wait_for_run()
    silo.close()
    other.close()
    assert any("was revoked" in text for text in home.events("refused-call"))


def _phase(silos: list[dict[str, str]], name: str) -> str:
    return next(silo["phase"] for silo in silos if silo["silo_id"] == name)


def test_who_was_revoked_comes_back_with_a_new_code(home: Enrolling, tmp_path: Path) -> None:
    old = home.enrolled("site-a")
    connect(home, tmp_path, old).close()
    home.admissions.revoke("site-a", "a test")
    new = home.enrolled("site-a")
    with pytest.raises(AccessError, match=r"is let in with the key SHA256:.*has the key SHA256:"):
        connect(home, tmp_path, old)
    connect(home, tmp_path, new).close()


def test_an_old_key_stays_good_until_the_new_code_is_used(home: Enrolling, tmp_path: Path) -> None:
    old = home.enrolled("site-a")
    code = home.code("site-a")
    connect(home, tmp_path, old).close()
    certify(code.address, code, make_request(new_key(), "site-a"))
    with pytest.raises(AccessError, match="is let in with the key"):
        connect(home, tmp_path, old)


def test_a_certificate_that_ends_ends_its_connection(home: Enrolling, tmp_path: Path) -> None:
    paper = home.enrolled("site-a", days=4 * SECOND)
    end = x509.load_pem_x509_certificate(paper.cert).not_valid_after_utc.timestamp()
    silo = connect(home, tmp_path, paper)
    thread, _ = waits(silo)
    while "expired at" not in silo.connection.counts.network:  # it tries on: a new one may come
        assert time.time() - end < 1.0
        time.sleep(0.02)
    assert time.time() - end > -0.1
    assert thread.is_alive()
    silo.close()
    thread.join(20)


def test_calls_of_a_renewed_certificate_go_on(home: Enrolling, tmp_path: Path) -> None:
    """And what the old connection still holds is cut with what a silo tries again after."""
    paper = home.enrolled("site-a", days=4 * SECOND)
    silo = connect(home, tmp_path, paper)
    thread, found = waits(silo)
    answer = certify(
        home.coordinator.address,
        paper,
        paper.request("site-a"),
    )
    newer = paper._replace(cert=answer.certificate_pem)
    time.sleep(0.5)
    row = home.admissions.of("site-a")
    assert row is not None
    with stub_of(home.coordinator.address, newer) as stub:
        look = pb.LookAtRunRequest(silo_id="site-a")
        stub.LookAtRun(look, timeout=60)
    silo.close()
    thread.join(10)
    assert all(error.retryable for _, error in found)


def test_a_key_that_asks_for_certificates_all_the_time_is_held_back(home: Enrolling) -> None:
    """Each is a change of the database, an event, and a table that is read anew."""
    paper = home.enrolled("site-a")
    request = pb.CertifyRequest(request_pem=paper.request("site-a"))
    with stub_of(home.coordinator.address, paper) as stub:

        def ask() -> None:
            for _ in range(MOST_CERTIFIED):
                stub.Certify(request, timeout=20)  # one too many is answered late

        ask()
        with pytest.raises(grpc.RpcError, match="too many certificates") as caught:
            ask()  # one is earned in a few seconds
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    home.enrolled("site-b")  # nobody else is


@pytest.mark.parametrize("odd", ODD)
def test_a_request_with_odd_names_is_answered(odd: str, home: Enrolling) -> None:
    """Only its key goes into the certificate."""
    code = home.code("site-a")
    answer = certify(code.address, code, signed_request(odd))
    assert dns_names(x509.load_pem_x509_certificate(answer.certificate_pem)) == ("site-a",)


def test_a_silo_cannot_be_called_as_the_coordinator_in_other_letters(home: Enrolling) -> None:
    paper = home.enrolled("LocalHost")
    look = pb.LookAtRunRequest(silo_id="LocalHost")
    with stub_of(home.coordinator.address, paper) as stub:
        assert "name of the coordinator" in refused(lambda: stub.LookAtRun(look, timeout=60))


# a CA of one's own


class Papers:
    def __init__(self, folder: Path):
        self.ca = Authority(folder, "ca")
        self.server = self.ca.sign("coordinator", "localhost", "127.0.0.1")

    def tls(self, **more: object) -> dict[str, object]:
        files = {"cert": self.server.cert, "key": self.server.key, "client_ca": self.ca.cert}
        return files | more

    def files(self, pair: Pair) -> TlsFiles:
        return TlsFiles(self.ca.cert, pair.cert, pair.key)


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


def join(server: Coordinator, folder: Path, tls: TlsFiles, name: str = "site-a") -> None:
    state = folder / f"silo-{name}"
    domo_client.connect(server.address, name, state_dir=state, tls=tls, first_connect_s=1).close()


def test_a_certificate_of_the_ca_alone_lets_nobody_in(papers: Papers, tmp_path: Path) -> None:
    mine = papers.files(papers.ca.sign("a", "site-a"))
    with coordinator(tmp_path, tls=papers.tls()) as server:
        with pytest.raises(AccessError, match="domo-server admit site-a") as caught:
            join(server, tmp_path, mine)
        assert caught.value.code == "not-admitted"
        assert server.get("/silos") == []
        server.admit("site-a")
        join(server, tmp_path, mine)


def test_a_run_that_names_a_silo_lets_it_in(papers: Papers, tmp_path: Path) -> None:
    run = {"task": "own:Loop", "num_rounds": 1, "roster": ["site-a"], "local_steps": 1}
    mine = papers.files(papers.ca.sign("a", "site-a"))
    other = papers.files(papers.ca.sign("b", "site-b"))
    with coordinator(tmp_path, tls=papers.tls()) as server:
        with server.rest() as rest:
            run_id = rest.submit(run | {"initial_model": None, "task": "digits"}).run_id
        join(server, tmp_path, mine)
        with pytest.raises(AccessError, match="is not let in"):
            join(server, tmp_path, other, "site-b")
        (event,) = server.get("/events?kind=admitted")
        cert = x509.load_pem_x509_certificate(mine.read("cert") or b"")
        assert "site-a was let in by the roster of a run, from 127.0.0.1" in event["text"]
        assert fingerprint(cert) in event["text"]
        server.post(f"/runs/{run_id}/stop")
        join(server, tmp_path, mine)  # for the next run


def test_a_run_lets_nobody_in_where_silos_enrol(home: Enrolling) -> None:
    """Who has the CA's key can make a certificate for a name that waits on a roster."""
    with home.coordinator.rest() as rest:
        rest.submit({"task": "digits", "num_rounds": 1, "local_steps": 1, "roster": ["site-a"]})
    key = new_key()
    cert = home.authority.certify(key.public_key(), "site-a", 30.0).public_bytes(Encoding.PEM)
    look = pb.LookAtRunRequest(silo_id="site-a")
    with stub_of(
        home.coordinator.address, Paper(key_to_pem(key), cert, home.authority.ca_pem)
    ) as s:
        assert "nobody has enrolled it" in refused(lambda: s.LookAtRun(look, timeout=60))
        ask = pb.JoinRequest(protocol_version=1, silo_id="site-a", instance_id="x")
        assert "domo-server enroll site-a" in refused(lambda: s.Join(ask, timeout=60))
    assert home.admissions.of("site-a") is None


@pytest.mark.parametrize("common_name", ["site-a", "site-b"])
def test_only_a_dns_name_is_a_silos(common_name: str, papers: Papers, tmp_path: Path) -> None:
    pairs = (
        papers.ca.sign(common_name, "site-b"),  # a common name beside
        papers.ca.sign("x" + common_name, "spiffe://domain/site-a"),
    )
    with coordinator(tmp_path, tls=papers.tls()) as server:
        server.admit("site-a")
        for pair in pairs:
            with pytest.raises(AccessError, match=r"not for site-a"):
                join(server, tmp_path, papers.files(pair))
        assert server.get("/silos") == []


def test_a_uri_of_a_foreign_pki_is_a_silo_where_the_table_says_so(
    papers: Papers, tmp_path: Path
) -> None:
    names = {"spiffe://domain/site-a": "site-a"}
    with coordinator(tmp_path, tls=papers.tls(names=names)) as server:
        server.admit("site-a", "site-b")
        join(server, tmp_path, papers.files(papers.ca.sign("x", "spiffe://domain/site-a")))
        other = papers.files(papers.ca.sign("y", "spiffe://domain/site-b"))
        with pytest.raises(AccessError, match="is for nobody, not for site-b"):
            join(server, tmp_path, other, "site-b")


def test_a_certificate_without_client_auth_is_refused(papers: Papers, tmp_path: Path) -> None:
    mine = papers.files(papers.ca.sign("a", "site-a", uses=()))
    with coordinator(tmp_path, tls=papers.tls()) as server:
        server.admit("site-a")
        with pytest.raises(AccessError, match="clientAuth"):
            join(server, tmp_path, mine)


def test_the_coordinators_own_certificate_is_healthy_and_no_silo(
    papers: Papers, tmp_path: Path
) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    own = papers.files(papers.server)
    with coordinator(tmp_path, tls=papers.tls()) as server:
        server.admit("localhost")
        with pytest.raises(AccessError, match="name of the coordinator itself"):
            join(server, tmp_path, own, "localhost")
        with make_channel(server.address, own) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_changed_files_are_served_without_a_restart_and_half_a_pair_is_not(
    papers: Papers, tmp_path: Path
) -> None:
    mine = papers.files(papers.ca.sign("a", "site-a"))
    newer = papers.ca.sign("newer", "localhost", "127.0.0.1", days=(-1, 9))
    with coordinator(tmp_path, tls=papers.tls()) as server:
        server.admit("site-a")
        join(server, tmp_path, mine)
        papers.server.cert.write_bytes(newer.cert.read_bytes())  # its key is not there yet
        join(server, tmp_path, mine)
        before = server.get("/status")["certificate_end"]
        papers.server.key.write_bytes(newer.key.read_bytes())
        join(server, tmp_path, mine)
        server.until("/status", lambda found: found["certificate_end"] != before, 5.0)


def test_a_certificate_for_servers_alone_makes_no_connection(
    papers: Papers, tmp_path: Path
) -> None:
    mine = papers.files(papers.ca.sign("a", "site-a", uses=(SERVER,)))
    with coordinator(tmp_path, tls=papers.tls()) as server:
        server.admit("site-a")
        with pytest.raises(DomoError):
            join(server, tmp_path, mine)
        assert server.get("/silos") == []


def test_an_admin_revokes_over_rest_at_once(home: Enrolling, tmp_path: Path) -> None:
    silo = connect(home, tmp_path, home.enrolled("site-a"))
    home.enrolled("site-b")  # it has not joined
    thread, found = waits(silo)
    begun = time.monotonic()
    assert home.coordinator.post("/silos/site-a/revoke")["dropped"] == "revoked"
    thread.join(60)
    assert found[0][0] - begun < 0.5
    assert "revoked by" in str(found[0][1])
    assert home.coordinator.post("/silos/site-b/revoke")["phase"] == "offline"
    row = home.admissions.of("site-b")
    assert row is not None
    assert row.state == "revoked"
    with pytest.raises(urllib.error.HTTPError, match="409"):
        home.coordinator.post("/silos/site-x/revoke")
    silo.close()


def test_all_open_streams_end(tmp_path: Path) -> None:
    """Attend, FetchRound, and SubmitUpdate, of which no header has come."""
    run = own_run(tmp_path, nn.Linear(2, 1), num_silos=2)
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait(20)
        yield from ()

    with enrolling(tmp_path, run, long_poll_s=20.0) as home:
        paper = home.enrolled("site-a")
        keys = grpc.ssl_channel_credentials(paper.ca, paper.key, paper.cert)
        with grpc.secure_channel(home.coordinator.address, keys) as channel:
            stub = pb_grpc.FederationStub(channel)  # type: ignore[no-untyped-call]
            ask = pb.JoinRequest(protocol_version=1, silo_id="site-a", instance_id="x")
            token = stub.Join(ask, timeout=60).session
            fetch = pb.FetchRequest(session=token, run_id=home.coordinator.run_ids[0])
            data = "/domo_proto.v1.FederationData"
            streams = [
                stub.Attend(pb.AttendRequest(session=token)),
                channel.unary_stream(f"{data}/FetchRound")(fetch.SerializeToString()),
                channel.stream_unary(f"{data}/SubmitUpdate").future(nothing()),
            ]
            time.sleep(0.5)
            assert not any(stream.done() for stream in streams)
            begun = time.monotonic()
            home.admissions.revoke("site-a", "a test")
            while not all(stream.done() for stream in streams):
                assert time.monotonic() - begun < 1.0
                time.sleep(0.01)
            assert {stream.code() for stream in streams} == {grpc.StatusCode.PERMISSION_DENIED}
            assert all("was revoked" in stream.details() for stream in streams)
            over.set()
