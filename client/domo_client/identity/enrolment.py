"""How a silo gets its certificate: by a code, or by a request that goes another way.

The key is made here and stays here. A try that was cut off leaves its key, and the next one asks
for that key again: the coordinator's answer is the same, and the code counts as used once.
"""

import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from domo.errors import ConfigError, CoordinatorUnavailableError, DomoError
from domo.ops.addresses import grpc_address
from domo_client.identity import kept
from domo_client.identity.kept import Kept
from domo_client.identity.place import Place, write_private
from domo_client.identity.tls import fault as tls_fault
from domo_proto.certificates import UNREADABLE, CertificateError, read_certificates
from domo_proto.channel import CLIENT_OPTIONS, TlsFiles, federation_stub
from domo_proto.enrolment import (
    CA_FILE,
    CERT_FILE,
    IDENTITY,
    KEY_FILE,
    Bundle,
    Code,
    read_code,
)
from domo_proto.errors import from_rpc
from domo_proto.identities import dns_names, fingerprint, key_to_pem, make_request, new_key
from domo_proto.v1 import federation_pb2 as pb

ANSWER_S = 20.0
"""How long the coordinator may take to answer."""
MOST_CODE_FILE = 65_536
"""Bytes that are read where a code is expected."""
Key = ec.EllipticCurvePrivateKey


def given_code(text: str) -> Code:
    """The code that an operator gives: itself, `-` for standard input, or a file that holds it.

    Raises:
        ConfigError: It is none.
    """
    if text == "-":
        text = sys.stdin.read(MOST_CODE_FILE)
    elif not text.startswith("domo"):
        try:
            with Path(text).open(encoding="utf-8", errors="replace") as f:
                text = f.read(MOST_CODE_FILE)
        except OSError as error:
            why = f"and no file of that name can be read ({error.strerror})"
            raise ConfigError(f"this is no code, which begins with domo1., {why}") from None
    return read_code(text)


def see_free(folder: Path, what: str) -> None:
    """See that no identity is replaced unasked.

    Raises:
        ConfigError: One is there, and holds still.
    """
    with suppress(ConfigError):  # a damaged one is replaced
        before = kept.read(folder)
        if before is None or before.tls.cert is None:
            return
        cert = read_certificates(before.tls.cert, "certificate")[0]
        end = cert.not_valid_after_utc
        if end.timestamp() < time.time():
            return
        text = f"{before.name} is enrolled with {before.server} already, until {end:%Y-%m-%d %H:%M}"
        raise EnrolledError(f"{text} UTC ({before.folder}); --force takes another {what} instead")


class EnrolledError(DomoError):
    """This silo has an identity, which would be lost."""

    code = "enrolled"


def make_key(place: Place) -> Key:
    """The key that is asked for: of a try before, or a new one (0600).

    Raises:
        OSError: It cannot be written.
    """
    with suppress(ConfigError):
        return read_key(place.key)
    key = new_key()
    with suppress(ConfigError):  # cut off before the last file
        if place.is_cut_off:
            key = read_key(place.folder / IDENTITY / KEY_FILE)
    write_private(place.key, key_to_pem(key))
    return key


