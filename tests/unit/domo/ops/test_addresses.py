import pytest

from domo.errors import ConfigError
from domo.ops.addresses import grpc_address, is_loopback, listen_address, page_url

UNDERSTOOD = {
    "host:1": "host:1",
    " host:50051\n": "host:50051",
    "\u00a0host:50051\u200b": "host:50051",
    "\ufeffhost:50051": "host:50051",
    "'host:50051'": "host:50051",
    "\u201chost:50051\u201d": "host:50051",
    "http://host:50051": "host:50051",
    "https://host:50051/": "host:50051",
    "HTTPS://host:50051": "host:50051",
    "grpc://host:50051": "host:50051",
    "dns:///host:50051": "host:50051",
    "dns:host:50051": "host:50051",
    "ipv4:10.0.0.1:50051": "10.0.0.1:50051",
    "ipv6:[::1]:50051": "[::1]:50051",
    "host:50051/": "host:50051",
    "host: 50051": "host:50051",
    "host :50051": "host:50051",
    "host:50051,": "host:50051",
    "host:50051.": "host:50051",
    "host:050051": "host:50051",
    "Coordinator.Example:50051": "coordinator.example:50051",
    "co\u2013ordinator.example:50051": "co-ordinator.example:50051",
    "host\uff1a\uff15\uff10\uff10\uff15\uff11": "host:50051",
    "a\u3002example:1": "a.example:1",
    "b\u00fccher.example:1": "xn--bcher-kva.example:1",
    "my_host:50051": "my_host:50051",
    "[::1]:50051": "[::1]:50051",
    "[fe80::1%eth0]:1": "[fe80::1%eth0]:1",
    "10.0.0.1:65535": "10.0.0.1:65535",
}
WRONG = {
    "": "it is empty",
    " ": "it is empty",
    "host": "the port is missing; host:50051, if its admin says nothing else",
    "host:": "the port is missing; host:50051",
    "https://host/": "the port is missing; host:50051",
    ":50051": "the host is missing",
    "50051": "the host is missing, such as in 127.0.0.1:50051",
    "host:0": "a port is 1 to 65535",
    "host:70000": "a port is 1 to 65535",
    "host:abc": "the port is a number, not 'abc'",
    "host:-1": "the port is a number, not '-1'",
    "host 50051": "a blank has no place in it",
    "::1": "an IPv6 address has brackets, and a port after them: [::1]:50051",
    "2001:db8::1:50051": "an IPv6 address has brackets",
    "[::1]": "the port is missing; [::1]:50051",
    "[::1]50051": "the port is missing",
    "[host]:1": "brackets are for an IPv6 address",
    "host:1:2": "too many colons",
    "user@host:50051": "a user and a password have no place here",
    "a:1,b:2": "one address only",
    "$HOST:50051": "a placeholder or variable in it was not replaced",
    "${HOST}:50051": "a placeholder or variable",
    "%HOST%:50051": "a placeholder or variable",
    "<host>:50051": "a placeholder or variable",
    "0.0.0.0:50051": "this is where a coordinator listens. Dial its machine's name or address, or "
    "127.0.0.1:50051 on the same machine",
    "[::]:50051": "this is where a coordinator listens",
    "C:\\Users\\me": "this is a path",
    "C:/data": "this is a path",
    "/etc/domo": "this is a path",
    "unix:/tmp/x": "this is a path",
    "http://host:8080/#/runs/3": "a path has no place here. Silos do not dial the page's address",
    "ws://host:1": "ws:// is not dialled",
    "256.1.1.1:1": "256.1.1.1 is no IPv4 address",
    "10.1:1": "10.1 is no IPv4 address",
    "server=host:1": "'=' has no place in one",
    "-host:1": "'-host' is no host name",
    "a..b:1": "'a..b' is no host name",
    "x" * 5000: "is no host name",
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_what_is_meant_for_certain_is_understood(text: str) -> None:
    assert grpc_address(text) == UNDERSTOOD[text]
    assert grpc_address(UNDERSTOOD[text]) == UNDERSTOOD[text]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_is_one_line_that_says_why(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        grpc_address(text)
    said = str(caught.value)
    assert said.startswith("the coordinator's address must be host:port, got ")
    assert WRONG[text] in said
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize("parse", [grpc_address, listen_address])
@pytest.mark.parametrize("text", ["user:hunter2@host:1", "http://user:hunter2@host:1/x"])
def test_a_password_is_not_repeated(parse: object, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)  # type: ignore[operator]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        (" http://127.0.0.1:8080/ ", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://host:8080/#/runs/3-chest", "http://host:8080"),
        ("http://host:8080/login?token=abc", "http://host:8080"),
        ("http://host:8080/api/v1/status", "http://host:8080"),
        ("https://host.example/domo/", "https://host.example/domo"),
        ("https://host.example/domo/api/v1", "https://host.example/domo"),
        ("HTTP://Host:8080", "http://host:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://user:pa$$@host:80/x", "http://user:pa$$@host:80/x"),
    ],
)
def test_the_pages_address(text: str, url: str) -> None:
    assert page_url(text) == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("host", "the port is missing; the dashboard's is 8080 by default"),
        ("grpc://host:50051", "REST is http or https, not grpc"),
        ("http://", "the host is missing"),
        ("http://host:x", "the port is a number"),
        ("http://$HOST:8080", "a placeholder or variable"),
        ("http://::1:8080", "an IPv6 address has brackets"),
    ],
)
def test_what_is_no_pages_address(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^the address of the dashboard must be a URL .*{why}"):
        page_url(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", "127.0.0.1:0"),
        (":50051", "0.0.0.0:50051"),
        ("*:50051", "0.0.0.0:50051"),
        ("[::]:50051", "[::]:50051"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        (" localhost:8080", "localhost:8080"),
    ],
)
def test_where_to_listen(text: str, address: str) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "8080", "host", "::1", "1.2.3:4", "host:99999", "a b:1"])
def test_where_nobody_can_listen(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^must be host:port, such as 127.0.0.1:8080: "):
        listen_address(text)


@pytest.mark.parametrize(
    "address", ["localhost:1", "LOCALHOST:1", "127.0.0.1:50051", "127.9.9.9:1", "[::1]:50051"]
)
def test_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example.com:1", "localhost.example.com:1", "host:1"],
)
def test_not_loopback(address: str) -> None:
    assert not is_loopback(address)
