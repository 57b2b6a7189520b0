"""Throw-away certificates: a CA, and certificates that it signs."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Pair:
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path


_SAN = x509.ExtensionOID.SUBJECT_ALTERNATIVE_NAME
_A = x509.Extension(_SAN, False, x509.SubjectAlternativeName([x509.DNSName("site-a")]))
ODD: dict[str, list[x509.Extension[x509.ExtensionType]]] = {
    "the same twice": [_A, _A],
    "a name of a kind that nobody knows": [
        x509.Extension(_SAN, False, x509.UnrecognizedExtension(_SAN, bytes.fromhex("3002a300")))
    ],
    "rubbish": [x509.Extension(_SAN, False, x509.UnrecognizedExtension(_SAN, b"rubbish"))],
}
"""Alternative names that cannot be read, though the whole is rightly signed."""


def signed_request(odd: str) -> bytes:
    """A request with one of those, PEM."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "site-a")])
    builder = x509.CertificateSigningRequestBuilder(subject, ODD[odd])
    key = ec.generate_private_key(ec.SECP256R1())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Authority:
    """A CA with its files in a folder.

    Args:
        folder: Where.
        name: The CA's common name, and its file's.
        days: From when until when it is valid, in days from now.
    """

    def __init__(self, folder: Path, name: str, days: tuple[float, float] = (-1, 1)):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._days = folder, days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = (
            self._builder(self._name, self._key, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.cert = folder / f"{name}.pem"
        self.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: Key, days: tuple[float, float]
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * DAY)
            .not_valid_after(now + days[1] * DAY)
        )

    def sign(
        self,
        common_name: str,
        *names: str,
        days: tuple[float, float] | None = None,
        of_rsa: bool = False,
        uses: Sequence[x509.ObjectIdentifier] = (CLIENT, SERVER),
        odd: str = "",
    ) -> Pair:
        """A certificate with subject alternative names: DNS names, IP addresses and URIs.

        It is valid as long as the CA, or from and until `days` from now. Without `uses` it has no
        extended key usage. `odd` is one of `ODD`, in the place of names.
        """
        key: Key = ec.generate_private_key(ec.SECP256R1())
        if of_rsa:
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                kind = x509.UniformResourceIdentifier if ":" in name else x509.DNSName
                alternatives.append(kind(name))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = self._builder(subject, key, days or self._days)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), False)
        builder._extensions.extend(ODD.get(odd, ()))  # no builder makes these
        cert = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self._folder / f"{common_name}.pem", self._folder / f"{common_name}.key")
        pair.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair
