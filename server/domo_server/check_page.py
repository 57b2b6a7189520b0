"""`domo-server check`, of the page: port, TLS, proxies before it, log-in at a provider."""

import asyncio
import time
from collections.abc import Iterator

from domo.errors import ConfigError, TransportError
from domo.ops.findings import Finding, ok, problem, warning
from domo.ops.words import counted
from domo_proto.certificates import (
    alternative_names,
    check_dates,
    check_pair,
    is_for,
    read_certificates,
)
from domo_server.config import DEFAULT_DASHBOARD, ServerConfig
from domo_server.dashboard.access.oidc import make_provider
from domo_server.dashboard_config import DashboardTls, page_host
from domo_server.startup import PORTS_TRIED, exposed, why_taken


def dashboard_port(settings: ServerConfig) -> Iterator[Finding]:
    """Whether the dashboard's port is free, or one of those that are tried without one."""
    mend = 'stop what is there, or choose another: dashboard = "HOST:PORT", or --dashboard'
    address = settings.dashboard
    if address is not None:
        reason = why_taken(address)
        if reason:
            yield problem(f"the dashboard cannot listen on {address}: {reason}", mend)
        else:
            yield ok(f"{address} is free")
        return
    host, _, port = DEFAULT_DASHBOARD.rpartition(":")
    tried = (f"{host}:{p}" for p in range(int(port), int(port) + PORTS_TRIED))
    free = next((a for a in tried if not why_taken(a)), None)
    if free is None:
        yield problem(f"no port is free from {DEFAULT_DASHBOARD} on", mend)
    else:
        yield ok(f"{free} is free")


def dashboard_tls(settings: ServerConfig) -> Iterator[Finding]:
    """How people's log-ins are kept from whoever is on the way."""
    if words := exposed(settings):
        what, _, mend = words.partition(". ")
        yield warning(what, mend)
    url = settings.dashboard_url or ""
    tls = settings.dashboard_tls
    if tls is not None:
        yield from _pair(tls, page_host(url))
    elif url.startswith("https:") and not settings.trusted_proxies:
        yield warning(
            f"dashboard_url is {url}, and no proxy is named that speaks TLS in the page's place",
            'name its address, such as trusted_proxies = ["127.0.0.1"]: else cookies are not '
            "Secure, and failed log-ins count for all people together",
        )
    elif not words:
        yield ok("no TLS of its own: on this machine only, or behind the proxies that are named")


def _pair(tls: DashboardTls, host: str) -> Iterator[Finding]:
    yield from check_pair(tls.cert, tls.key)
    try:
        own = read_certificates(tls.cert, "dashboard_tls: cert")[0]
    except ConfigError:
        return  # said by the pair
    renew = "have it renewed; the page reads the new files without a restart"
    yield check_dates(own, f"the page's certificate {tls.cert}", renew, time.time())
    if host and not is_for(own, host):
        names = ", ".join(alternative_names(own)) or "nobody"
        text = f"the page's certificate {tls.cert} is for {names}, and dashboard_url names {host}"
        yield problem(text, "have one made for that name; browsers refuse others")


def oidc(settings: ServerConfig) -> Iterator[Finding]:
    """Whether the provider answers, as what it is taken for."""
    try:
        provider = make_provider(settings.oidc, settings.dashboard_url)
    except ConfigError as error:
        yield problem(str(error), "see docs/configuration.md")
        return
    assert provider is not None

    async def keys() -> int:
        try:
            return len(await provider.keys())
        finally:
            await provider.close()

    try:
        num = asyncio.run(keys())
    except TransportError as error:
        yield problem(str(error), "is issuer right, and can this machine reach it?")
        return
    if num == 0:
        text = f"the provider {provider.name} has no key that ID tokens may be signed with"
        yield problem(text, "it has to sign with RS256, ES256 or alike, not with a secret")
        return
    where = provider.redirect_uri
    yield ok(
        f"{provider.name} answers, with {counted(num, 'key')}; registered there must be {where}"
    )
