"""Who somebody is, and which role that is, by what the provider says."""

from collections.abc import Mapping
from typing import Any

from domo.errors import AccessError
from domo.names import one_line
from domo_server.dashboard_config import OidcConfig, RoleName
from domo_server.people.person import ANYBODY, ROLES, THE_ADMIN, Person

MAX_NAME = 100
"""Characters of a name that is shown."""


def person_of(config: OidcConfig, claims: Mapping[str, Any]) -> Person:
    """Somebody that the provider vouches for, with the highest role that is theirs.

    Raises:
        AccessError: None is.
    """
    email = _email(claims)
    name = one_line(email or str(claims["sub"]), MAX_NAME)
    if name in (THE_ADMIN, ANYBODY.name):  # who did something is not left open
        name = f"sub:{name}"
    found = {config.people.get(f"sub:{claims['sub']}"), _by_email(config, email)}
    found |= {config.roles.get(value) for value in _values(config.role_claim, claims)}
    roles = [role for role in found if role is not None]
    if not roles:
        raise AccessError(
            f"there is no role here for {name}. Who operates this coordinator gives one, in "
            "[server.oidc.roles] or [server.oidc.people]: ask there"
        )
    return Person(name, max(roles, key=ROLES.index))


def is_missing(config: OidcConfig, claims: Mapping[str, Any]) -> bool:
    """Whether what a role may depend on is not there: the provider is to be asked for more."""
    wants_email = any("@" in name for name in config.people if not name.startswith("sub:"))
    if wants_email and "email" not in claims:
        return True
    return config.role_claim is not None and _at(config.role_claim, claims) is None


def _email(claims: Mapping[str, Any]) -> str | None:
    """The address, if the provider says that it has looked whose it is."""
    email = claims.get("email")
    return email if isinstance(email, str) and claims.get("email_verified") is True else None


def _by_email(config: OidcConfig, email: str | None) -> RoleName | None:
    if email is None or email.startswith("sub:"):
        return None
    # in another alphabet a small letter may be the small letter of two capitals
    same = {name.lower() if name.isascii() else name: role for name, role in config.people.items()}
    return same.get(email.lower() if email.isascii() else email)


def _values(claim: str | None, claims: Mapping[str, Any]) -> list[str]:
    found = None if claim is None else _at(claim, claims)
    listed = found if isinstance(found, list) else [found]
    return [value for value in listed if isinstance(value, str)]


def _at(claim: str, claims: Mapping[str, Any]) -> Any:
    """A claim by its name, which may have dots itself, or by the way to it."""
    if claim in claims:
        return claims[claim]
    found: Any = claims
    for part in claim.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
