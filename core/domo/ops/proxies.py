"""Which proxy the variables of the environment send a connection to, and how to go past it.

grpc and httpx read them by rules of their own. What is said of a proxy never holds its password.
"""

import os
from base64 import b64encode
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from domo.ops.addresses import is_local

GRPC_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")
"""Those that grpc reads, the first one that is set; it reads them in lower case only."""
GRPC_EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
GRPC_PORT = 443
"""Of a proxy whose address has none."""
NAMES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that the environment names.

    Attributes:
        variable: The variable that names it.
        host: Its host.
        port: Its port.
        head: Its `Proxy-Authorization` line, if it wants one.
    """

    variable: str
    host: str
    port: int
    head: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def of_grpc(host: str) -> Proxy | None:
    """The proxy that grpc takes to a host; None: it dials directly."""
    variable = next((v for v in GRPC_VARIABLES if v in os.environ), None)
    if variable is None or _excepted_by_grpc(host):
        return None
    try:
        url = urlsplit(os.environ[variable])
        port = url.port or GRPC_PORT
    except ValueError:
        return None
    if url.scheme != "http" or not url.hostname:
        return None  # grpc does not take it
    head = ""
    if url.username is not None:
        secret = f"{url.username}:{url.password or ''}".encode()
        head = f"Proxy-Authorization: Basic {b64encode(secret).decode()}\r\n"
    return Proxy(variable, url.hostname, port, head)


def _excepted_by_grpc(host: str) -> bool:
    listed = next((os.environ[v] for v in GRPC_EXCEPTIONS if v in os.environ), "")
    for entry in filter(None, (part.strip() for part in listed.split(","))):
        if host.lower().endswith(entry.lower().removeprefix(".")):
            return True
        try:
            if ip_address(host) in ip_network(entry, strict=False):
                return True
        except (ValueError, TypeError):
            continue
    return False


def unused_by_grpc() -> dict[str, str]:
    """Variables that name a proxy and that grpc does not go by, with the reason."""
    found = {}
    for variable in (v for v in os.environ if v.lower() in NAMES and os.environ[v]):
        value = os.environ[variable]
        if variable not in GRPC_VARIABLES:
            found[variable] = f"grpc reads {', '.join(GRPC_VARIABLES)}, in lower case only"
        elif not value.lower().startswith("http://"):
            kind = value.partition("://")[0].lower() if "://" in value else "no scheme"
            kind = kind if kind.isalnum() else "no scheme"
            found[variable] = f"grpc takes a proxy of the form http://HOST:PORT only, not {kind}"
    return found


def of_http(url: str) -> Proxy | None:
    """The proxy that httpx takes to a URL, and as good as any other library does."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    proxies = getproxies_environment()
    kind = parts.scheme if parts.scheme in proxies else "all"
    if kind not in proxies or proxy_bypass(host, proxies):
        return None
    names = (f"{kind}_proxy", f"{kind}_proxy".upper())
    variable = next((v for v in names if os.environ.get(v)), names[0])
    given = proxies[kind]
    try:
        to = urlsplit(given if "://" in given else f"http://{given}")
        return Proxy(variable, to.hostname or "?", to.port or 80)
    except ValueError:
        return Proxy(variable, "?", 0)


def way_past(proxy: Proxy, host: str) -> str:
    """What to type to go past a proxy: `no_proxy=...`, with what is excepted already."""
    listed = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    return f"no_proxy={','.join(filter(None, (listed, host)))}"


def note_of_grpc(host: str, reached: bool = False) -> str:
    """What an error of a call over grpc has to say of proxies; empty: nothing.

    Args:
        host: Whom it was to.
        reached: Whether anybody has answered.
    """
    proxy = of_grpc(host)
    if proxy is not None:
        return _note(proxy, host)
    unused = unused_by_grpc()
    if reached or not unused or is_local(host):
        return ""
    why = "; ".join(dict.fromkeys(unused.values()))
    return f"; dialled without the proxy of {', '.join(unused)}: {why}"


def note_of_http(url: str) -> str:
    """What an error of a call over HTTP has to say of proxies; empty: nothing."""
    proxy = of_http(url)
    return "" if proxy is None else _note(proxy, urlsplit(url).hostname or "")


def _note(proxy: Proxy, host: str) -> str:
    return (
        f"; the variable {proxy.variable} sends this through the proxy {proxy}: to go past it, "
        f"export {way_past(proxy, host)}"
    )
