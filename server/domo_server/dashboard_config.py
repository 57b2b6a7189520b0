"""The part of [server] that is about people: TLS of the page, proxies before it."""

from ipaddress import ip_network
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class DashboardTls(BaseModel):
    """PEM files with which the dashboard ends TLS itself; read again when they change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert: Path
    """Certificate chain of the dashboard."""
    key: Path
    """Its private key."""


def networks(given: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses and networks, as they are compared.

    Raises:
        ValueError: One is neither.
    """
    found = []
    for text in given:
        try:
            found.append(str(ip_network(text)))
        except ValueError:
            raise ValueError(
                f"{text!r} is no address and no network, such as 10.0.0.0/8 or 127.0.0.1"
            ) from None
    return tuple(found)
