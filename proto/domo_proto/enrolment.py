"""What a silo is let in with: the code that is one line, the bundle that is a file.

A code holds all that a silo needs for its one call of `Certify`: where to, whom to trust there, and
a certificate of its own that is good for nothing else. It is a secret until it is used. A bundle
is the answer to a request that went another way, and no secret.
"""

import base64
import hashlib
import re
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from domo.errors import ConfigError
from domo.names import is_name, shown
from domo_proto.certificates import UNREADABLE
from domo_proto.identities import invited, key_to_pem

IDENTITY = "identity"
"""The folder of a silo's key and certificate, in its state folder; only its owner may enter."""
CA_FILE, CERT_FILE, KEY_FILE = "ca.pem", "silo.pem", "silo.key"
"""The files in it."""
PREFIX = "domo1."
"""What a code begins with; the number is that of its form."""
MOST_CODE = 8192
"""Bytes that a code may hold, unpacked; no honest one has a fifth of that."""
HEAD = struct.Struct(">H8s")
"""How many bytes follow, and the beginning of their SHA-256."""
BUNDLE_LINE = "domo coordinator: "
CUT = "copy the whole line, from domo1. to its end"


class Code(NamedTuple):
    """What a code holds.

    Attributes:
        address: host:port of the coordinator.
        key_pem: Private key, of the code and not of the silo.
        cert_pem: The certificate that may only enrol.
        ca_pem: The CA of the coordinator's certificate, and of the silo's.
    """

    address: str
    key_pem: bytes
    cert_pem: bytes
    ca_pem: bytes

    @property
    def name(self) -> str:
        """The silo that it is for."""
        return invited(x509.load_pem_x509_certificate(self.cert_pem))[0]


class Bundle(NamedTuple):
    """The answer to a request, as a file.

    Attributes:
        address: host:port of the coordinator.
        cert_pem: The silo's certificate.
        ca_pem: The CA that has signed it, and the coordinator's.
    """

    address: str
    cert_pem: bytes
    ca_pem: bytes


def make_code(code: Code) -> str:
    """A code as one line of printable characters, without a space."""
    key = serialization.load_pem_private_key(code.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    parts = (
        code.address.encode(),
        key.private_numbers().private_value.to_bytes(32, "big"),
        *(_der(pem) for pem in (code.cert_pem, code.ca_pem)),
    )
    body = zlib.compress(b"".join(struct.pack(">H", len(part)) + part for part in parts), 9)
    head = HEAD.pack(len(body), hashlib.sha256(body).digest()[:8])
    return PREFIX + base64.urlsafe_b64encode(head + body).decode().rstrip("=")


def _der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def read_code(text: str) -> Code:
    """Read a code; what a terminal or a letter has put between (spaces, new lines) is left out.

    Raises:
        ConfigError: It is no code, was cut when it was pasted, or has a letter that is wrong.
    """
    line = "".join(text.split())
    if not line.startswith(PREFIX):
        other = line[:4] == "domo" and line[4:5].isdigit()
        hint = "it is of another version of domo" if other else f"a code begins with {PREFIX}"
        raise ConfigError(f"this is no code of `domo-server enroll`: {hint}")
    packed = line.removeprefix(PREFIX).rstrip("=")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", packed):
        raise ConfigError(f"this code has a letter that no code has: {CUT}")
    packed = packed[:-1] if len(packed) % 4 == 1 else packed  # cut: no byte ends there
    raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    if len(raw) < HEAD.size:
        raise ConfigError(f"this code was cut: it has {len(line)} characters; {CUT}")
    size, check = HEAD.unpack_from(raw)
    body = raw[HEAD.size :]
    if len(body) < size:
        wanted = len(PREFIX) + -(-(HEAD.size + size) * 4 // 3)
        raise ConfigError(f"this code was cut: {len(line)} of {wanted} characters are here; {CUT}")
    if len(body) > size:
        raise ConfigError(f"this code has more characters than it should: {CUT}, and no more")
    if hashlib.sha256(body).digest()[:8] != check:
        raise ConfigError(f"a letter of this code is wrong: {CUT}, and do not type it by hand")
    return _unpacked(body)


def _unpacked(body: bytes) -> Code:
    unpack = zlib.decompressobj()
    try:
        fields = unpack.decompress(body, MOST_CODE)
        parts, at = [], 0
        while at < len(fields):
            (size,) = struct.unpack_from(">H", fields, at)
            parts.append(fields[at + 2 : at + 2 + size])
            at += 2 + size
        address, scalar, cert, ca = parts
        key = ec.derive_private_key(int.from_bytes(scalar, "big"), ec.SECP256R1())
        certs = [x509.load_der_x509_certificate(der) for der in (cert, ca)]
        code = Code(
            address.decode(), key_to_pem(key), *(c.public_bytes(Encoding.PEM) for c in certs)
        )
        whole = unpack.eof and at == len(fields) and is_name(code.name)
    except (*UNREADABLE, zlib.error, struct.error):
        whole = False
    if not whole:
        raise ConfigError("this code is of another version of domo, or was made by something else")
    return code


def make_bundle(bundle: Bundle) -> bytes:
    """The answer to a request as a file: PEM, with the address in a line before."""
    head = f"{BUNDLE_LINE}{bundle.address}\n".encode()
    return head + bundle.cert_pem.rstrip() + b"\n" + bundle.ca_pem.rstrip() + b"\n"


def read_bundle(path: Path) -> Bundle:
    """Read the answer to a request.

    Raises:
        ConfigError: The file cannot be read, or is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    first, _, pems = data.partition(b"\n")
    try:
        cert, ca = x509.load_pem_x509_certificates(pems)
        address = first.decode("ascii").strip()
    except UNREADABLE:
        address = ""
    if not address.startswith(BUNDLE_LINE):
        raise ConfigError(f"{path} is no file of `domo-server sign`")
    pem = (each.public_bytes(Encoding.PEM) for each in (cert, ca))
    return Bundle(shown(address.removeprefix(BUNDLE_LINE)), *pem)
