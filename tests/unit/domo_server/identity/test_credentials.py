"""The coordinator's TLS files as they are read again."""

import shutil
from pathlib import Path

import pytest

from domo.errors import ConfigError
from domo_proto.channel import TlsFiles
from domo_server.identity.credentials import Credentials
from tests.support.certificates import Authority


def test_a_file_of_cas_that_is_half_written_is_not_taken(tmp_path: Path) -> None:
    """What is whole of it would be taken for all of it, and the others' silos refused."""
    ca, second = Authority(tmp_path / "1", "ca"), Authority(tmp_path / "2", "ca")
    pair = ca.sign("coordinator", "localhost")
    cas, changes = tmp_path / "cas.pem", list[int]()
    shutil.copy(ca.cert, cas)
    files = TlsFiles(cas, pair.cert, pair.key)
    it = Credentials(files, lambda: changes.append(1))
    both = ca.cert.read_bytes() + second.cert.read_bytes()
    cas.write_bytes(both[:-40])
    assert it._fetch() is None
    assert changes == []
    with pytest.raises(ConfigError, match="is cut off: it holds 2 certificates, 1 are whole"):
        Credentials(files)
    cas.write_bytes(both)
    assert it._fetch() is not None
    assert changes == [1]
