"""Who a certificate is for, and keys and requests for certificates.

A silo goes by the dNSNames of its certificate's subject alternative name, and by nothing else in it
(RFC 9525): where a common name, an e-mail address or a URI counted too, whoever may choose one of
those could be anybody.
"""

import base64
import hashlib
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from domo.errors import ConfigError
from domo.names import shown
from domo_proto.certificates import UNREADABLE, common_names

ENROL_URI = "domo:enrol:"
"""What the name in a code's certificate begins with (a URI); the silo and a nonce follow."""
MIN_RSA_BITS, MOST_RSA_BITS, RSA_EXPONENT = 2048, 4096, 65537
"""Of a request's key, if it is RSA: a smaller one is weak, a larger one or another exponent is slow
to check or no protection, and BoringSSL, which grpc speaks TLS with, takes not all of them."""
MOST_REQUEST = 16_384
"""Bytes of a request for a certificate, PEM; one with an RSA key has 1,800."""


class Request(NamedTuple):
    """A request for a certificate, its signature checked.

    Attributes:
        names: The silos that it asks to be.
        csr: The whole.
        fingerprint: Of its key.
    """

    names: tuple[str, ...]
    csr: x509.CertificateSigningRequest
    fingerprint: str


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key for a silo or a coordinator (P-256)."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as a file holds it, without a password."""
    return key.private_bytes(
        Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def fingerprint(of: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The key of a certificate or a request, for people to compare: `SHA256:` and 43 characters."""
    public = of.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = base64.b64encode(hashlib.sha256(public).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def ca_key(pem: bytes) -> str:
    """The key of a CA (PEM), for people to compare at both ends."""
    return fingerprint(x509.load_pem_x509_certificate(pem))


def dns_names(of: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...]:
    """The dNSNames of its subject alternative name: the only names that a silo goes by."""
    return _alternatives(of, x509.DNSName)


def uris(cert: x509.Certificate) -> tuple[str, ...]:
    """The URIs of its subject alternative name."""
    return _alternatives(cert, x509.UniformResourceIdentifier)


def _alternatives(
    of: x509.Certificate | x509.CertificateSigningRequest,
    kind: type[x509.DNSName] | type[x509.UniformResourceIdentifier],
) -> tuple[str, ...]:
    try:
        found = of.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except UNREADABLE:
        return ()
    return tuple(found.value.get_values_for_type(kind))


def invited(cert: x509.Certificate) -> tuple[str, str]:
    """The silo and the nonce that a code's certificate is for; two empty ones: it is no code's."""
    for uri in uris(cert):
        name, colon, nonce = uri.removeprefix(ENROL_URI).partition(":")
        if uri.startswith(ENROL_URI) and colon:
            return name, nonce
    return "", ""


def make_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    """A request (PKCS #10, PEM) for a certificate that says who this silo is."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def read_request(pem: bytes) -> Request:
    """Read a request that somebody else has made.

    Raises:
        ConfigError: It is none, its signature is wrong, or its key is of a kind that TLS here does
            not take.
    """
    if len(pem) > MOST_REQUEST:
        raise ConfigError(f"a request for a certificate has at most {MOST_REQUEST} bytes")
    try:
        csr = x509.load_pem_x509_csr(pem)
        good = _is_good(csr.public_key())  # before its signature, which a monstrous one makes slow
        signed = good and csr.is_signature_valid
        subjects = [str(a.value) for a in csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        request = Request(tuple(dict.fromkeys((*dns_names(csr), *subjects))), csr, fingerprint(csr))
    except UNREADABLE:
        raise ConfigError("this is no request for a certificate (PKCS #10, PEM)") from None
    if not good:
        raise ConfigError(
            f"the key of a request must be P-256, P-384, or RSA of {MIN_RSA_BITS} to "
            f"{MOST_RSA_BITS} bits with the exponent {RSA_EXPONENT}"
        )
    if not signed:
        raise ConfigError("the request for a certificate is not signed by its own key")
    return request


def _is_good(key: object) -> bool:
    """Whether a key is one that TLS here takes, and that protects."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    return (
        isinstance(key, rsa.RSAPublicKey)
        and MIN_RSA_BITS <= key.key_size <= MOST_RSA_BITS
        and key.public_numbers().e == RSA_EXPONENT
    )


def who(cert: x509.Certificate) -> str:
    """Whose a certificate is, for people: its names, else what its subject says."""
    names = dns_names(cert) or uris(cert) or common_names(cert)
    return shown(", ".join(names))[:200] or "nobody"
