"""When a silo asks for another certificate."""

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from domo_client.identity import renewal
from domo_client.identity.kept import Kept
from domo_client.identity.place import Place, write_private
from domo_client.identity.renewal import Renewal
from domo_proto.enrolment import CA_FILE, CERT_FILE
from domo_proto.identities import key_to_pem, new_key, read_request
from domo_server.identity.authority import Authority, make_pki
from domo_server.pki_files import pki_of

DAY_S = 86_400.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    pki = pki_of(tmp_path)
    make_pki(pki, ["localhost"], "localhost:1")
    return Authority(pki)


def enrolled(authority: Authority, folder: Path, days: float) -> Kept:
    place, key = Place(folder), new_key()
    write_private(place.key, key_to_pem(key))
    pem = authority.certify(key.public_key(), "site-a", days).public_bytes(Encoding.PEM)
    return place.fill({CA_FILE: authority.ca_pem, CERT_FILE: pem}, "localhost:1", "site-a")


def test_a_clock_that_is_far_ahead_makes_no_renewal_after_the_other(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By it every certificate is half over when it comes."""
    now = time.time
    asked, told = list[bytes](), list[str]()

    def certify(request: bytes) -> tuple[bytes, bytes]:
        asked.append(request)
        key = read_request(request).csr.public_key()
        cert = authority.certify(key, "site-a", 30.0)
        return cert.public_bytes(Encoding.PEM), authority.ca_pem

    kept = enrolled(authority, tmp_path / "silo", 30.0)
    monkeypatch.setattr(time, "time", lambda: now() + 20 * DAY_S)
    it = Renewal(kept.tls, "site-a", certify, lambda: None, told.append)
    for _ in range(5):
        it.look()
    assert len(asked) == 1
    assert told == []
    spent = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: spent() + 31 * DAY_S / renewal.RESTS)
    it.look()
    assert len(asked) == 2  # the clock may be right, and the machine have slept
