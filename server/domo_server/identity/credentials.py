"""Server credentials that follow their files: a renewed certificate needs no restart."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from domo.errors import ConfigError
from domo_proto.certificates import check_pair, read_certificates
from domo_proto.channel import TlsFiles

log = logging.getLogger(__name__)

Stamp = tuple[tuple[int, int, int] | None, ...]


class Credentials:
    """The files of a coordinator's TLS, read again when they change.

    grpc asks at every handshake, on a thread of its own. A pair of which only one half is written
    yet does not fit, and a CA file that is cut off is not whole: neither is taken, and what was
    good before goes on until it is.

    Args:
        files: Certificate, key, and the CA of silos if they must show a certificate.
        on_change: Told once new files are served, on grpc's thread.
        on_handshake: Told at each handshake, on grpc's thread.

    Raises:
        ConfigError: A file cannot be read, or the key is another certificate's.
    """

    def __init__(
        self,
        files: TlsFiles,
        on_change: Callable[[], None] = lambda: None,
        on_handshake: Callable[[], None] = lambda: None,
    ):
        self._files = files
        self.on_change, self.on_handshake = on_change, on_handshake
        self._lock = threading.Lock()
        self._stamp = self._look()
        self._said = self._stamp
        self._first = self._read()

    def for_server(self) -> grpc.ServerCredentials:
        """As grpc takes them."""
        mutual = self._files.ca is not None
        fetch: Callable[[], Any] = self._fetch  # its type does not know that None means no change
        return grpc.dynamic_ssl_server_credentials(self._first, fetch, mutual)

    def _look(self) -> Stamp:
        return tuple(map(_stamp, (self._files.cert, self._files.key, self._files.ca)))

    def _read(self) -> grpc.ServerCertificateConfiguration:
        key, cert = self._files.read("key"), self._files.read("cert")
        if key is None or cert is None:
            raise ConfigError("tls: the coordinator needs both a certificate (cert) and a key")
        assert self._files.cert is not None
        assert self._files.key is not None
        for found in check_pair(self._files.cert, self._files.key):  # grpc does not say what is
            if found.state == "problem":  # wrong with them
                raise ConfigError(f"tls: {found.text}; {found.mend}")
        if self._files.ca is not None:
            read_certificates(self._files.ca, "tls client_ca")
        ca = self._files.read("ca")
        return grpc.ssl_server_certificate_configuration([(key, cert)], ca)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """What is to be served from now on; None: what was before."""
        self.on_handshake()
        with self._lock:
            stamp = self._look()
            if stamp == self._stamp:
                return None
            try:
                read = self._read()
            except ConfigError as error:
                if stamp != self._said:
                    log.warning("%s. What was served before is served on", error)
                    self._said = stamp
                return None
            if self._look() != stamp:  # written to meanwhile: the next handshake takes them
                return None
            self._stamp = stamp
        self.on_change()
        return read


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    """What changes with a file; None: it is not there."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        found = None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)
