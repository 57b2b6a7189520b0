"""What a coordinator needs of its machine: state folder, database, ports, certificates.

Nothing here loads torch, so that a coordinator that cannot start says so at once.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import grpc

from domo.errors import ConfigError, PortError
from domo.storage.state_folder import lock_folder
from domo_proto.certificates import check_pair
from domo_proto.channel import server_credentials
from domo_server.config import ServerConfig, TlsConfig, admin_token
from domo_server.ports import bind_dashboard, why_taken
from domo_server.store.database import open_database
from domo_server.store.lock import AdvisoryLock, sole_use
from domo_server.store.store import Store


class Started(NamedTuple):
    """Where the coordinator listens.

    Attributes:
        grpc_address: host:port for silos.
        dashboard_url: The page.
        login_url: Logs the admin in.
        run_ids: The runs of the configuration file.
    """

    grpc_address: str
    dashboard_url: str
    login_url: str
    run_ids: Sequence[str]


class Held(NamedTuple):
    """What one coordinator has for itself while it is up.

    Attributes:
        store: The database.
        lock: What keeps others out of it and has to be looked after; None: nothing has to be.
        page_socket: Bound and listening, for REST and the page.
        credentials: For silos; None: no TLS.
        token: The admin's.
    """

    store: Store
    lock: AdvisoryLock | None
    page_socket: socket.socket
    credentials: grpc.ServerCredentials | None
    token: str


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
        alone = sole_use(config.database_url)
        lock = await asyncio.to_thread(ending.enter_context, alone)
        database = await asyncio.to_thread(open_database, config.database_url)
        store = Store(database, relaxed=config.durability != "power")
        ending.callback(store.close)
        if lock is not None:
            lock.guard(database)
        page_socket = ending.enter_context(bind_dashboard(config.dashboard))
        if why_taken(config.listen):
            raise taken(config.listen)
        credentials = _credentials(config.tls)
        yield Held(store, lock, page_socket, credentials, admin_token(config.state_dir))


def taken(address: str) -> PortError:
    """What to say where silos cannot dial in."""
    return PortError(
        f"cannot listen on {address}: the port is in use, or the address is not this machine's. "
        "Choose another with --listen"
    )


def _credentials(tls: TlsConfig | None) -> grpc.ServerCredentials | None:
    if tls is None:
        return None
    credentials = server_credentials(tls.files)
    for found in check_pair(tls.cert, tls.key):  # grpc does not say what is wrong with them
        if found.state == "problem":
            raise ConfigError(f"tls: {found.text}; {found.mend}")
    return credentials
