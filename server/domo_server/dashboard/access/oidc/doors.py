"""What a provider says of itself, and the secret that it knows this side by."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from domo.errors import ConfigError, TransportError
from domo_server.dashboard.access.oidc.id_token import ALGORITHMS
from domo_server.dashboard_config import OidcConfig, is_safe_url


class Doors(NamedTuple):
    """Where a provider is asked.

    Attributes:
        authorize: Where browsers go.
        token: Where codes are exchanged.
        keys: Its public keys.
        userinfo: More about somebody; empty: it has none.
        by_post: Whether the secret stands in the form, and not in a header.
        says_issuer: Whether its answers name it (RFC 9207).
    """

    authorize: str
    token: str
    keys: str
    userinfo: str
    by_post: bool
    says_issuer: bool


def doors_of(config: OidcConfig, said: Mapping[str, Any]) -> Doors:
    """Where a provider is asked, by its own document.

    Raises:
        TransportError: It is another one's, or one that cannot be used.
    """

    def wrong(why: str) -> TransportError:
        return TransportError(f"the provider at {config.issuer} cannot be used: {why}")

    def listed(key: str) -> list[Any] | None:
        found = said.get(key)
        return found if isinstance(found, list) else None

    if said.get("issuer") != config.issuer:
        raise wrong("it names itself otherwise; server.oidc.issuer is compared to the letter")
    found = {}
    for key in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
        url = said.get(key)
        if key == "userinfo_endpoint" and url is None:
            url = ""
        elif not isinstance(url, str) or not is_safe_url(url):
            raise wrong(f"its {key} is missing, or is not https")
        elif config.issuer.startswith("https:") and not url.startswith("https:"):
            raise wrong(f"its {key} is not https")
        found[key] = url
    pkce = listed("code_challenge_methods_supported")
    if pkce is not None and "S256" not in pkce:
        raise wrong("it does not do PKCE (S256)")
    signed = listed("id_token_signing_alg_values_supported")
    if signed is not None and not set(map(str, signed)) & set(ALGORITHMS):
        raise wrong("it signs ID tokens in no way that is taken")
    auth = listed("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    by_post = "client_secret_basic" not in auth and "client_secret_post" in auth
    says = said.get("authorization_response_iss_parameter_supported") is True
    return Doors(
        found["authorization_endpoint"], found["token_endpoint"], found["jwks_uri"],
        found["userinfo_endpoint"], by_post, says,
    )  # fmt: skip


def secret_of(config: OidcConfig) -> str | None:
    """The client's secret; None: a public client.

    Raises:
        ConfigError: It cannot be read.
    """
    if config.client_secret_env is not None:
        text = os.environ.get(config.client_secret_env, "").strip()
        where = f"the variable {config.client_secret_env}"
    elif config.client_secret_file is not None:
        where = str(config.client_secret_file)
        try:
            text = config.client_secret_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise ConfigError(f"server.oidc: the client's secret: {where}: {why}") from None
    else:
        return None
    if not text or not text.isascii() or not text.isprintable():
        raise ConfigError(
            f"server.oidc: the client's secret: {where} must hold one line of ASCII, and is empty, "
            "not set or something else"
        )
    return text
