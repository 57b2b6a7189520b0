"""The coordinator's own certificate: what calls are checked by, when it ends, and its renewal."""

import asyncio
import logging
import time
from collections.abc import Callable

from domo.errors import ConfigError
from domo.ops.addresses import is_loopback
from domo_proto.certificates import UNREADABLE, alternative_names, read_certificates
from domo_proto.identities import fingerprint
from domo_server.config import ServerConfig, TlsConfig
from domo_server.identity.admitted import Rules
from domo_server.identity.authority import Authority
from domo_server.identity.credentials import Credentials
from domo_server.identity.guard import Guard
from domo_server.pki_files import pki_of
from domo_server.store.store import Store

log = logging.getLogger(__name__)

RENEW_S = 60.0
"""How often it is looked whether half of the time of the own certificate is over."""


def authority_of(config: ServerConfig) -> Authority | None:
    """The coordinator's own CA; None: it has none, its key is elsewhere, or others are used.

    Raises:
        ConfigError: Its files are damaged.
    """
    own = pki_of(config.state_dir)
    used = config.tls_in_use
    if used is None or used.client_ca != own.ca or not own.ca_key.exists():
        return None
    return Authority(own)


def rules_of(tls: TlsConfig | None, enrols: bool) -> Rules:
    """By which calls are checked.

    Raises:
        ConfigError: The certificate cannot be read.
    """
    if tls is None:
        return Rules()
    own = read_certificates(tls.cert, "cert")[0]
    return Rules(
        mutual=tls.client_ca is not None,
        own_key=fingerprint(own),
        own_names=frozenset(map(str.lower, alternative_names(own))),
        named=tls.names,
        enrols=enrols,
    )


def nameless(config: ServerConfig) -> str:
    """What has to be said where silos show no certificate on a public address; empty: nothing."""
    tls = config.tls_in_use
    if is_loopback(config.listen) or (tls is not None and tls.client_ca is not None):
        return ""
    return (
        f"whoever reaches {config.listen} may join under any name that is free, and is sent the "
        "model: silos show no certificate here. `domo-server pki init` makes a CA for that, with "
        "[server.tls] taken out; or set client_ca to a CA of your own"
    )


def nobody(guard: Guard, store: Store) -> str:
    """What has to be said where silos show certificates, and no name is let in; empty: nothing."""
    enrols = guard.rules.enrols
    if not guard.rules.mutual or guard.admitted.anybody or (store.rostered() and not enrols):
        return ""
    verb, none = ("enroll", "none has a code") if enrols else ("admit", "no run names one")
    return f"no silo is let in yet: {none}. Let each in with: domo-server {verb} NAME"


class Own:
    """Keeps up with the coordinator's certificate as its files change, and renews its own CA's.

    Args:
        config: The [server] table.
        credentials: That serve it.
        guard: Is told the rules.
        renewed: Told at each change.
    """

    def __init__(
        self,
        config: ServerConfig,
        credentials: Credentials,
        guard: Guard,
        renewed: Callable[[], None],
    ):
        self.authority = authority_of(config)
        self._tls, self._guard, self._renewed = config.tls_in_use, guard, renewed
        self.look()
        loop = asyncio.get_running_loop()

        def changed() -> None:
            loop.call_soon_threadsafe(self.look, True)

        credentials.on_change = changed

    def look(self, again: bool = False) -> None:
        """Read the certificate.

        Raises:
            ConfigError: It cannot be read, at first.
        """
        try:
            self._guard.rules = rules_of(self._tls, self.authority is not None)
        except ConfigError as error:
            if not again:
                raise
            log.warning("%s", error)
            return
        self._renewed()
        if again:
            log.info("the coordinator's certificate was changed; new connections get the new one")

    async def watch(self) -> None:
        """Renew the certificate of the own CA in time, until cancelled."""
        while self.authority is not None:
            try:
                await asyncio.to_thread(self.authority.renew_own, time.time())
            except (OSError, *UNREADABLE) as error:
                log.error("the coordinator's certificate was not renewed: %s", error)
            await asyncio.sleep(RENEW_S)
