"""Ports of this machine, and the dashboard's addresses."""

import contextlib
import socket
from urllib.parse import urlsplit

from domo.errors import PortError
from domo_proto.channel import is_loopback
from domo_server.config import DEFAULT_DASHBOARD, ServerConfig

PORTS_TRIED = 50
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
BAD_ADDRESS = (OSError, OverflowError, UnicodeError)
"""What a port, or a name, raises that cannot be."""


def why_taken(address: str) -> str:
    """Why nobody can listen on an address; empty: one can."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
    except BAD_ADDRESS as error:
        return _why(error).lower()
    return ""


def _why(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "a port is at most 65535"
    return getattr(error, "strerror", None) or str(error)


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
        except BAD_ADDRESS as error:
            sock.close()
            reason = _why(error)
            continue
        return sock
    what = address or f"{host}:{port}..{int(port) + PORTS_TRIED - 1}"
    raise PortError(
        f"the dashboard cannot listen on {what}: {reason}. Choose another with --dashboard"
    )


def dashboard_url(sock: socket.socket) -> str:
    """Where the dashboard answers on this machine."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def dashboard_hosts(sock: socket.socket, config: ServerConfig) -> list[str] | None:
    """The names that the dashboard answers to, without ports; None: any, as it is not on loopback.

    A proxy before it passes on the name that people open: that of `dashboard_url`.
    """
    host, port = sock.getsockname()[:2]
    if not is_loopback(f"{host}:{port}"):
        return None
    names = {*LOOPBACK_HOSTS, host}
    for url in (f"//{config.dashboard or ''}", config.dashboard_url or ""):
        with contextlib.suppress(ValueError):  # no URL: it is not anybody's name
            names.add(urlsplit(url).hostname or host)
    return sorted(names)
