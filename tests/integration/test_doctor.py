"""`domo-client doctor` against set-ups that are broken in one way each, and one that is not.

The coordinators, sockets and certificates are real; a set-up must be blamed for its fault, and for
nothing else.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from grpc_health.v1 import health, health_pb2_grpc

import domo_client
from domo.errors import CoordinatorUnavailableError
from domo_client.doctor.checks import network
from domo_client.state.folder import SiloState
from domo_proto.channel import TlsFiles
from tests.support.certificates import Authority, Pair
from tests.support.faults.small_disk import small_disk
from tests.support.live.coordinator import Coordinator, coordinator
from tests.support.live.doctored import (
    LONG,
    Papers,
    doctor,
    flags,
    nobody_came,
    of,
    signed,
    tls_flags,
    write_images,
)
from tests.support.live.killable import free_port


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return signed(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(papers: Papers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator with mTLS that no test changes."""
    with coordinator(tmp_path_factory.mktemp("mutual"), tls=of(papers)) as it:
        it.admit("site-a")
        yield it


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator without TLS that no test changes."""
    with coordinator(tmp_path_factory.mktemp("plain")) as it:
        yield it


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("data"))


# nothing is wrong


def test_the_name_is_free_afterwards(papers: Papers, images: Path, tmp_path: Path) -> None:
    """Also for a silo with another state folder than the one that was looked at."""
    with coordinator(tmp_path, tls=of(papers)) as server:
        server.admit("site-a")
        outcome = doctor(
            *flags(server.address, tmp_path, images, *tls_flags(papers), "--dashboard", server.url)
        )
        assert (outcome.code, outcome.of("warning")) == (0, set())
        assert outcome.of("not checked") == {"open run", "same meaning"}, "no run is open"
        nobody_came(server)
        mine = TlsFiles(papers.ca.cert, papers.site_a.cert, papers.site_a.key)
        with domo_client.connect(server.address, "site-a", state_dir=tmp_path / "other", tls=mine):
            assert [s["silo_id"] for s in server.get("/silos")] == ["site-a"]


def test_a_state_folder_in_use_is_said_and_left_as_it_is(
    plain: Coordinator, images: Path, tmp_path: Path
) -> None:
    def snapshot() -> list[tuple[str, int, int]]:
        paths = sorted([tmp_path / "state", *(tmp_path / "state").rglob("*")])
        return [(str(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths]

    state = SiloState(tmp_path / "state")
    before = snapshot()
    args = flags(plain.address, tmp_path, images, "--dashboard", plain.url)
    try:
        doctor(*args).blames(
            "state folder", f"another domo-client (process {os.getpid()}) uses", "--state-dir"
        )
    finally:
        state.close()
    assert doctor(*args).code == 0
    assert snapshot() == before
    SiloState(tmp_path / "state").close()


# ten set-ups that are broken


def test_a_wrong_host(papers: Papers, images: Path, tmp_path: Path) -> None:
    args = flags("no-such-host.invalid:50051", tmp_path, images, *tls_flags(papers))
    outcome = doctor(*args)
    outcome.blames("DNS", "the name no-such-host.invalid cannot be resolved", "--server")
    assert {"TCP", "gRPC", "server certificate", "protocol"} <= outcome.of("not checked")
    assert "dummy round" in outcome.of("ok")


def test_a_closed_port(papers: Papers, images: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    outcome = doctor(*flags(address, tmp_path, images, *tls_flags(papers)))
    outcome.blames("TCP", f"nothing listens at {address}", "is the coordinator started")


@pytest.mark.parametrize("name", ["stranger", "ca"])
def test_a_wrong_ca(
    name: str, server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    """Another one, and one of the same name with another key."""
    other = Authority(tmp_path / "other", name, LONG)
    outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers, other.cert)))
    text = f"is not signed by a CA in {other.cert}, but by CN=ca: the wrong CA"
    outcome.blames("server certificate", text, "--tls-ca")


def test_a_file_of_cas_that_a_variable_names(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """Where no --tls-ca is given, and grpc goes by it."""
    variable = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
    monkeypatch.setenv(variable, str(papers.stranger.cert))
    own = ("--tls-cert", str(papers.site_a.cert), "--tls-key", str(papers.site_a.key))
    outcome = doctor(*flags(server.address, tmp_path, images, *own))
    text = f"in {papers.stranger.cert} (of {variable}; no --tls-ca is given), but by CN=ca"
    outcome.blames("server certificate", text, "--tls-ca")


def test_an_address_as_it_is_pasted(plain: Coordinator, images: Path, tmp_path: Path) -> None:
    pasted, page = f" http://{plain.address}/ ", plain.url.removeprefix("http://")
    assert doctor(*flags(pasted, tmp_path, images, "--dashboard", page)).code == 0


def test_an_expired_certificate_of_the_coordinator(
    papers: Papers, images: Path, tmp_path: Path
) -> None:
    old = papers.ca.sign("old", "127.0.0.1", days=(-30, -2))
    with coordinator(tmp_path, tls=of(papers, old)) as server:
        outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers)))
        text = "the coordinator's certificate expired on"
        outcome.blames("server certificate", text, "ask the admin to renew it")


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_a_proxy_in_the_way(
    variable: str, plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv(variable, f"http://ann:hidden@127.0.0.1:{free_port()}")
    state = tmp_path / "agent"
    with pytest.raises(CoordinatorUnavailableError):  # so it is for the agent
        domo_client.connect(plain.address, "site-b", state_dir=state, first_connect_s=0.1)
    args = flags(plain.address, tmp_path, images, "--dashboard", plain.url)
    outcome = doctor(*args)
    text = f"the variable {variable} sends grpc to 127.0.0.1 through the proxy 127.0.0.1:"
    outcome.blames("proxy", text, "export no_proxy=127.0.0.1")
    assert "hidden" not in str(outcome)
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # as it was told
    assert doctor(*args).code == 0


def test_no_data(plain: Coordinator, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    outcome = doctor(*flags(plain.address, tmp_path, empty, "--dashboard", plain.url))
    outcome.blames("data folder", f"--data {empty} is empty", "the folder should hold train.npz")
    unread = {"data", "inputs", "samples", "same meaning", "dummy round"}
    assert outcome.of("not checked") == {"server certificate", "open run", *unread}


@pytest.mark.parametrize("kind", ["damaged", "folder"])
def test_data_that_cannot_be_read(
    kind: str, plain: Coordinator, images: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(images, data)
    file = data / "train.npz"
    if kind == "damaged":
        file.write_bytes(file.read_bytes()[:-300])
        text = f"digits: {file} cannot be read as an npz file of plain arrays"
    else:
        file.unlink()
        file.mkdir()
        text = f"digits: there is no train.npz in {data}"
    outcome = doctor(*flags(plain.address, tmp_path, data, "--dashboard", plain.url))
    outcome.blames("data", text, "the folder should hold train.npz")


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk("4m") as folder:
        yield folder


@pytest.mark.parametrize("full", [False, True])
def test_no_disk(full: bool, disk: Path, plain: Coordinator, images: Path, tmp_path: Path) -> None:
    if full:
        with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as f:
            while True:
                f.write(bytes(4096))
    outcome = doctor(*flags(plain.address, disk, images, "--dashboard", plain.url))
    free = "0 B" if full else "4.2 MB"
    outcome.blames("disk space", f"{free} are free in {disk}", "make room there")


def test_a_wrong_device(plain: Coordinator, images: Path, tmp_path: Path) -> None:
    device = "cuda:64" if torch.cuda.is_available() else "cuda"
    more = ["--dashboard", plain.url, "--device", device]
    outcome = doctor(*flags(plain.address, tmp_path, images, *more))
    outcome.blames("device", f"--device {device}: not usable here", "--device cpu")
    assert "dummy round" in outcome.of("not checked")


# other faults


def test_a_proxy_that_lets_us_through(
    plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    with connect_proxy() as (address, asked):
        monkeypatch.setenv("https_proxy", f"http://{address}")
        outcome = doctor(*flags(plain.address, tmp_path, images, "--dashboard", plain.url))
    assert (outcome.code, outcome.of("warning")) == (0, {"proxy"})
    assert "protocol" in outcome.of("ok")
    assert asked
    assert set(asked) == {plain.address}


def test_a_proxy_that_refuses(
    plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    with connect_proxy("HTTP/1.1 403 Forbidden") as (address, _):
        monkeypatch.setenv("http_proxy", f"http://{address}")
        outcome = doctor(*flags(plain.address, tmp_path, images, "--dashboard", plain.url))
    outcome.blames("proxy", "which refuses: HTTP/1.1 403 Forbidden", "unset http_proxy")


@pytest.mark.parametrize(
    "variables",
    [
        {"HTTPS_PROXY": "http://127.0.0.1:1"},  # grpc reads lower case only
        {"https_proxy": "socks5://127.0.0.1:1"},  # and takes no other kind
        {"https_proxy": "http://127.0.0.1:1", "no_proxy": "example.org, 127.0.0.0/8"},
        {"https_proxy": "http://127.0.0.1:1", "no_grpc_proxy": "0.0.1"},
    ],
)
def test_a_proxy_that_grpc_does_not_take(
    variables: dict[str, str], plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """What doctor says of the variables is what grpc does with them."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outcome = doctor(*flags(plain.address, tmp_path, images, "--dashboard", plain.url))
    assert outcome.code == 0
    assert {"proxy", "protocol"} <= outcome.of("ok")


