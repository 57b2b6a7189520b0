from pathlib import Path

import pytest

from domo.errors import ConfigError
from domo_proto.channel import (
    CLIENT_OPTIONS,
    KEEPALIVE_S,
    SERVER_OPTIONS,
    TlsFiles,
    make_channel,
    server_credentials,
)
from domo_proto.codec import FRAME_BYTES, HEAD_BYTES
from tests.support.certificates import Authority


@pytest.mark.parametrize("address", ["", "host", "host:0", "host:http"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ConfigError, match="must be host:port, got"):
        make_channel(address)


def test_a_key_without_its_certificate(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").sign("silo", "silo")
    for tls in (TlsFiles(cert=pair.cert), TlsFiles(key=pair.key)):
        with pytest.raises(ConfigError, match="a client certificate and its key go together"):
            make_channel("host:1", tls)
        with pytest.raises(ConfigError, match=r"needs both a certificate \(cert\) and a key"):
            server_credentials(tls)


def test_files_are_read(tmp_path: Path) -> None:
    ca = Authority(tmp_path, "ca")
    pair = ca.sign("silo", "silo")
    tls = TlsFiles(ca.cert, pair.cert, pair.key)
    assert tls.read("key") == pair.key.read_bytes()
    assert TlsFiles().read("ca") is None
    make_channel("host:1", tls).close()
    server_credentials(tls)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls ca: cannot read .*none\.pem: No such file"):
        make_channel("host:1", TlsFiles(ca=tmp_path / "none.pem"))
    (tmp_path / "der.pem").write_bytes(b"\x30\x82")
    with pytest.raises(ConfigError, match=r"tls ca: .*der\.pem is not a PEM file"):
        make_channel("host:1", TlsFiles(ca=tmp_path / "der.pem"))


def test_pings_do_not_provoke_the_server() -> None:
    """It allows pings twice as often as clients send them, with and without calls."""
    client, server = dict(CLIENT_OPTIONS), dict(SERVER_OPTIONS)
    assert client["grpc.keepalive_time_ms"] == 1000 * KEEPALIVE_S
    allowed = server["grpc.http2.min_recv_ping_interval_without_data_ms"]
    assert 2 * allowed <= client["grpc.keepalive_time_ms"]
    assert server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.keepalive_permit_without_calls"] == 1


def test_both_ends_notice_soon_that_the_other_is_gone() -> None:
    """Without the option for pings grpc waits for a minute, whatever the one for keepalive says."""
    for options in (dict(CLIENT_OPTIONS), dict(SERVER_OPTIONS)):
        assert options["grpc.keepalive_time_ms"] <= 60_000
        assert options["grpc.http2.ping_timeout_ms"] <= 20_000


def test_a_frame_passes_both_ends() -> None:
    for options in (dict(CLIENT_OPTIONS), dict(SERVER_OPTIONS)):
        assert options["grpc.max_receive_message_length"] > FRAME_BYTES + HEAD_BYTES
