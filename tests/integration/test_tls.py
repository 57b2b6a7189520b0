"""TLS and mTLS: who is let in, who is not, and what they are told."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import domo_client
from domo.errors import (
    AccessError,
    ConfigError,
    CoordinatorUnavailableError,
    DomoError,
)
from domo_client.loop.silo import Silo
from domo_proto.certificates import CertificateError
from domo_proto.channel import TlsFiles
from tests.support.certificates import Authority, Pair
from tests.support.live.coordinator import Coordinator, coordinator, own_run

HUNG_UP = (
    r"no coordinator answers at \S+ \(it hung up at once: it may want TLS \(--tls-ca\), or a "
    r"certificate of its own CA \(--tls-cert, --tls-key\)\)"
)


class Papers(NamedTuple):
    """What a CA has signed, and another CA."""

    ca: Authority
    stranger: Authority
    server: Pair
    site_a: Pair


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("certificates")
    ca, stranger = Authority(folder / "ours", "ca"), Authority(folder / "theirs", "stranger")
    return Papers(
        ca, stranger, ca.sign("coordinator", "localhost", "127.0.0.1"), ca.sign("site-a", "site-a")
    )


def tls_of(papers: Papers, mutual: bool, server: Pair | None = None) -> dict[str, Path]:
    pair = server or papers.server
    files = {"cert": pair.cert, "key": pair.key}
    return files | {"client_ca": papers.ca.cert} if mutual else files


@pytest.fixture
def one_way(papers: Papers, tmp_path: Path) -> Iterator[Coordinator]:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with coordinator(tmp_path, run, tls=tls_of(papers, False)) as server:
        yield server


@pytest.fixture
def mutual(papers: Papers, tmp_path: Path) -> Iterator[Coordinator]:
    run = own_run(tmp_path, nn.Linear(2, 1))
    with coordinator(tmp_path, run, tls=tls_of(papers, True)) as server:
        server.admit("site-a", "site-b")
        yield server


def join(
    server: Coordinator,
    folder: Path,
    tls: TlsFiles | None,
    name: str = "site-a",
    wait_s: float = 60,
) -> Silo:
    return domo_client.connect(
        server.address, name, state_dir=folder / f"state-{name}", tls=tls, first_connect_s=wait_s
    )


def refused(
    server: Coordinator,
    folder: Path,
    tls: TlsFiles | None,
    text: str,
    kind: type[DomoError] = CertificateError,
) -> None:
    """What passes by itself is tried for a while, and a certificate is named at once."""
    wait_s = 60 if kind is CertificateError else 0.1
    with pytest.raises(kind, match=f"^{text}$"):
        join(server, folder, tls, wait_s=wait_s)
    assert server.get("/silos") == []


def takes_part(silo: Silo) -> None:
    module = nn.Linear(2, 1)
    for rnd in silo.rounds(module, eval_samples=0):
        opt = rnd.optimizer()
        for inputs in rnd.batches([torch.ones(2)]):
            module(inputs).sum().backward()
            opt.step()
    assert silo.outcome is not None
    assert silo.outcome.state == "FINISHED"


def test_a_run_over_tls(one_way: Coordinator, papers: Papers, tmp_path: Path) -> None:
    with join(one_way, tmp_path, TlsFiles(ca=papers.ca.cert)) as silo:
        takes_part(silo)
    assert one_way.get("/status")["tls"] is True


def test_a_run_over_mtls(mutual: Coordinator, papers: Papers, tmp_path: Path) -> None:
    mine = TlsFiles(papers.ca.cert, papers.site_a.cert, papers.site_a.key)
    with join(mutual, tmp_path, mine) as silo:
        takes_part(silo)


def test_certificates_that_end_soon(papers: Papers, tmp_path: Path) -> None:
    server_pair = papers.ca.sign("soon", "localhost", "127.0.0.1", days=(-30, 5.5))
    late = papers.ca.sign("late", "site-a", days=(-9, 0.51))
    own = papers.ca.sign("mine", "site-a", days=(-1, 60))
    with coordinator(tmp_path, tls=tls_of(papers, True, server_pair)) as server:
        assert days_left(server.get("/status")["certificate_end"]) == 5
        server.admit("site-a")
        for pair, days in ((own, 59), (papers.site_a, 0), (late, 0)):
            with join(server, tmp_path, TlsFiles(papers.ca.cert, pair.cert, pair.key)):
                assert days_left(server.silo("site-a")["certificate_end"]) == days
        said = [(e["silo_id"], e["text"]) for e in server.get("/events?kind=certificate")]
    mend = "renew it; a new one is read by itself"
    assert said == [
        (None, f"the coordinator's certificate expires in 5 days: {mend}"),
        ("site-a", f"the certificate of site-a expires in 12 h 14 min: {mend}"),
    ]


def days_left(end: str) -> int:
    return (datetime.fromisoformat(end) - datetime.now(UTC)).days


def test_plain_text_to_a_tls_port(one_way: Coordinator, tmp_path: Path) -> None:
    refused(one_way, tmp_path, None, HUNG_UP, CoordinatorUnavailableError)


def test_a_coordinator_of_another_ca(one_way: Coordinator, papers: Papers, tmp_path: Path) -> None:
    files = papers.stranger.cert
    refused(one_way, tmp_path, TlsFiles(ca=files), wrong_ca(files))


def wrong_ca(file: Path) -> str:
    return (
        rf"the coordinator's certificate is not signed by a CA in {file}, but by CN=ca: the wrong "
        r"CA; ask the admin for the CA's file and give it as --tls-ca"
    )


def test_a_coordinator_of_a_ca_with_the_same_name(one_way: Coordinator, tmp_path: Path) -> None:
    twin = Authority(tmp_path / "twin", "ca")
    refused(one_way, tmp_path, TlsFiles(ca=twin.cert), wrong_ca(twin.cert))


def test_a_coordinator_under_another_name(papers: Papers, tmp_path: Path) -> None:
    elsewhere = papers.ca.sign("elsewhere", "coordinator.example")
    with coordinator(tmp_path, tls=tls_of(papers, False, elsewhere)) as server:
        text = (
            r"the coordinator's certificate is for coordinator.example, not for 127.0.0.1; give "
            r"one of these as --server, or have one made for the name in use"
        )
        refused(server, tmp_path, TlsFiles(ca=papers.ca.cert), text)


@pytest.mark.parametrize(
    ("days", "text"), [((-9, -2), "expired on"), ((2, 9), "is not valid before")]
)
def test_a_coordinators_certificate_that_does_not_hold_now(
    papers: Papers, tmp_path: Path, days: tuple[float, float], text: str
) -> None:
    pair = papers.ca.sign("other-days", "127.0.0.1", days=days)
    with coordinator(tmp_path, tls=tls_of(papers, False, pair)) as server:
        said = rf"the coordinator's certificate {text} \S+ \S+ UTC; .*clock.*"
        refused(server, tmp_path, TlsFiles(ca=papers.ca.cert), said)


@pytest.mark.parametrize(
    ("days", "text"), [((-9, -2), "expired on"), ((2, 9), "is not valid before")]
)
def test_an_own_certificate_that_does_not_hold_now(
    papers: Papers, tmp_path: Path, days: tuple[float, float], text: str
) -> None:
    """It is seen before anybody is dialled."""
    pair = papers.ca.sign("mine", "site-a", days=days)
    tls = TlsFiles(papers.ca.cert, pair.cert, pair.key)
    with pytest.raises(CertificateError, match=rf"^the own certificate {pair.cert} {text} .*; .*"):
        domo_client.connect("127.0.0.1:1", "site-a", state_dir=tmp_path / "state", tls=tls)
    assert not (tmp_path / "state").exists()


def test_tls_to_a_plain_port(papers: Papers, tmp_path: Path) -> None:
    with coordinator(tmp_path) as server:
        text = r"no coordinator answers at \S+ \(it does not speak TLS\)"
        refused(server, tmp_path, TlsFiles(ca=papers.ca.cert), text, CoordinatorUnavailableError)


def test_another_silos_certificate(mutual: Coordinator, papers: Papers, tmp_path: Path) -> None:
    mine = TlsFiles(papers.ca.cert, papers.site_a.cert, papers.site_a.key)
    text = (
        r"^the own certificate is for site-a, not for site-b; give the --name that is in it, or "
        r"have one made with this name \(subject alternative\)$"
    )
    with pytest.raises(AccessError, match=text):
        join(mutual, tmp_path, mine, "site-b")
    assert mutual.get("/silos") == []


def test_no_certificate_where_one_is_wanted(
    mutual: Coordinator, papers: Papers, tmp_path: Path
) -> None:
    text = (
        r"\S+ hangs up: it wants a certificate of the silo \(mTLS\); domo-client enroll makes one; "
        r"or give --tls-cert and --tls-key"
    )
    refused(mutual, tmp_path, TlsFiles(ca=papers.ca.cert), text)


def test_a_certificate_of_another_ca(mutual: Coordinator, papers: Papers, tmp_path: Path) -> None:
    forged = papers.stranger.sign("site-a", "site-a")
    text = (
        rf"\S+ hangs up on the own certificate {forged.cert}, signed by CN=stranger; it must be .*"
    )
    refused(mutual, tmp_path, TlsFiles(papers.ca.cert, forged.cert, forged.key), text)


def test_a_session_is_not_usable_with_another_silos_certificate(
    mutual: Coordinator, papers: Papers, tmp_path: Path
) -> None:
    """Every call checks the certificate, not only the first."""
    site_b = papers.ca.sign("site-b", "site-b")
    a = join(mutual, tmp_path, TlsFiles(papers.ca.cert, papers.site_a.cert, papers.site_a.key))
    b = join(mutual, tmp_path, TlsFiles(papers.ca.cert, site_b.cert, site_b.key), "site-b")
    with a, b:
        b.connection.session.token = a.connection.session.token
        with pytest.raises(AccessError, match="this certificate is for site-b, not for site-a"):
            b.connection.control.wait_for_run()
        with pytest.raises(AccessError, match="this certificate is for site-b, not for site-a"):
            b.connection.data.fetch_round(mutual.run_ids[0])


@pytest.mark.parametrize("address", ["192.0.2.1:50051", "127.example.com:1", "[2001:db8::1]:1"])
def test_plain_text_to_another_machine(address: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is another machine, and without TLS everybody"):
        domo_client.connect(address, "site-a", state_dir=tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"ca": "absent.pem"}, r"tls ca: cannot read .*absent\.pem: No such file or directory"),
        ({"ca": "text.pem"}, r"tls ca: .*text\.pem is not a PEM file"),
        ({"cert": "text.pem"}, "a client certificate and its key go together"),
    ],
)
def test_files_that_cannot_be_used(files: dict[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("hello")
    tls = TlsFiles(**{k: tmp_path / v for k, v in files.items()})
    with pytest.raises(ConfigError, match=text):
        domo_client.connect("127.0.0.1:1", "site-a", state_dir=tmp_path / "state", tls=tls)
