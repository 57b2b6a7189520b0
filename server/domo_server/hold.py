"""What a coordinator needs of its machine: state folder, database, ports, certificates.

Nothing here loads torch, so that a coordinator that cannot start says so at once.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import NamedTuple

import grpc.aio

from domo.certificates import check_pair
from domo.errors import ConfigError, PortError
from domo.state_dir import lock_folder
from domo_proto.channel import SERVER_OPTIONS, server_credentials
from domo_server.config import DEFAULT_DASHBOARD, ServerConfig, admin_token
from domo_server.database import open_database, sole_use
from domo_server.store import Store

PORTS_TRIED = 50


class Held(NamedTuple):
    """What one coordinator has for itself while it is up.

    Attributes:
        store: The database.
        page_socket: Bound and listening, for REST and the page.
        server: Bound to the silos' port; it has no handlers, and is not started.
        address: host:port of that.
        token: The admin's.
    """

    store: Store
    page_socket: socket.socket
    server: grpc.aio.Server
    address: str
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
        database = await asyncio.to_thread(open_database, config.database_url)
        store = Store(database, relaxed=config.durability != "power")
        ending.callback(store.close)
        ending.enter_context(sole_use(database))
        page_socket = ending.enter_context(bind_dashboard(config.dashboard))
        server, address = _listen(config)
        ending.push_async_callback(server.stop, 1.0)
        yield Held(store, page_socket, server, address, admin_token(config.state_dir))


def _listen(config: ServerConfig) -> tuple[grpc.aio.Server, str]:
    """A server for silos, bound."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    credentials = server_credentials(config.tls.files) if config.tls else None
    if config.tls:  # grpc does not say what is wrong with them
        for found in check_pair(config.tls.cert, config.tls.key):
            if found.state == "problem":
                raise ConfigError(f"tls: {found.text}; {found.mend}")
    try:
        if credentials is not None:
            port = server.add_secure_port(config.listen, credentials)
        else:
            port = server.add_insecure_port(config.listen)
    except RuntimeError:
        raise PortError(
            f"cannot listen on {config.listen}: the port is in use, or the address is not this "
            "machine's. Choose another with --listen"
        ) from None
    return server, f"{config.listen.rpartition(':')[0]}:{port}"


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
            reason = error.strerror
            continue
        return sock
    what = address or f"{host}:{port}..{int(port) + PORTS_TRIED - 1}"
    raise PortError(
        f"the dashboard cannot listen on {what}: {reason}. Choose another with --dashboard"
    )
