"""A silo's certificate while it runs: renewed in time, and read again when its files change.

An enrolled silo asks its coordinator at half of the certificate's time, with the present one, and
for the same key. Files of another PKI (a hospital's, step-ca, SPIRE) are renewed by that, in place.
Either way new files are a new channel for all new calls, and calls under way end on the old one.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from domo.errors import ConfigError, DomoError
from domo.ops.words import counted, duration
from domo_client.identity.enrolment import check_answer, read_key
from domo_client.identity.kept import is_enrolled
from domo_client.identity.place import write_private
from domo_client.identity.tls import check_own
from domo_proto.certificates import read_certificates
from domo_proto.channel import TlsFiles
from domo_proto.identities import make_request

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""How often the files and the clock are looked at."""
SETTLED = 3
"""Looks at files that will not do, and do not change, before that is said."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 3600.0
"""After a renewal that failed: twice as long each time, a tenth of what is left at most."""
RESTS = 10
"""After a renewal there is none for this part of the new certificate's time, whatever the clocks
say: where this one is far ahead, every certificate is half over when it comes."""
SOON, VERY_SOON = 4, 10
"""A failing renewal is a warning in the last quarter of the time, an error in the last tenth."""

Stamp = tuple[tuple[int, int, int] | None, ...]


class Renewal(threading.Thread):
    """Looks after the files of a silo; whatever it meets never ends a run.

    Args:
        tls: The files, which the channel of now was made of.
        name: The silo's.
        certify: Asks the coordinator: a request, for a certificate and its CA (PEM).
        move: Makes a new channel of the files of now.
        tell: Told in words what the operator should know.
    """

    def __init__(
        self,
        tls: TlsFiles,
        name: str,
        certify: Callable[[bytes], tuple[bytes, bytes]],
        move: Callable[[], None],
        tell: Callable[[str], None] = lambda text: None,
    ):
        super().__init__(name="certificate", daemon=True)
        self._tls, self._name = tls, name
        self._certify, self._move, self._tell = certify, move, tell
        self._stopped = threading.Event()
        self._taken = self._stamp()
        self._faults, self._again, self._rests_until = 0, 0.0, 0.0
        self._refused: tuple[Stamp, int] = ((), 0)
        self._renews = is_enrolled(tls)

    def run(self) -> None:
        """Until `stop`."""
        while not self._stopped.wait(LOOK_S):
            try:
                self.look()
            except Exception as error:  # a bug; the silo goes on with what it has
                log.error("this silo's certificate is not looked after: %r", error)
                log.debug("traceback", exc_info=True)
                self._stopped.wait(LONGEST_PAUSE_S)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()

    def look(self) -> None:
        """Do what is to be done now."""
        if time.monotonic() < self._again or self._stopped.is_set():
            return
        stamp = self._stamp()
        if stamp != self._taken and None not in stamp:
            self._take(stamp)
        elif self._renews and self._tls.cert is not None:
            self._renew(self._tls.cert)

    def _stamp(self) -> Stamp:
        """What changes with the files; None for one that is not there for the moment."""
        given = (self._tls.ca, self._tls.cert, self._tls.key)
        return tuple(_stat(path) for path in given if path is not None)

    def _take(self, stamp: Stamp) -> None:
        """Take files up that have changed, if they will do."""
        try:
            check_own(self._tls, self._name)
        except DomoError as error:
            same, looks = self._refused
            self._refused = stamp, looks + 1 if same == stamp else 1
            if self._refused[1] == SETTLED:  # it is no half that is written: said once
                self._tell(f"{error}. The files that were good before are used on")
            return
        try:
            self._move()
        except DomoError as error:
            self._failed(f"no connection can be made with the new files: {error}")
            return
        self._taken, self._faults = stamp, 0
        log.info("new certificate files: calls go over a new connection")

    def _renew(self, path: Path) -> None:
        try:
            cert = read_certificates(path, "certificate")[0]
        except ConfigError as error:
            self._failed(f"it cannot be renewed: {error}")
            return
        begin, end = cert.not_valid_before_utc.timestamp(), cert.not_valid_after_utc.timestamp()
        if time.time() < (begin + end) / 2 or time.monotonic() < self._rests_until:
            return
        try:
            self._replace(path)
        except (DomoError, OSError) as error:
            self._failed(f"it could not be renewed: {error}", cert)
            return
        self._faults = 0
        self._take(self._stamp())

    def _replace(self, path: Path) -> None:
        assert self._tls.key is not None
        assert self._tls.ca is not None
        key = read_key(self._tls.key)
        cert_pem, ca_pem = self._certify(make_request(key, self._name))
        cert = check_answer(cert_pem, ca_pem, key, self._name)
        if self._tls.ca.read_bytes() != ca_pem:
            write_private(self._tls.ca, ca_pem)
        write_private(path, cert_pem)
        life = cert.not_valid_after_utc - cert.not_valid_before_utc
        self._rests_until = time.monotonic() + life.total_seconds() / RESTS
        log.info("this silo's certificate is renewed, until %s", cert.not_valid_after_utc)

    def _failed(self, why: str, cert: x509.Certificate | None = None) -> None:
        """Try again, the later the more often it failed, the sooner the less time is left."""
        self._faults += 1
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(self._faults - 1, 20), LONGEST_PAUSE_S)
        left_s, life_s = pause_s * VERY_SOON, 0.0
        if cert is not None:
            end = cert.not_valid_after_utc.timestamp()
            left_s, life_s = end - time.time(), end - cert.not_valid_before_utc.timestamp()
            pause_s = max(min(pause_s, left_s / VERY_SOON), FIRST_PAUSE_S)
        self._again = time.monotonic() + pause_s
        when = f"ends in {duration(left_s)}" if left_s > 0 else "has ended"
        text = f"this silo's certificate {when}: {why}" if cert is not None else why
        times = f" ({counted(self._faults, 'attempt')}; the next in {duration(pause_s)})"
        if left_s < life_s / VERY_SOON:
            log.error("%s%s", text, times)
        elif left_s < life_s / SOON:
            log.warning("%s%s", text, times)
        else:
            log.info("%s%s", text, times)
        if cert is None or left_s < life_s / SOON:
            self._tell(text + times)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
