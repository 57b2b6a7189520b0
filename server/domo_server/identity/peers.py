"""Who is at the other end of a call: its certificate, read once, and its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from domo.errors import AccessError
from domo.names import shown
from domo_proto.certificates import UNREADABLE
from domo_proto.identities import dns_names, fingerprint, invited, uris, who

MOST_KEPT = 4096
"""Certificates that are kept as they were read; more than that many silos are read again."""
MOST_ADDRESS = 64


@dataclass(frozen=True, slots=True)
class Peer:
    """What a certificate says.

    Attributes:
        names: The silos that it is for.
        key: The fingerprint of its key.
        begin, end: From when until when it is valid, seconds since 1970.
        for_clients: Whether it says that it may be shown by who dials (extended key usage).
        invited: The silo and the nonce, where it belongs to a code; else two empty ones.
        shown: Whose it is, for people.
    """

    names: frozenset[str]
    key: str
    begin: float
    end: float
    for_clients: bool
    invited: tuple[str, str]
    shown: str


def read_peer(pem: bytes, named: Mapping[str, str]) -> Peer:
    """Read a certificate.

    Args:
        pem: It.
        named: Silos by the URI that stands for them.

    Raises:
        AccessError: It cannot be read.
    """
    try:
        cert = x509.load_pem_x509_certificate(pem)
        by_uri = (named[uri] for uri in uris(cert) if uri in named)
        code = invited(cert)
        return Peer(
            frozenset((*dns_names(cert), *by_uri)),
            fingerprint(cert),
            cert.not_valid_before_utc.timestamp(),
            cert.not_valid_after_utc.timestamp(),
            _for_clients(cert),
            code,
            f"a code for {shown(code[0])[:MOST_ADDRESS]}" if code[0] else who(cert),
        )
    except UNREADABLE as error:
        why = shown(error)[:200] or type(error).__name__
        raise AccessError(f"this certificate cannot be read: {why}") from None


def _for_clients(cert: x509.Certificate) -> bool:
    try:
        uses = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return False
    return ExtendedKeyUsageOID.CLIENT_AUTH in uses


class Peers:
    """Certificates of peers, each read once.

    Args:
        named: Silos by the URI that stands for them.
    """

    def __init__(self, named: Mapping[str, str]):
        self._named = named
        self._read: dict[bytes, Peer] = {}

    def of(self, context: Any) -> Peer | None:
        """Who makes a call; None: it shows no certificate.

        Raises:
            AccessError: It cannot be read.
        """
        for pem in context.auth_context().get("x509_pem_cert", ()):
            peer = self._read.get(pem)
            if peer is None:
                if len(self._read) >= MOST_KEPT:
                    self._read.pop(next(iter(self._read)))
                peer = self._read[pem] = read_peer(pem, self._named)
            return peer
        return None


def address_of(context: Any) -> str:
    """The address that a call comes from, without its port."""
    address = unquote(context.peer()).partition(":")[2].rpartition(":")[0].strip("[]")
    return shown(address)[:MOST_ADDRESS]
