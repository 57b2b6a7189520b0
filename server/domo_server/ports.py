"""Ports of this machine."""

import socket

from domo.errors import PortError
from domo_server.config import DEFAULT_DASHBOARD

PORTS_TRIED = 50


def why_taken(address: str) -> str:
    """Why nobody can listen on an address; empty: one can."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, kind, protocol, _, where = found[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
    except (OSError, OverflowError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""


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
