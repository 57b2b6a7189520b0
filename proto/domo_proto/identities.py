"""Who a certificate is for, and keys and requests for certificates.

A silo goes by the dNSNames of its certificate's subject alternative name, and by nothing else in it
(RFC 9525): where a common name, an e-mail address or a URI counted too, whoever may choose one of
those could be anybody.
"""

import base64
import hashlib
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from domo.errors import ConfigError
from domo.names import shown
from domo_proto.certificates import common_names

ENROL_URI = "domo:enrol:"
"""What the name in a code's certificate begins with (a URI); the silo and a nonce follow."""
MIN_RSA_BITS = 2048


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
    except (x509.ExtensionNotFound, ValueError):
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
    try:
        csr = x509.load_pem_x509_csr(pem)
        signed = csr.is_signature_valid
        key = csr.public_key()
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        raise ConfigError("this is no request for a certificate (PKCS #10, PEM)") from None
    if not signed:
        raise ConfigError("the request for a certificate is not signed by its own key")
    elliptic = isinstance(key, ec.EllipticCurvePublicKey) and key.key_size in (256, 384)
    if not elliptic and not (isinstance(key, rsa.RSAPublicKey) and key.key_size >= MIN_RSA_BITS):
        raise ConfigError("the key of a request must be P-256, P-384, or RSA of 2048 bits or more")
    names = dns_names(csr)
    subjects = [str(a.value) for a in csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return Request(tuple(dict.fromkeys((*names, *subjects))), csr, fingerprint(csr))


def who(cert: x509.Certificate) -> str:
    """Whose a certificate is, for people: its names, else what its subject says."""
    names = dns_names(cert) or uris(cert) or common_names(cert)
    return shown(", ".join(names))[:200] or "nobody"
