"""Log-in through an OpenID Provider: authorization code with PKCE."""

from typing import TYPE_CHECKING

from domo.errors import ConfigError
from domo_server.dashboard_config import OidcConfig

if TYPE_CHECKING:
    from domo_server.dashboard.access.oidc.provider import Provider

CALLBACK = "/login/oidc/callback"
"""Where the provider sends browsers back, below the page's address."""


def make_provider(config: OidcConfig | None, page: str | None) -> "Provider | None":
    """The provider of a configuration; None: it has none.

    Args:
        config: The table [server.oidc].
        page: The page as people reach it.

    Raises:
        ConfigError: What it needs is not installed, or its secret or CA cannot be read.
    """
    if config is None:
        return None
    try:
        from domo_server.dashboard.access.oidc.provider import Provider
    except ImportError:
        raise ConfigError(
            "[server.oidc] needs Authlib, which is not installed: "
            "pip install 'domo-federated[oidc]'"
        ) from None
    return Provider(config, redirect_uri(page or ""))


def redirect_uri(page: str) -> str:
    """What has to be registered at the provider, to the letter."""
    return f"{page.rstrip('/')}{CALLBACK}"
