"""The dashboard ends TLS itself: versions, renewed files, faults, what is said without it."""

import contextlib
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from domo.errors import ConfigError
from domo_server.dashboard_config import DashboardTls
from domo_server.page_tls import LOOK_S, PageTls
from tests.support.certificates import Authority, Pair
from tests.support.live.coordinator import coordinator


def handshake(tls: PageTls, name: str | None = None, **client: Any) -> x509.Certificate:
    """What the server shows, without a network; `name`: what the client calls it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for key, value in client.items():
        setattr(context, key, value)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = context.wrap_bio(to_client, to_server, server_hostname=name)
    far = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (near, far):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = near.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown)


def put(pair: Pair, files: DashboardTls) -> None:
    """As a renewal does: the new file takes the old one's place."""
    for source, target in ((pair.cert, files.cert), (pair.key, files.key)):
        fresh = target.with_suffix(".new")
        fresh.write_bytes(source.read_bytes())
        fresh.replace(target)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("name", [None, "localhost"])
def test_renewed_files_are_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str | None
) -> None:
    ca = Authority(tmp_path, "ca")
    old, new = ca.sign("old", "localhost"), ca.sign("new", "localhost")
    files = DashboardTls(cert=tmp_path / "page.pem", key=tmp_path / "page.key")
    put(old, files)
    clock = Clock()
    tls = PageTls(files, clock)

    def common_name() -> str:
        subject = handshake(tls, name).subject
        return str(subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)

    assert common_name() == "old"
    put(new, files)
    assert common_name() == "old"  # nobody has looked yet
    clock.now += LOOK_S
    assert common_name() == "new"

    put(Pair(old.cert, new.key), files)  # half of a renewal
    clock.now += LOOK_S
    caplog.clear()
    assert common_name() == "new"
    clock.now += LOOK_S
    assert common_name() == "new"
    assert [r.levelname for r in caplog.records if r.name == "domo_server.page_tls"] == ["WARNING"]
    files.key.unlink()
    clock.now += LOOK_S
    assert common_name() == "new"
    put(old, files)
    clock.now += LOOK_S
    assert common_name() == "old"


def test_a_renewal_with_another_kind_of_key_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca")
    first = ca.sign("first", "localhost")
    issued = ca.sign("second", "localhost", of_rsa=True)
    files = DashboardTls(cert=tmp_path / "page.pem", key=tmp_path / "page.key")
    put(issued, files)
    clock = Clock()
    tls = PageTls(files, clock)
    assert isinstance(handshake(tls).public_key(), rsa.RSAPublicKey)
    put(first, files)
    clock.now += LOOK_S
    only_rsa = {"maximum_version": ssl.TLSVersion.TLSv1_2}
    assert isinstance(handshake(tls, **only_rsa).public_key(), ec.EllipticCurvePublicKey)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_nothing_below_tls_1_2(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").sign("page", "localhost")
    tls = PageTls(DashboardTls(cert=pair.cert, key=pair.key))
    assert tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(tls, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)


def test_what_is_wrong_with_the_files_is_one_line(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca")
    one, other = ca.sign("one", "localhost"), ca.sign("other", "localhost")
    locked = tmp_path / "locked.key"
    private = serialization.load_pem_private_key(one.key.read_bytes(), None)
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    junk = tmp_path / "junk.pem"
    junk.write_text("nothing")
    for cert, key, words in (
        (one.cert, other.key, "does not belong to the certificate"),
        (one.cert, locked, "locked with a password"),
        (junk, one.key, "is not a PEM file"),
        (tmp_path / "none.pem", one.key, "check the path, its owner and its permissions"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            PageTls(DashboardTls(cert=cert, key=key))
        assert "\n" not in str(caught.value)
        assert "dashboard_tls: " in str(caught.value)


def test_a_coordinator_with_tls_on_its_page(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca")
    pair = ca.sign("page", "localhost", "127.0.0.1")
    trust = ssl.create_default_context(cafile=str(ca.cert))
    tls = {"cert": pair.cert, "key": pair.key}
    with (
        coordinator(tmp_path, dashboard_tls=tls) as server,
        httpx.Client(verify=trust, timeout=10) as http,
    ):
        assert server.url.startswith("https://127.0.0.1:")
        answer = http.get(f"{server.url}/", headers={"Host": "localhost"})
        assert answer.status_code == 200
        # of loopback names a browser would keep it for whatever else runs there
        assert "strict-transport-security" not in answer.headers
        where = server.url.removeprefix("https://").rpartition(":")
        with socket.create_connection((where[0], int(where[2])), 10) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP/1.1 2")


def test_the_end_of_the_pages_certificate_is_said_in_time_and_of_the_one_that_is_served(
    tmp_path: Path,
) -> None:
    ca = Authority(tmp_path, "ca")
    soon, later = (ca.sign(f"page-{end}", "127.0.0.1", days=(-10, end)) for end in (3.5, 9))
    trust = ssl.create_default_context(cafile=str(ca.cert))
    with (
        coordinator(tmp_path, dashboard_tls={"cert": soon.cert, "key": soon.key}) as server,
        httpx.Client(base_url=server.url, verify=trust, timeout=10) as http,
    ):
        events = http.get("/api/v1/events?kind=certificate").json()
    assert [e["text"] for e in events] == [
        "the page's certificate expires in 3 days: renew it; a new one is read by itself"
    ]
    files = DashboardTls(cert=tmp_path / "page.pem", key=tmp_path / "page.key")
    put(soon, files)
    tls = PageTls(files)
    first = tls.term()
    put(Pair(later.cert, soon.key), files)  # half of a renewal
    assert tls.term() == first
    put(later, files)
    assert tls.term() > first, "without a handshake"


def test_a_browser_is_told_to_come_by_tls_again(tmp_path: Path) -> None:
    proxied = {"Host": "domo.example.org", "X-Forwarded-Proto": "https"}
    names = {"dashboard_url": "https://domo.example.org"}
    with coordinator(tmp_path, **names, trusted_proxies=["127.0.0.1"]) as server:
        answer = httpx.get(f"{server.url}/", headers=proxied)
        assert answer.headers["strict-transport-security"] == "max-age=2592000"
        plain = {**proxied, "X-Forwarded-Proto": "http"}
        answer = httpx.get(f"{server.url}/", headers=plain)
        assert "strict-transport-security" not in answer.headers
    with coordinator(tmp_path, **names) as server:
        answer = httpx.get(f"{server.url}/", headers=proxied)  # from nobody that is trusted
        assert "strict-transport-security" not in answer.headers


def test_a_page_that_others_reach_in_clear_is_said_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with coordinator(tmp_path, dashboard="0.0.0.0:0"):
        pass
    said = [r.getMessage() for r in caplog.records if "without TLS" in r.getMessage()]
    assert len(said) == 1
    assert "dashboard_tls" in said[0]
    caplog.clear()
    with coordinator(tmp_path / "quiet", trusted_proxies=["192.0.2.1"], dashboard="0.0.0.0:0"):
        pass
    with coordinator(tmp_path / "local"):
        pass
    assert not [r for r in caplog.records if "without TLS" in r.getMessage()]
