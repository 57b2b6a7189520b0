"""A coordinator with its own CA, and silos that enrol there, in this process."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from domo_proto.channel import TlsFiles
from domo_proto.enrolment import Code, read_code
from domo_proto.identities import key_to_pem, make_request, new_key
from domo_proto.v1 import federation_pb2 as pb
from domo_proto.v1 import federation_pb2_grpc as pb_grpc
from domo_server.identity.authority import Authority, make_pki
from domo_server.identity.certify import new_code
from domo_server.pki_files import pki_of
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_beside
from domo_server.store.store import Store
from tests.support.live.coordinator import Coordinator

CALL_S = 60.0


class Paper(NamedTuple):
    """What a silo is known by.

    Attributes:
        key, cert, ca: PEM.
    """

    key: bytes
    cert: bytes
    ca: bytes

    def request(self, name: str) -> bytes:
        """For its key."""
        key = load_pem_private_key(self.key, None)
        assert isinstance(key, EllipticCurvePrivateKey)
        return make_request(key, name)

    def files(self, folder: Path) -> TlsFiles:
        """The same in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        files = TlsFiles(folder / "ca.pem", folder / "silo.pem", folder / "silo.key")
        for path, pem in zip(
            (files.ca, files.cert, files.key), (self.ca, self.cert, self.key), strict=True
        ):
            assert path is not None
            path.write_bytes(pem)
        return files


class Enrolling:
    """A coordinator with its own CA, and its database beside it."""

    def __init__(self, folder: Path, *runs: Mapping[str, Any], **server: Any):
        self.pki = pki_of(folder / "coordinator")
        make_pki(self.pki, ["localhost"], "localhost:1")
        self.coordinator = Coordinator(folder, *runs, **server)
        self.store = Store(open_beside(self.coordinator.database_url))
        self.admissions, self.authority = Admissions(self.store), Authority(self.pki)

    def code(self, name: str, valid_s: float = 3600, days: float = 30) -> Code:
        """A new code, read as a silo reads it."""
        where = self.coordinator.address
        line = new_code(self.authority, self.admissions, name, where, valid_s, days, "a test")
        return read_code(line)

    def enrolled(self, name: str, days: float = 30) -> Paper:
        """A silo with its certificate."""
        code, key = self.code(name, days=days), new_key()
        answer = certify(code.address, code, make_request(key, name))
        return Paper(key_to_pem(key), answer.certificate_pem, answer.ca_pem)

    def events(self, kind: str) -> list[str]:
        """Texts of the events of a kind."""
        return [e["text"] for e in self.coordinator.get(f"/events?kind={kind}")]


def certify(address: str, by: Code | Paper, request: bytes) -> pb.CertifyResponse:
    """One call of Certify, with a certificate of its own."""
    with stub_of(address, by) as stub:
        answer: pb.CertifyResponse = stub.Certify(
            pb.CertifyRequest(request_pem=request), timeout=CALL_S
        )
        return answer


@contextlib.contextmanager
def stub_of(address: str, by: Code | Paper) -> Iterator[Any]:
    """The rpcs, on a connection with a certificate."""
    ca, key, cert = (
        (by.ca_pem, by.key_pem, by.cert_pem) if isinstance(by, Code) else (by.ca, by.key, by.cert)
    )
    credentials = grpc.ssl_channel_credentials(ca, key, cert)
    with grpc.secure_channel(address, credentials) as channel:
        yield pb_grpc.FederationStub(channel)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def enrolling(folder: Path, *runs: Mapping[str, Any], **server: Any) -> Iterator[Enrolling]:
    """One that stops with the block."""
    it = Enrolling(folder, *runs, **server)
    try:
        yield it
    finally:
        it.store.close()
        it.coordinator.close()
