"""What is wrong with TLS while calls fail: looked at now and then, not at each failure."""

import time
from contextlib import suppress

from domo.errors import ConfigError
from domo_client.identity.tls import fault
from domo_proto.channel import TlsFiles

LOOK_AGAIN_S = 30.0
"""Before the port is asked again, while calls fail."""


class Look:
    """Asks a coordinator's port what is wrong.

    Args:
        address: host:port.
        tls: PEM files, as they are when it looks; None: no TLS, and nothing is asked.
        name: This silo's.
    """

    def __init__(self, address: str, tls: TlsFiles | None, name: str):
        self._address, self._tls, self._name = address, tls, name
        self._looked, self._why = 0.0, ""

    def why(self, anew: bool = False) -> str:
        """What keeps the two ends apart, and does not pass by itself; empty: no such thing.

        Args:
            anew: Ask also where it was asked just now.
        """
        now = time.monotonic()
        if self._tls is None or (self._looked and now - self._looked < LOOK_AGAIN_S and not anew):
            return self._why
        found = None
        with suppress(OSError, ConfigError, ValueError):
            found = fault(self._address, self._tls, self._name)
        self._why = "" if found is None else f"{found.text}; {found.mend}"
        self._looked = time.monotonic()
        return self._why
