"""A coordinator's own CA, and silos that have enrolled there, for benchmarks over mTLS."""

import contextlib
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from domo_proto.channel import TlsFiles
from domo_proto.identities import fingerprint, key_to_pem, make_request, new_key, read_request
from domo_server.identity.authority import Authority, make_pki
from domo_server.pki_files import pki_of
from domo_server.store.admissions import Admissions
from domo_server.store.database import open_beside
from domo_server.store.store import Store

HOST = "localhost"


def begin(state_dir: Path) -> None:
    """Before the coordinator is started."""
    make_pki(pki_of(state_dir), [HOST], f"{HOST}:1")


def enrol(state_dir: Path, folder: Path, name: str) -> TlsFiles:
    """The files of a silo that is let in, once the coordinator runs."""
    authority, key = Authority(pki_of(state_dir)), new_key()
    request = read_request(make_request(key, name))
    cert = authority.certify(request.csr.public_key(), name, 30)
    url = f"sqlite:///{state_dir / 'coordinator.db'}"
    with contextlib.closing(Store(open_beside(url))) as store:
        Admissions(store).admit(name, "a benchmark", fingerprint(cert))
    files = [folder / f"{name}.{end}" for end in ("ca", "pem", "key")]
    pems = (authority.ca_pem, cert.public_bytes(Encoding.PEM), key_to_pem(key))
    for path, pem in zip(files, pems, strict=True):
        path.write_bytes(pem)
    return TlsFiles(*files)
