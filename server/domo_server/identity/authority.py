"""The coordinator's own CA: made once, kept in its state folder, signs what silos and it need."""

import datetime
import ipaddress
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from domo.errors import ConfigError, StateError
from domo.storage.files import sync, sync_path
from domo_proto.identities import ENROL_URI, key_to_pem, new_key
from domo_server.pki_files import Pki

CA_DAYS = 3653.0
SERVER_DAYS = 90.0
"""Of the coordinator's own certificate; it is renewed by itself when half of it is over."""
CODE_DAYS = 7.0
"""Of a code's certificate, which is longer than any code is valid: so a code that comes too late
still reaches the coordinator, and is told why and counted, where TLS would only hang up."""
MOST_SILO_DAYS = 825.0
"""Longest certificate of a silo; it is renewed by itself, so none needs more."""
EARLIER_S = 3600.0
"""A certificate begins so much earlier, as clocks differ; a short one by a tenth of its time."""
ALWAYS = ("localhost", "127.0.0.1", "::1")
"""Names of every coordinator, for the health check and silos on its own machine."""
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def make_pki(pki: Pki, hosts: Sequence[str], address: str) -> None:
    """Make a CA and the coordinator's certificate.

    Args:
        pki: Where.
        hosts: Names and addresses that silos dial.
        address: host:port that goes into codes.

    Raises:
        ConfigError: There is one already, or a host is none.
        StateError: The folder cannot be written.
    """
    if pki.folder.exists() and any(pki.folder.iterdir()):
        anew = "to begin anew, stop the coordinator and move that folder away"
        if pki.exists():
            text = "has a CA already, and every silo's certificate hangs on it. It stays as it is"
        else:
            text = (
                f"has files of a CA, and no {pki.ca.name}: put it back from where you keep a copy"
            )
        raise ConfigError(f"{pki.folder} {text}; {anew}")
    alternatives = _alternatives(hosts)
    ca_key, server_key = new_key(), new_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"domo CA of {hosts[0]}"[:64])])
    usage = x509.KeyUsage(*(n in (5, 6) for n in range(9)))  # certificates and lists of revoked
    ca = (
        _builder(name, name, ca_key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    own = _leaf(ca, ca_key, server_key.public_key(), "domo coordinator", alternatives, SERVER_DAYS)
    new = Pki(pki.folder.with_name(f"{pki.folder.name}.new"))
    try:
        pki.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(new.folder, ignore_errors=True)  # of a try that was cut off
        new.folder.mkdir(mode=0o700)
        for path, data in (
            (new.ca_key, key_to_pem(ca_key)),
            (new.key, key_to_pem(server_key)),
            (new.cert, own.public_bytes(Encoding.PEM)),
            (new.address, f"{address}\n".encode()),
            (new.ca, ca.public_bytes(Encoding.PEM)),
        ):
            write_secret(path, data)
        new.folder.rename(pki.folder)  # all of it is there, or nothing
        sync_path(pki.folder.parent)
    except OSError as error:
        raise StateError(f"{pki.folder} cannot be written: {error.strerror}") from None


def write_secret(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, durably, for its owner only."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as f:
        f.write(data)
        f.flush()
        sync(f.fileno())
    temporary.replace(path)
    sync_path(path.parent)


def _alternatives(hosts: Sequence[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for host in dict.fromkeys((*hosts, *ALWAYS)):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host.strip("[]"))))
        except ValueError:
            if not host or not host.isascii() or any(c in host for c in " /:*@"):
                text = f"--host {host!r}: a name or an IP address that silos dial, without a port"
                raise ConfigError(text) from None
            found.append(x509.DNSName(host))
    return found


def _builder(
    issuer: x509.Name, subject: x509.Name, key: CertificatePublicKeyTypes, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    life = datetime.timedelta(days=days)
    earlier = min(datetime.timedelta(seconds=EARLIER_S), life / 10)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - earlier)
        .not_valid_after(now + life)
    )


def _leaf(
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    key: CertificatePublicKeyTypes,
    common_name: str,
    names: Sequence[x509.GeneralName],
    days: float,
    server: bool = True,
) -> x509.Certificate:
    # the coordinator's is good as a client too: its health check shows it. It names no silo
    uses = [SERVER, CLIENT] if server else [CLIENT]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])
    usage = x509.KeyUsage(*(n == 0 for n in range(9)))  # signatures
    return (
        _builder(ca.subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


class Authority:
    """A CA with its key in memory.

    Args:
        pki: Its files.

    Raises:
        ConfigError: A file of it cannot be read.
    """

    def __init__(self, pki: Pki):
        self._pki = pki
        try:
            self.ca_pem = pki.ca.read_bytes()
            self._ca = x509.load_pem_x509_certificate(self.ca_pem)
            key = serialization.load_pem_private_key(pki.ca_key.read_bytes(), None)
        except OSError as error:
            raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None
        except (ValueError, TypeError):
            raise ConfigError(f"{pki.folder}: ca.pem or ca.key is damaged") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{pki.ca_key} is no key of `domo-server pki init`")
        self._key = key

    def certify(self, key: CertificatePublicKeyTypes, name: str, days: float) -> x509.Certificate:
        """A certificate for a silo's key: it names this silo and nothing else."""
        names = [x509.DNSName(name)]
        return _leaf(self._ca, self._key, key, name, names, days, server=False)

    def certify_code(self, name: str, nonce: str) -> tuple[bytes, bytes]:
        """A certificate that may only enrol, and its key (PEM)."""
        key = new_key()
        names = [x509.UniformResourceIdentifier(f"{ENROL_URI}{name}:{nonce}")]
        cert = _leaf(self._ca, self._key, key.public_key(), "enrol", names, CODE_DAYS, server=False)
        return cert.public_bytes(Encoding.PEM), key_to_pem(key)

    def renew_own(self, now: float) -> bool:
        """Renew the coordinator's certificate if half of its time is over; whether it was.

        Its key and its names stay, so that there is no moment at which the two do not fit.

        Raises:
            OSError, ValueError: A file cannot be read or written.
        """
        own = x509.load_pem_x509_certificate(self._pki.cert.read_bytes())
        begin, end = own.not_valid_before_utc.timestamp(), own.not_valid_after_utc.timestamp()
        if now < (begin + end) / 2:
            return False
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        new = _leaf(
            self._ca, self._key, own.public_key(), "domo coordinator", list(names), SERVER_DAYS
        )
        write_secret(self._pki.cert, new.public_bytes(Encoding.PEM))
        return True
