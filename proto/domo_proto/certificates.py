"""PEM files of TLS, looked at before anybody dials: do they fit, whose are they, until when.

`now` is seconds since 1970 by this machine's clock, everywhere.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
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
from domo.ops.words import duration
from domo_proto.channel import read_pem

UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    InvalidSignature,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    x509.ExtensionNotFound,
)
"""What `cryptography` raises where a certificate, a request or a key is not what it should be; it
reads some parts of one only when they are asked for."""
BEGINS = re.compile(rb"-----BEGIN (?:X509 )?CERTIFICATE-----")
SOON_S, SOON_SHARE = 14 * 86_400, 3
"""A certificate that ends so soon is worth a word, and is in the last third of its time: a short
one is renewed at half of it."""


class CertificateError(AccessError):
    """A certificate, a key or a CA keeps two ends apart; the text says whose, and why."""

    code = "certificate"


def read_certificates(path: Path, what: str) -> Sequence[x509.Certificate]:
    """The certificates of a PEM file, in order.

    Raises:
        ConfigError: It cannot be read, holds none, or is cut off.
    """
    pem = read_pem(path, what)
    try:
        found = x509.load_pem_x509_certificates(pem)
    except UNREADABLE:
        raise ConfigError(f"{what}: {path} holds no certificate that can be read") from None
    begun = len(BEGINS.findall(pem))
    if begun > len(found):  # what reads it would go on with the others
        text = f"{what}: {path} is cut off: it holds {begun} certificates, {len(found)} are whole"
        raise ConfigError(text)
    return found


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
    except UNREADABLE:
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
    if now > soon_at(begin.timestamp(), end.timestamp()):
        when = f"{time_left(end.timestamp() - now)}, on {_text(end)}"
        return warning(f"{what} expires in {when}", f"in time, {renew}")
    return ok(f"{what} is valid until {_text(end)}")


def soon_at(begin: float, end: float) -> float:
    """From when on a certificate is said to end soon; all in seconds since 1970."""
    return end - min(SOON_S, (end - begin) / SOON_SHARE)


def time_left(seconds: float) -> str:
    """How long a certificate is valid still, in words."""
    days = int(seconds / 86_400)
    return duration(seconds) if days < 1 else f"{days} day{'' if days == 1 else 's'}"


def term_of_file(path: Path, what: str) -> tuple[float, float]:
    """From when until when the first certificate of a PEM file is valid, seconds since 1970.

    Raises:
        ConfigError: It cannot be read, or holds none.
    """
    first = read_certificates(path, what)[0]
    return first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _day(now: float) -> str:
    return _text(datetime.fromtimestamp(now, UTC))


def alternative_names(cert: x509.Certificate) -> list[str]:
    """DNS names and addresses that a certificate is for."""
    try:
        extension = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except UNREADABLE:
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