@contextmanager
def connect_proxy(answer: str = "") -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy for CONNECT; with an answer, it says that instead. Yields who was asked for."""
    asked: list[str] = []
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve(sock: socket.socket) -> None:
        with sock:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            where = head.split(b" ")[1].decode()
            asked.append(where)
            if answer:
                sock.sendall(f"{answer}\r\n\r\n".encode())
                return
            host, _, port = where.rpartition(":")
            with socket.create_connection((host, int(port))) as beyond:
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=pump, args=(beyond, sock), daemon=True)
                back.start()
                pump(sock, beyond)
                back.join(10)

    def accept() -> None:
        while not stop.is_set():
            with suppress(OSError):
                sock, _ = listener.accept()
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield "{}:{}".format(*listener.getsockname()), asked
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_the_dashboards_port(plain: Coordinator, images: Path, tmp_path: Path) -> None:
    address = plain.url.removeprefix("http://")
    outcome = doctor(*flags(address, tmp_path, images, "--dashboard", plain.url))
    outcome.blames("gRPC", f"{address} is a web server, and speaks no gRPC", "port for silos")


def test_another_grpc_server(plain: Coordinator, images: Path, tmp_path: Path) -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), other)
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        args = flags(f"127.0.0.1:{port}", tmp_path, images, "--dashboard", plain.url)
        outcome = doctor(*args)
    finally:
        other.stop(0).wait()
    outcome.blames("protocol", "speaks gRPC, and is no domo coordinator", "--server")


def test_a_port_that_says_nothing(
    plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("domo_client.identity.dial.CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = "{}:{}".format(*mute.getsockname())
        outcome = doctor(*flags(address, tmp_path, images, "--dashboard", plain.url))
    outcome.blames("gRPC", "takes connections and says nothing", "50051")


def test_another_version(
    plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(network, "PROTOCOL_VERSION", 99)
    outcome = doctor(*flags(plain.address, tmp_path, images, "--dashboard", plain.url))
    outcome.blames("protocol", "the silo speaks protocol 99", "the same version")


def test_plain_text_to_a_tls_port(server: Coordinator, images: Path, tmp_path: Path) -> None:
    outcome = doctor(*flags(server.address, tmp_path, images, "--dashboard", server.url))
    outcome.blames("gRPC", "speaks TLS, and no TLS file is given", "--tls-ca")


def test_tls_to_a_plain_port(
    plain: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    outcome = doctor(*flags(plain.address, tmp_path, images, *tls_flags(papers)))
    outcome.blames("gRPC", "speaks gRPC without TLS", "leave out --tls-ca")


def test_no_certificate_where_one_is_wanted(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    outcome = doctor(*flags(server.address, tmp_path, images, "--tls-ca", str(papers.ca.cert)))
    outcome.blames("gRPC", "it wants a certificate of the silo (mTLS)", "--tls-cert")
    assert "server certificate" in outcome.of("ok")


def test_an_own_certificate_of_another_ca(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    forged = papers.stranger.sign("site-a", "site-a")
    more = tls_flags(papers, own=forged)
    outcome = doctor(*flags(server.address, tmp_path, images, *more))
    outcome.blames("gRPC", f"hangs up on the own certificate {forged.cert}", "client_ca")


def test_an_own_certificate_that_has_expired(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    old = papers.ca.sign("site-a-old", "site-a", days=(-30, -2))
    outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers, own=old)))
    assert outcome.of("problem") == {"TLS files", "gRPC"}
    assert any(f"the own certificate {old.cert} expired on" in f["text"] for f in outcome.found)


def test_certificates_that_expire_soon(papers: Papers, images: Path, tmp_path: Path) -> None:
    soon = papers.ca.sign("soon", "127.0.0.1", days=(-30, 3.5))
    mine = papers.ca.sign("site-a-soon", "site-a", days=(-60, 13.5))
    with coordinator(tmp_path, tls=of(papers, soon)) as server:
        server.admit("site-a")
        more = [*tls_flags(papers, own=mine), "--dashboard", server.url]
        outcome = doctor(*flags(server.address, tmp_path, images, *more))
    assert outcome.code == 0
    said = [f["text"] for f in outcome.found if f["state"] == "warning"]
    assert len(said) == 2
    assert f"the own certificate {mine.cert} expires in 13 days" in said[0]
    assert "the coordinator's certificate expires in 3 days" in said[1]


def test_a_coordinator_under_another_name(papers: Papers, images: Path, tmp_path: Path) -> None:
    elsewhere = papers.ca.sign("elsewhere", "coordinator.example")
    with coordinator(tmp_path, tls=of(papers, elsewhere)) as server:
        outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers)))
    text = "the coordinator's certificate is for coordinator.example, not for 127.0.0.1"
    outcome.blames("server certificate", text, "--server")


def test_a_key_of_another_certificate(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    mixed = Pair(papers.site_a.cert, papers.server.key)
    outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers, own=mixed)))
    outcome.blames("TLS files", "does not belong to the certificate", "made together")


def test_files_that_are_none(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    (tmp_path / "text.pem").write_text("hello")
    absent = Pair(tmp_path / "absent.pem", papers.site_a.key)
    outcome = doctor(
        *flags(server.address, tmp_path, images),
        *tls_flags(papers, tmp_path / "text.pem", absent),
    )
    said = [f["text"] for f in outcome.found if f["state"] == "problem"]
    assert any("text.pem is not a PEM file" in text for text in said)
    assert any("absent.pem: No such file or directory" in text for text in said)


def test_a_certificate_of_another_silo(
    server: Coordinator, papers: Papers, images: Path, tmp_path: Path
) -> None:
    other = papers.ca.sign("site-b", "site-b")
    outcome = doctor(*flags(server.address, tmp_path, images, *tls_flags(papers, own=other)))
    outcome.blames("TLS files", "the own certificate is for site-b, not for site-a", "--name")


def test_no_tls_to_another_machine(images: Path, tmp_path: Path) -> None:
    outcome = doctor(*flags("no-such-host.invalid:1", tmp_path, images))
    assert outcome.of("problem") == {"flags", "DNS"}


def test_flags_that_are_wrong(plain: Coordinator, tmp_path: Path) -> None:
    args = flags(plain.address, tmp_path, None, "--dashboard", plain.url)
    for more, text in (
        (["--shard", "4/4"], "--shard must be i/K"),
        (["--shard", "0/4", "--role", "boss"], "--role boss"),
        (["--shard", "0/4", "--precision", "fp8"], "--precision fp8"),
        (["--shard", "0/4", "--name", "no name"], "is no silo name"),
        (["--shard", "0/4", "--server", "nowhere"], "must be host:port"),
    ):
        doctor(*args, *more).blames("flags", text, "")


def test_nothing_is_given(tmp_path: Path) -> None:
    outcome = doctor("doctor", "--state-dir", str(tmp_path / "state"))
    outcome.blames("flags", "which coordinator? Give --server host:port", "DOMO_CLIENT_SERVER")
    assert {"task", "data", "dummy round", "TCP"} <= outcome.of("not checked")


def test_code_of_a_task_that_raises(plain: Coordinator, tmp_path: Path) -> None:
    """It is said in a line; no traceback, whatever the task does."""
    (tmp_path / "some").touch()
    args = flags(plain.address, tmp_path, None, "--data", str(tmp_path), "--dashboard", plain.url)
    for task, check, text in (
        ("tests.support.tasks.bad:Unreadable", "data", "patients.csv has no column 'age'"),
        ("tests.support.tasks.bad:Linear", "dummy round", "loss(model, batch) fails: IndexError"),
        ("tests.support.tasks.bad:Absent", "task", "has no 'Absent'"),
        ("tests.support.tasks.bad:Chatty", "data", "SystemExit: the licence has expired"),
    ):
        outcome = doctor(*[task if a == "digits" else a for a in args])
        assert check in outcome.of("problem")
        assert any(text in f["text"] for f in outcome.found if f["check"] == check)
        assert "Traceback" not in str(outcome)


def test_little_shared_memory(
    plain: Coordinator, images: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("domo_client.doctor.checks.machine.SHM_PER_WORKER", 1 << 60)
    more = ["--dashboard", plain.url, "--workers", "1"]
    outcome = doctor(*flags(plain.address, tmp_path, images, *more))
    assert (outcome.code, outcome.of("warning")) == (0, {"shared memory"})
