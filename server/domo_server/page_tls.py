"""TLS of the page itself, with files that are read again when they change."""

import logging
import ssl
import time
from collections.abc import Callable
from typing import Any

from domo.errors import ConfigError
from domo_proto.certificates import check_pair, term_of_file
from domo_server.dashboard_config import DashboardTls

logger = logging.getLogger(__name__)

LOOK_S = 5.0
"""A handshake looks whether the files have changed, if nobody has for so long."""


class PageTls:
    """What handshakes are made with: `context` for the server, fresh files for each connection.

    A renewed pair is served from a context of its own: in one that has been used, a certificate
    with another kind of key would stand beside the old one.

    Args:
        files: The PEM files.
        clock: Seconds, for how often is looked.

    Raises:
        ConfigError: They cannot be read, or do not belong together.
    """

    def __init__(self, files: DashboardTls, clock: Callable[[], float] = time.monotonic):
        self._files, self._clock = files, clock
        self._stamp = self._looked()
        self._fresh = self.context = _context(files)
        self.context.sni_callback = self._choose
        self._term = term_of_file(files.cert, "dashboard_tls: cert")
        self._looked_at = clock()

    def term(self) -> tuple[float, float]:
        """When the certificate that is served from now on begins and ends, seconds since 1970."""
        self._look()
        return self._term

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _with: ssl.SSLContext) -> None:
        """Called in every handshake, also where the client names no host."""
        if self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            self._look()
        handshake.context = self._fresh

    def _look(self) -> None:
        stamp = self._looked()
        if stamp == self._stamp:
            return
        self._stamp = stamp  # what is wrong with this pair is said once
        try:
            self._fresh = _context(self._files)
            self._term = term_of_file(self._files.cert, "dashboard_tls: cert")
        except ConfigError as error:
            logger.warning("%s. The page goes on with the certificate that it has", error)
        else:
            logger.info("the page's certificate is read again: %s", self._files.cert)

    def _looked(self) -> Any:
        stamps = []
        for path in (self._files.cert, self._files.key):
            try:
                found = path.stat()
            except OSError:
                return None
            stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
        return stamps


def _context(files: DashboardTls) -> ssl.SSLContext:
    for found in check_pair(files.cert, files.key):  # OpenSSL does not say what is wrong with them
        if found.state == "problem":
            raise ConfigError(f"dashboard_tls: {found.text}; {found.mend}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.cert, files.key)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "reason", None) or error.strerror or str(error)
        raise ConfigError(f"dashboard_tls: {files.cert} cannot be used: {why.lower()}") from None
    return context
