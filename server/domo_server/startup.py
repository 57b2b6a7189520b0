"""What a coordinator needs of its machine: state folder, database, ports, certificates.

Nothing here loads torch, so that a coordinator that cannot start says so at once.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from domo.errors import PortError
from domo.ops.addresses import is_loopback, joined
from domo.storage.state_folder import keep_private, lock_folder
from domo_server.config import DEFAULT_DASHBOARD, ServerConfig
from domo_server.dashboard_config import PageNames
from domo_server.identity.credentials import Credentials
from domo_server.page_tls import PageTls
from domo_server.people.local import admin_token
from domo_server.store.database import open_database
from domo_server.store.lock import AdvisoryLock, sole_use
from domo_server.store.store import Store

PORTS_TRIED = 50
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


class Started(NamedTuple):
    """Where the coordinator listens.

    Attributes:
        grpc_address: host:port for silos.
        dashboard_url: The page.
        login_url: Makes a link that logs the admin in, once.
        run_ids: The runs of the configuration file.
    """

    grpc_address: str
    dashboard_url: str
    login_url: Callable[[], str]
    run_ids: Sequence[str]


class Held(NamedTuple):
    """What one coordinator has for itself while it is up.

    Attributes:
        store: The database.
        lock: What keeps others out of it and has to be looked after; None: nothing has to be.
        page_socket: Bound and listening, for REST and the page.
        credentials: For silos; None: no TLS.
        token: The admin's.
        page_tls: For the dashboard; None: no TLS.
    """

    store: Store
    lock: AdvisoryLock | None
    page_socket: socket.socket
    credentials: Credentials | None
    token: str
    page_tls: PageTls | None


@contextlib.asynccontextmanager
async def hold(config: ServerConfig) -> AsyncIterator[Held]:
    """Take it all, and give it back with the block.

    Raises:
        ConfigError: TLS files cannot be read, or do not belong together.
        PortError: A port is taken.
        StateError: The state folder or the database cannot be used.
    """
    async with contextlib.AsyncExitStack() as ending:
        ending.enter_context(lock_folder(config.state_dir, "domo-server"))
        if config.database is None:
            keep_private(config.state_dir / "coordinator.db")  # SQLite's other files have its mode
        alone = sole_use(config.database_url)
        lock = await asyncio.to_thread(ending.enter_context, alone)
        database = await asyncio.to_thread(open_database, config.database_url)
        store = Store(database, relaxed=config.durability != "power")
        ending.callback(store.close)
        if lock is not None:
            lock.guard(database)
        page_socket = ending.enter_context(bind_dashboard(config.dashboard))
        if why := why_taken(config.listen):
            raise taken(config.listen, why)
        tls = config.tls_in_use
        credentials = Credentials(tls.files) if tls is not None else None
        page_tls = PageTls(config.dashboard_tls) if config.dashboard_tls else None
        yield Held(store, lock, page_socket, credentials, admin_token(config.state_dir), page_tls)


def taken(address: str, why: str) -> PortError:
    """What to say where silos cannot dial in."""
    return PortError(f"cannot listen on {address}: {why}. Choose another with --listen")


def why_taken(address: str) -> str:
    """Why nobody can listen on an address; empty: one can."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
    except OSError as error:
        return _why(error)
    return ""


WHY = {
    errno.EADDRINUSE: "the port is in use",
    errno.EADDRNOTAVAIL: "the address is not this machine's; 0.0.0.0 means all that are",
    errno.EACCES: "ports below 1024 are kept for the system",
}


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"the name has no address here ({(error.strerror or '').lower()})"
    known = WHY.get(error.errno or 0)
    return known or (error.strerror or str(error)).lower()


def bind_dashboard(address: str | None) -> socket.socket:
    """A bound socket for the dashboard: the address given, or the next free port from 8080 on.

    Raises:
        PortError: The address given is taken, or nothing is free.
    """
    host, _, port = (address or DEFAULT_DASHBOARD).rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [int(port)] if address else range(int(port), int(port) + PORTS_TRIED)
    for candidate in ports:
        # asyncio turns Nagle's waiting off only where the protocol is named
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host.strip("[]"), candidate))
            sock.listen()
        except OSError as error:
            sock.close()
            reason = _why(error)
            continue
        return sock
    what = address or f"{host}:{port}..{int(port) + PORTS_TRIED - 1}"
    raise PortError(
        f"the dashboard cannot listen on {what}: {reason}. Choose another with --dashboard"
    )


def dashboard_url(sock: socket.socket, config: ServerConfig | None = None) -> str:
    """Where the dashboard answers on this machine."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    tls = config is not None and config.dashboard_tls is not None
    return f"{'https' if tls else 'http'}://{joined(host, port)}"


def exposed(config: ServerConfig) -> str:
    """What has to be said of a dashboard that log-ins reach in clear; empty: nothing."""
    address = config.dashboard or DEFAULT_DASHBOARD
    if is_loopback(address) or config.dashboard_tls is not None or config.trusted_proxies:
        return ""
    return (
        f"the dashboard at {address} is reachable from other machines without TLS: whoever is on "
        f"the way can read tokens and log-ins. Set [server.dashboard_tls], or have a proxy end TLS "
        "before it and name that proxy in trusted_proxies"
    )


def dashboard_hosts(sock: socket.socket, config: ServerConfig) -> PageNames | None:
    """The names that the dashboard answers to; None: any, as browsers compare its certificate.

    A proxy before it passes on the name that people open: that of `dashboard_url`.
    """
    host, port = sock.getsockname()[:2]
    is_here = is_loopback(f"{host}:{port}")
    if not is_here and config.dashboard_tls is not None:
        return None
    names = {*LOOPBACK_HOSTS, host}
    if not is_here:
        names.add(socket.gethostname().lower())
    for url in (f"//{config.dashboard or ''}", config.dashboard_url or ""):
        with contextlib.suppress(ValueError):  # no URL: it is not anybody's name
            names.add(urlsplit(url).hostname or host)
    return PageNames(tuple(sorted(names)), is_here)


def is_proxied(config: ServerConfig) -> bool:
    """Whether people reach the page through a proxy here, or under a name of another machine.

    What such a proxy passes on comes from loopback, and is not from this machine.
    """
    host = urlsplit(config.dashboard_url or "").hostname
    named = host is not None and not is_loopback(f"{host}:0")
    return named or bool(config.trusted_proxies)
