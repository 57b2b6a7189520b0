"""The part of [server] that is about people: TLS of the page, proxies before it, their log-in."""

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from domo.ops.addresses import is_local

RoleName = Literal["viewer", "auditor", "admin"]


class DashboardTls(BaseModel):
    """PEM files with which the dashboard ends TLS itself; read again when they change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cert: Path
    """Certificate chain of the dashboard."""
    key: Path
    """Its private key."""


class OidcConfig(BaseModel):
    """Log-in through an OpenID Provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str
    """The provider, as it names itself; https, or http on this machine."""
    client_id: str = Field(min_length=1)
    """Under which name the provider knows this dashboard."""
    client_secret_file: Path | None = None
    """File with the secret that goes with it; none for a public client."""
    client_secret_env: str | None = None
    """Or the variable that holds it."""
    ca: Path | None = None
    """CA of the provider's certificate; those that the system trusts by default."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    """What the provider is asked for."""
    role_claim: str | None = Field(None, min_length=1)
    """The claim that `roles` is about; dots lead into it, such as realm_access.roles."""
    roles: dict[str, RoleName] = {}
    """Values of that claim, and the role of who has it."""
    people: dict[str, RoleName] = {}
    """E-mail addresses, or sub:SUBJECT, and their role."""

    @field_validator("issuer")
    @classmethod
    def _is_provider(cls, issuer: str) -> str:
        if not is_safe_url(issuer) or urlsplit(issuer).query or "?" in issuer:
            raise ValueError(
                "must be an https URL without ? and #, or an http one on loopback for tests"
            )
        return issuer

    @field_validator("scopes")
    @classmethod
    def _has_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes or any(not s or not s.isascii() or " " in s for s in scopes):
            raise ValueError('must be words, and "openid" among them')
        return scopes

    @model_validator(mode="after")
    def _fits(self) -> "OidcConfig":
        if self.client_secret_file is not None and self.client_secret_env is not None:
            raise ValueError("client_secret_file and client_secret_env: give one of them")
        if bool(self.roles) != (self.role_claim is not None):
            raise ValueError("role_claim and roles: give both of them, or neither")
        if not self.roles and not self.people:
            raise ValueError(
                "nobody could log in: say who has which role, in [server.oidc.roles] with "
                "role_claim, or in [server.oidc.people]"
            )
        for name in self.people:
            if "@" not in name and not name.startswith("sub:"):
                raise ValueError(f"people: {name!r} must be an e-mail address, or sub:SUBJECT")
        return self


def is_safe_url(url: str) -> bool:
    """Whether what passes there cannot be read on the way: https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not url.isascii():
        return False
    if any(c.isspace() or c == "\\" for c in url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_local(host))


class PageNames(NamedTuple):
    """The names that the page answers to.

    A page elsewhere can let its own name point here, and so read what needs no credential here (DNS
    rebinding); what its requests have in `Host` is that name.

    Attributes:
        known: Without ports, in small letters.
        is_local: The page is on loopback, and answers to these alone. Else it does to addresses
            too, and to names without a dot, such as those of containers: nobody outside has one.
    """

    known: tuple[str, ...]
    is_local: bool = True

    def has(self, name: str) -> bool:
        """Whether a name, without a port, is one of them."""
        return name in self.known or (not self.is_local and _is_of_no_domain(name))

    @property
    def advice(self) -> str:
        """What to do for who comes by another name."""
        names = ", ".join(self.known)
        use = f"Use one of {names}" if self.is_local else "Open it by its address"
        return f"{use}; or set dashboard_url in [server] to the URL that people open"


def _is_of_no_domain(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return bool(name) and "." not in name and ":" not in name
    return True


def page_host(url: str) -> str:
    """The name in the page's address; empty: there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


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
