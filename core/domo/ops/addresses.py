"""Addresses as people type and paste them: understood where only one thing can be meant.

host:port for silos, URLs for REST, host:port to listen on. What is not understood is one text,
which never repeats a password.
"""

import re
import unicodedata
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from domo.errors import ConfigError

SILO_PORT, PAGE_PORT = 50051, 8080
"""The ports for silos and for the dashboard, by default."""
EVERYWHERE = "0.0.0.0"
SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
TARGET = re.compile(r"^(dns:/{0,3}|ipv4:|ipv6:)(?=[^/]+$)", re.IGNORECASE)
"""How grpc's own names for addresses begin."""
OF_GRPC = ("http", "https", "grpc", "grpcs", "tcp", "h2", "h2c", "dns")
"""Schemes that somebody gives who means host:port."""
OF_PAGE = re.compile(r"/(login|api|docs|redoc|metrics|static)(/.*)?$")
"""Paths below the address of a dashboard, as they are copied from a browser."""
INVISIBLE = dict.fromkeys((0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF, 0x00AD))
DASHES = dict.fromkeys((0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212), "-")
QUOTES = "\"'`\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
UNEXPANDED = re.compile(r"\$|%[A-Za-z_]\w*%|\{\{|[<>]")
HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?")
Wrong = Callable[[str], ConfigError]
"""Makes the error, given why an address is none."""


def grpc_address(text: str, what: str = "the coordinator's address") -> str:
    """The host:port that silos dial.

    Args:
        text: As it was given.
        what: What is given, for the text.

    Raises:
        ConfigError: It is no address, or may be several.
    """
    given = _cleaned(text)

    def wrong(why: str) -> ConfigError:
        return ConfigError(f"{what} must be host:port, got {without_password(text)!r}: {why}")

    why = _is_none_at_all(without_password(given))
    if why:
        raise wrong(why)
    scheme = SCHEME.match(given)
    if scheme is not None:
        if scheme[1].lower() not in OF_GRPC:
            raise wrong(f"{scheme[1]}:// is not dialled; give HOST:{SILO_PORT}")
        given = given[scheme.end() :]
        if "/" not in given.rstrip("/"):
            given = given.rstrip("/")
        elif scheme[1].lower() == "dns" and given.startswith("/"):
            given = given.lstrip("/")
    given = TARGET.sub("", given).removesuffix("/")
    if "/" in given:
        raise wrong(
            "a path has no place here. Silos do not dial the page's address, but HOST:PORT of the "
            f"coordinator's port for silos, {SILO_PORT} by default"
        )
    host, port = _split(given, wrong, SILO_PORT)
    if host == EVERYWHERE or host == "::":
        raise wrong(
            "this is where a coordinator listens. Dial its machine's name or address, or "
            f"127.0.0.1:{port} on the same machine"
        )
    if port == 0:
        raise wrong("a port is 1 to 65535")
    return joined(host, port)


def listen_address(text: str, what: str = "", example: str = f"127.0.0.1:{PAGE_PORT}") -> str:
    """The host:port to listen on.

    Args:
        text: As it was given; `:PORT` and `*:PORT` are all addresses of this machine, and port 0 is
            a free one.
        what: What is given, for a text that repeats it; empty: whoever calls says so.
        example: Of such an address.

    Raises:
        ConfigError: It is no such address.
    """
    given = _cleaned(text)

    def wrong(why: str) -> ConfigError:
        got = f", got {without_password(text)!r}" if what else ""
        return ConfigError(f"{what} must be host:port, such as {example}{got}: {why}".lstrip())

    why = _is_none_at_all(without_password(given))
    if why:
        raise wrong(why)
    scheme = SCHEME.match(given)
    if scheme is not None and scheme[1].lower() in OF_GRPC:
        given = given[scheme.end() :]
    given = given.removesuffix("/")
    if re.fullmatch(r"\*?:\d+", given):
        given = EVERYWHERE + given[given.index(":") :]
    host, port = _split(given, wrong, None)
    return joined(host, port)


def page_url(text: str, what: str = "the address of the dashboard") -> str:
    """The URL of a dashboard, without what follows it in a browser.

    Raises:
        ConfigError: It is no such URL.
    """
    given = _cleaned(text)

    def wrong(why: str) -> ConfigError:
        must = f"{what} must be a URL such as http://127.0.0.1:{PAGE_PORT}"
        return ConfigError(f"{must}, got {without_password(text)!r}: {why}")

    why = _is_none_at_all(without_password(given))
    if why:
        raise wrong(why)
    scheme = SCHEME.match(given)
    if scheme is None:
        kind, rest = "http", given.lstrip("/")
    else:
        kind, rest = scheme[1].lower(), given[scheme.end() :]
    if kind not in ("http", "https"):
        raise wrong(f"REST is http or https, not {kind}")
    rest = rest.partition("#")[0].partition("?")[0]
    place, slash, path = rest.partition("/")
    path = OF_PAGE.sub("", slash + path).rstrip("/")
    user, at, place = place.rpartition("@")
    if scheme is None and not re.search(r":\d+$", place):
        raise wrong(f"the port is missing; the dashboard's is {PAGE_PORT} by default")
    if scheme is not None and not re.search(r":[^\]]*$", place):
        port = None
        host, _ = _split(f"{place}:1", wrong, None)
    else:
        host, port = _split(place, wrong, PAGE_PORT)
    if port == 0:
        raise wrong("a port is 1 to 65535")
    shown = f"[{host}]" if ":" in host else host
    return f"{kind}://{user}{at}{shown}{'' if port is None else f':{port}'}{path}"


