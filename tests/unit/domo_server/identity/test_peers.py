"""Certificates of peers, as they are read."""

from pathlib import Path
from typing import Any

import pytest

from domo.errors import AccessError
from domo_server.identity import peers
from domo_server.identity.peers import Peers, address_of, read_peer
from tests.support.certificates import CLIENT, ODD, SERVER, Authority

CODE = "domo:enrol:site-a:n0nce"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


class Context:
    def __init__(self, pem: bytes | None, peer: str = "ipv4:10.0.0.7:1234"):
        self._auth = {} if pem is None else {"x509_pem_cert": [pem]}
        self._peer = peer

    def auth_context(self) -> dict[str, Any]:
        return self._auth

    def peer(self) -> str:
        return self._peer


def test_what_counts_as_a_name(ca: Authority) -> None:
    pem = ca.sign("cn", "site-a", "10.0.0.1", "spiffe://d/x").cert.read_bytes()
    assert read_peer(pem, {}).names == {"site-a"}
    assert read_peer(pem, {"spiffe://d/x": "site-b"}).names == {"site-a", "site-b"}
    assert read_peer(ca.sign("site-a").cert.read_bytes(), {}).names == frozenset()


def test_what_a_certificate_may_be_used_for(ca: Authority) -> None:
    for uses, good in (
        ((CLIENT,), True),
        ((CLIENT, SERVER), True),
        ((SERVER,), False),
        ((), False),
    ):
        pem = ca.sign("x", "site-a", uses=uses).cert.read_bytes()
        assert read_peer(pem, {}).for_clients is bool(good)


def test_a_codes_certificate(ca: Authority) -> None:
    peer = read_peer(ca.sign("x", CODE).cert.read_bytes(), {})
    assert peer.invited == ("site-a", "n0nce")
    assert peer.names == frozenset()
    assert peer.shown == "a code for site-a"
    assert read_peer(ca.sign("x", "domo:enrol:site-a").cert.read_bytes(), {}).invited == ("", "")


def test_a_certificate_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(AccessError, match="cannot be read"):
        Peers({}).of(Context(b"rubbish"))


def test_each_is_read_once_and_not_all_are_kept(
    ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "MOST_KEPT", 3)
    pems = [ca.sign(f"x{k}", f"site-{k}").cert.read_bytes() for k in range(5)]
    known = Peers({})
    assert known.of(Context(None)) is None
    first = known.of(Context(pems[0]))
    assert known.of(Context(bytes(bytearray(pems[0])))) is first
    for pem in pems[1:]:
        known.of(Context(pem))
    assert len(known._read) == 3
    assert known.of(Context(pems[0])) is not first


def test_the_address_of_a_call() -> None:
    for peer, address in (
        ("ipv4:10.0.0.7:1234", "10.0.0.7"),
        ("ipv6:%5B2001:db8::1%5D:1234", "2001:db8::1"),
        ("unix:/x\ny", ""),
    ):
        assert address_of(Context(None, peer)) == address


@pytest.mark.parametrize("odd", ODD)
def test_names_that_cannot_be_read_are_nobodys(odd: str, ca: Authority) -> None:
    pem = ca.sign(f"odd-{len(odd)}", odd=odd).cert.read_bytes()
    with pytest.raises(AccessError, match="cannot be read"):
        read_peer(pem, {})
