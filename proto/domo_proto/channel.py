"""Channels and server options: sizes, keepalive, TLS."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from domo.errors import ConfigError
from domo.ops.addresses import grpc_address
from domo_proto.codec import MAX_MESSAGE_BYTES
from domo_proto.texts import with_lines
from domo_proto.v1.federation_pb2_grpc import FederationStub

KEEPALIVE_S = 30
"""A client's ping interval on an idle connection: below the idle limit of common NATs."""
SERVER_KEEPALIVE_S = 60
"""The coordinator's: how it finds out that a silo is gone without a word."""
PING_TIMEOUT_S = 20
"""How long a ping may stay without an answer, and bytes sent without the other end's receipt. grpc
has an option for each."""
WINDOW_BYTES = 1 << 20
"""What may be on its way in one stream: more would be faster over long distances, but all of it is
sent again when the connection is lost."""

HTTP2_FRAME_BYTES = (1 << 24) - 1
"""The largest that HTTP/2 allows: a message is in one."""
RECONNECT_S = 10
"""Longest pause before a lost connection is dialled again; calls pause longer, and find it."""

_SIZES = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.max_frame_size", HTTP2_FRAME_BYTES),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
]
CLIENT_OPTIONS = [
    *_SIZES,
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_S * 1000),
    ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_S * 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 5_000),  # a coordinator may move
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config_disable_resolution", 1),
]
MOST_STREAMS = 100
"""Calls at a time on one connection; a silo has about five. HTTP/2 advises not to allow fewer."""
HANDSHAKE_S = 10
"""How long a new connection may take until it speaks: TLS, and the first frames of HTTP/2."""
MIN_PING_S, MOST_PING_STRIKES = 1, 20
"""Pings of a peer that come sooner after one another, while nothing is sent to it; after so many
its connection is ended."""
IDLE_S = 120
"""How long a connection may be without any call: silos that are there always hold one."""
SERVER_OPTIONS = [
    *_SIZES,
    ("grpc.keepalive_time_ms", SERVER_KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", PING_TIMEOUT_S * 1000),
    ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", MIN_PING_S * 1000),
    ("grpc.http2.max_ping_strikes", MOST_PING_STRIKES),
    ("grpc.so_reuseport", 0),
    ("grpc.max_concurrent_streams", MOST_STREAMS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_S * 1000),
    ("grpc.http2.settings_timeout", HANDSHAKE_S * 1000),
    ("grpc.max_connection_idle_ms", IDLE_S * 1000),
]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of one end.

    Attributes:
        ca: Certificates that the other end's must be signed by.
        cert: Own certificate chain.
        key: Own private key.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def read(self, which: str) -> bytes | None:
        """The bytes of one file, or None if it is not given.

        Raises:
            ConfigError: The file cannot be read, or is not PEM.
        """
        path: Path | None = getattr(self, which)
        return None if path is None else read_pem(path, f"tls {which}")


def read_pem(path: Path, what: str) -> bytes:
    """The bytes of a PEM file.

    Raises:
        ConfigError: It cannot be read, or is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what}: cannot read {path}: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{what}: {path} is not a PEM file")
    return data


def make_channel(address: str, tls: TlsFiles | None = None) -> grpc.Channel:
    """A client channel to host:port.

    Raises:
        ConfigError: The address is no host:port, or TLS files cannot be read.
    """
    address = grpc_address(address)
    if tls is None:
        return grpc.insecure_channel(address, CLIENT_OPTIONS)
    if (tls.cert is None) != (tls.key is None):
        raise ConfigError("tls: a client certificate and its key go together")
    credentials = grpc.ssl_channel_credentials(tls.read("ca"), tls.read("key"), tls.read("cert"))
    return grpc.secure_channel(address, credentials, CLIENT_OPTIONS)


def federation_stub(channel: grpc.Channel) -> Any:
    """The calls of domo_proto.v1.Federation, with one printable line for each text."""
    return FederationStub(_WithLines(channel))  # type: ignore[no-untyped-call]


class _WithLines:
    """A channel as a stub uses it: messages pass `domo_proto.texts` on their way in and out."""

    def __init__(self, channel: grpc.Channel):
        self._channel = channel

    def __getattr__(self, kind: str) -> Any:
        made = getattr(self._channel, kind)

        def call(
            name: str, *, request_serializer: Any, response_deserializer: Any, **others: Any
        ) -> Any:
            return made(
                name,
                request_serializer=lambda message: request_serializer(with_lines(message)),
                response_deserializer=lambda data: with_lines(response_deserializer(data)),
                **others,
            )

        return call


def server_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Server credentials; clients must show a certificate where a CA is given (mTLS).

    Raises:
        ConfigError: A file is missing or unreadable.
    """
    key, cert = tls.read("key"), tls.read("cert")
    if key is None or cert is None:
        raise ConfigError("tls: the coordinator needs both a certificate (cert) and a key")
    ca = tls.read("ca")
    return grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=ca is not None)