def joined(host: str, port: int) -> str:
    """host:port, with the brackets of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of a good address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_local(host: str) -> bool:
    """Whether a host, without brackets, is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_loopback(address: str) -> bool:
    """Whether host:port can only be reached from this machine."""
    return is_local(address.rpartition(":")[0].strip("[]"))


def without_password(url: str) -> str:
    """An address without what stands before its `@`, at most 200 characters."""
    return re.sub(r"^([^/]*//)?[^/]*@", lambda m: m[1] or "", url)[:200]


def _cleaned(text: str) -> str:
    """Without what nobody types on purpose: blanks, quotes, what cannot be seen, other dashes."""
    plain = unicodedata.normalize("NFKC", text.translate(INVISIBLE | DASHES))
    plain = plain.translate({0x3002: ".", 0xFF61: "."})
    plain = plain.strip().strip(QUOTES).strip().rstrip(",;.").rstrip()
    return re.sub(r"\s*:\s*", ":", plain)


def _is_none_at_all(given: str) -> str:
    """What is wrong with it as a whole; empty: it may be an address."""
    if not given:
        return "it is empty"
    if UNEXPANDED.search(given):
        return "a placeholder or variable in it was not replaced"
    if "\\" in given or re.match(r"^[A-Za-z]:/(?!/)", given) or given.startswith(("unix:", "/")):
        return "this is a path"
    if re.search(r"[,;]", given):
        return "one address only"
    if re.search(r"\s", given):
        return "a blank has no place in it"
    return ""


def _split(given: str, wrong: Wrong, usual: int | None) -> tuple[str, int]:
    """Host, without brackets, and port."""
    if "@" in given:
        raise wrong("a user and a password have no place here; leave out all up to the @")
    if _is_ipv6(given):
        raise wrong(f"an IPv6 address has brackets, and a port after them: [{given}]:{usual or 0}")
    if given.startswith("["):
        inner, bracket, port = given[1:].partition("]")
        if not bracket or not _is_ipv6(inner):
            raise wrong("brackets are for an IPv6 address, such as [::1]:50051")
        if not port.startswith(":"):
            raise wrong(f"the port is missing{_usually(f'[{inner}]', usual)}")
        return inner.lower(), _port(port[1:], wrong)
    host, colon, port = given.rpartition(":")
    if not colon:
        if given.isdecimal():
            raise wrong(f"the host is missing, such as in 127.0.0.1:{given}")
        _check_host(given, wrong)
        raise wrong(f"the port is missing{_usually(given, usual)}")
    if not host:
        raise wrong("the host is missing")
    if _is_ipv6(host) and port.isdecimal():
        raise wrong(f"an IPv6 address has brackets: [{host}]:{port}")
    if ":" in host:
        raise wrong("it has too many colons; give one host and one port")
    if not port:
        raise wrong(f"the port is missing{_usually(host, usual)}")
    return _check_host(host, wrong), _port(port, wrong)


def _usually(host: str, usual: int | None) -> str:
    return "" if usual is None else f"; {host}:{usual}, if its admin says nothing else"


def _is_ipv6(text: str) -> bool:
    try:
        return isinstance(ip_address(text), IPv6Address)
    except ValueError:
        return False


def _port(text: str, wrong: Wrong) -> int:
    if not text.isdecimal():
        raise wrong(f"the port is a number, not {text[:30]!r}")
    port = int(text[:12])
    if port > 65535:
        raise wrong("a port is 1 to 65535")
    return port


def _check_host(host: str, wrong: Wrong) -> str:
    """A host in small letters and in ASCII."""
    name = host.lower()
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            raise wrong(f"{host!r} is no host name") from None
    if re.fullmatch(r"[0-9.]+", name):
        try:
            ip_address(name)
        except ValueError:
            raise wrong(f"{name} is no IPv4 address") from None
    elif not HOST.fullmatch(name):
        odd = next((c for c in name if not re.match(r"[a-z0-9._-]", c)), "")
        has = f": {odd!r} has no place in one" if odd else ""
        raise wrong(f"{name[:60]!r} is no host name{has}")
    return name
