"""Requests for certificates, and the names and the key of one."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from domo.errors import ConfigError
from domo_proto.identities import (
    MOST_REQUEST,
    dns_names,
    fingerprint,
    make_request,
    new_key,
    read_request,
)
from tests.support.certificates import ODD, signed_request


def csr(key: object, *names: str, common_name: str = "") -> bytes:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts))
    if names:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM)  # type: ignore[arg-type]


def test_a_request_names_its_silo_and_its_key() -> None:
    key = new_key()
    request = read_request(make_request(key, "site_a.1"))
    assert request.names == ("site_a.1",)
    assert request.fingerprint == fingerprint(request.csr)
    assert len(request.fingerprint) == len("SHA256:") + 43


def test_all_names_that_a_request_asks_for_are_seen() -> None:
    key = new_key()
    assert read_request(csr(key, "a", "b", common_name="c")).names == ("a", "b", "c")
    assert read_request(csr(key)).names == ()


def test_a_key_that_is_too_weak_or_of_another_kind_is_refused() -> None:
    for key in (
        rsa.generate_private_key(65537, 1024),
        ed25519.Ed25519PrivateKey.generate(),
        ec.generate_private_key(ec.SECP521R1()),
        ec.generate_private_key(ec.SECP256K1()),
        rsa.generate_private_key(3, 2048),
        rsa.generate_private_key(65537, 4104),
    ):
        with pytest.raises(ConfigError, match="must be P-256"):
            read_request(csr(key, "a"))
    assert read_request(csr(rsa.generate_private_key(65537, 2048), "a")).names == ("a",)


@pytest.mark.parametrize("pem", [b"", b"rubbish", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"])
def test_what_is_no_request_is_called_that(pem: bytes) -> None:
    with pytest.raises(ConfigError, match="no request"):
        read_request(pem)


def test_a_request_of_anothers_key_is_refused() -> None:
    der = bytearray(x509.load_pem_x509_csr(make_request(new_key(), "a")).public_bytes(Encoding.DER))
    der[-1] ^= 1  # of the signature
    try:
        pem = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
    except ValueError:
        pytest.skip("the number of the signature cannot be read any more")
    with pytest.raises(ConfigError, match="not signed by its own key"):
        read_request(pem)


@pytest.mark.parametrize("odd", ODD)
def test_names_that_cannot_be_read_are_none(odd: str) -> None:
    """These are errors of their own in `cryptography`, raised when that part is asked for."""
    pem = signed_request(odd)
    assert dns_names(x509.load_pem_x509_csr(pem)) == ()
    assert read_request(pem).names == ("site-a",)


def test_a_request_that_is_too_long_is_not_looked_at() -> None:
    pem = csr(new_key(), *(f"site-{k}" for k in range(2000)))
    assert len(pem) > MOST_REQUEST
    with pytest.raises(ConfigError, match=f"at most {MOST_REQUEST} bytes"):
        read_request(pem)