def read_key(path: Path) -> Key:
    """A key that enrolment has made.

    Raises:
        ConfigError: It cannot be read, or is none of those.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, *UNREADABLE) as error:
        raise ConfigError(f"the key {path} cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"the key {path} is of another kind than domo-client enroll makes")
    return key


def enroll(code: Code, folder: Path) -> Kept:
    """Redeem a code.

    Args:
        code: It.
        folder: The silo's state folder.

    Raises:
        AccessError: The coordinator says no; the text says why.
        CertificateError: TLS keeps the two ends apart, or the answer will not do.
        CoordinatorUnavailableError: Nobody answers. The same again goes on.
    """
    place = Place(folder)
    key = make_key(place)
    server = grpc_address(code.address)
    answer = _ask(code, server, make_request(key, code.name))
    check_answer(answer.certificate_pem, answer.ca_pem, key, code.name)
    files = {CA_FILE: answer.ca_pem, CERT_FILE: answer.certificate_pem}
    return place.fill(files, server, code.name)


def _ask(code: Code, server: str, request: bytes) -> Any:
    credentials = grpc.ssl_channel_credentials(code.ca_pem, code.key_pem, code.cert_pem)
    with closing(grpc.secure_channel(server, credentials, CLIENT_OPTIONS)) as channel:
        stub = federation_stub(channel)
        try:
            return stub.Certify(pb.CertifyRequest(request_pem=request), timeout=ANSWER_S)
        except grpc.RpcError as error:
            said = from_rpc(error, server)
            if isinstance(said, CoordinatorUnavailableError) and said.elsewhere:
                said = _why(code, server) or said
            raise said from None


def _why(code: Code, server: str) -> CertificateError | None:
    """What keeps the two ends apart, where that is TLS."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("ca", "cert", "key")]
        for path, pem in zip(paths, (code.ca_pem, code.cert_pem, code.key_pem), strict=True):
            write_private(path, pem)
        found = None
        with suppress(OSError, ConfigError, ValueError):
            found = tls_fault(server, TlsFiles(*paths), code.name, by_code=True)
    return None if found is None else CertificateError(f"{found.text}; {found.mend}")


def check_answer(cert_pem: bytes, ca_pem: bytes, key: Key, name: str) -> x509.Certificate:
    """See that a certificate is this silo's, for its key, and by the CA that comes with it.

    Raises:
        CertificateError: It is not.
    """
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        cert, *_ = x509.load_pem_x509_certificates(cert_pem)
        cas = x509.load_pem_x509_certificates(ca_pem)
        theirs = cert.public_key().public_bytes(*form)
    except UNREADABLE:
        raise CertificateError("the coordinator's answer is no certificate") from None
    if theirs != key.public_key().public_bytes(*form):
        raise CertificateError(
            "the certificate is for another key than the one that was made here. Was the request "
            "made in another folder (--state-dir), or another silo's?"
        )
    if name not in dns_names(cert):
        names = ", ".join(dns_names(cert)) or "nobody"
        raise CertificateError(f"the certificate is for {names}, not for {name}")
    if not any(_signed_by(cert, ca) for ca in cas):
        raise CertificateError("the certificate is not signed by the CA that comes with it")
    return cert


def _signed_by(cert: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        cert.verify_directly_issued_by(ca)
    except UNREADABLE:
        return False
    return True


def request(name: str, folder: Path, file: Path) -> str:
    """Make a key here and write the request for its certificate; returns the key's fingerprint.

    Raises:
        ConfigError: The file cannot be written.
    """
    key = make_key(Place(folder))
    pem = make_request(key, name)
    try:
        file.write_bytes(pem)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from None
    return fingerprint(x509.load_pem_x509_csr(pem))


def bundle_name(bundle: Bundle) -> str:
    """The silo that a signed answer is for.

    Raises:
        ConfigError: It is for none.
    """
    names = dns_names(x509.load_pem_x509_certificate(bundle.cert_pem))
    if len(names) != 1:
        raise ConfigError("the signed answer is not for one silo")
    return names[0]


def install(bundle: Bundle, folder: Path) -> Kept:
    """Take the signed answer to a request in.

    Raises:
        ConfigError: No request was made here.
        CertificateError: It is not the answer to that.
    """
    place, name = Place(folder), bundle_name(bundle)
    if not place.key.exists():
        raise ConfigError(
            f"no request of {name} was made in {folder}: domo-client enroll --request FILE makes "
            "one, and its key, at the silo"
        )
    check_answer(bundle.cert_pem, bundle.ca_pem, make_key(place), name)
    files = {CA_FILE: bundle.ca_pem, CERT_FILE: bundle.cert_pem}
    return place.fill(files, grpc_address(bundle.address), name)
