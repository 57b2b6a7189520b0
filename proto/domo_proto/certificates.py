"""PEM files of TLS, looked at before anybody dials: do they fit, whose are they, until when.

`now` is seconds since 1970 by this machine's clock, everywhere.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from domo.errors import AccessError, ConfigError
from domo.ops.findings import (
    Finding,
    ok,
    problem,
    warning,
)
from domo_proto.channel import read_pem

SOON_S = 14 * 86_400
"""A certificate that ends so soon is worth a word."""


class CertificateError(AccessError):
    """A certificate, a key or a CA keeps two ends apart; the text says whose, and why."""

    code = "certificate"


def read_certificates(path: Path, what: str) -> Sequence[x509.Certificate]:
    """The certificates of a PEM file, in order.

    Raises:
        ConfigError: It cannot be read, or holds none.
    """
    try:
        return x509.load_pem_x509_certificates(read_pem(path, what))
    except ValueError:
        raise ConfigError(f"{what}: {path} holds no certificate that can be read") from None


def check_pair(cert: Path, key: Path) -> Iterator[Finding]:
    """Whether a certificate and a private key are readable and belong together."""
    try:
        first = read_certificates(cert, "certificate")[0]
        pem = read_pem(key, "key")
    except ConfigError as error:
        yield problem(str(error), "check the path, its owner and its permissions")
        return
    try:
        private = load_pem_private_key(pem, None)
    except TypeError:
        mend = f"write it without a password: openssl pkey -in {key} -out NEW.key"
        yield problem(f"the key {key} is locked with a password, which domo cannot ask for", mend)
        return
    except (ValueError, UnsupportedAlgorithm):
        yield problem(f"{key} holds no private key that can be read", "have it made again")
        return
    if _public(first) == private.public_key().public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    ):
        yield ok(f"the key {key} fits the certificate {cert}")
        return
    mend = "give the certificate and the key that were made together"
    yield problem(f"the key {key} does not belong to the certificate {cert}", mend)


def _public(cert: x509.Certificate) -> bytes:
    return cert.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def check_dates(cert: x509.Certificate, what: str, renew: str, now: float) -> Finding:
    """Whether a certificate is valid now, and for how long.

    Args:
        cert: The certificate.
        what: What to call it.
        renew: Who renews it, and where it goes.
        now: The clock.
    """
    begin, end = cert.not_valid_before_utc, cert.not_valid_after_utc
    if now < begin.timestamp():
        mend = f"see whether this machine's clock is right (it says {_day(now)}); else {renew}"
        return problem(f"{what} is not valid before {_text(begin)}", mend)
    if now > end.timestamp():
        return problem(f"{what} expired on {_text(end)}", renew)
    if now > end.timestamp() - SOON_S:
        days = int((end.timestamp() - now) / 86_400)
        return warning(f"{what} expires in {days} days, on {_text(end)}", f"in time, {renew}")
    return ok(f"{what} is valid until {_text(end)}")


def end_of_file(path: Path, what: str) -> float:
    """When the first certificate of a PEM file ends, seconds since 1970.

    Raises:
        ConfigError: It cannot be read, or holds none.
    """
    return read_certificates(path, what)[0].not_valid_after_utc.timestamp()


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _day(now: float) -> str:
    return _text(datetime.fromtimestamp(now, UTC))


def alternative_names(cert: x509.Certificate) -> list[str]:
    """DNS names and addresses that a certificate is for."""
    try:
        extension = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    names = extension.value.get_values_for_type(x509.DNSName)
    return [*names, *map(str, extension.value.get_values_for_type(x509.IPAddress))]


def common_names(cert: x509.Certificate) -> list[str]:
    """The subject's common names."""
    return [str(a.value) for a in cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def is_for(cert: x509.Certificate, host: str) -> bool:
    """Whether a certificate is for a host: an address as it is, a name with `*` for one label."""
    names = alternative_names(cert)
    try:
        return str(ip_address(host)) in names
    except ValueError:
        pass
    wanted = host.lower().rstrip(".")
    for name in map(str.lower, names or common_names(cert)):
        same_depth = name.count(".") == wanted.count(".")
        if name == wanted or (
            name.startswith("*.") and same_depth and fnmatch.fnmatchcase(wanted, name)
        ):
            return True
    return False
