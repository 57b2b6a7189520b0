import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from domo.api.transport import Rest
from domo.errors import ConfigError, DomoError
from domo_server.config import WebhookConfig
from domo_server.integrations.webhook_message import Hook
from tests.support.certificates import Authority
from tests.support.faults.middle import Answer, Box, box
from tests.support.live.coordinator import Coordinator, coordinator


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [v for v in os.environ if v.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with coordinator(tmp_path_factory.mktemp("plain")) as it:
        yield it


def said(url: str) -> str:
    with Rest(url, timeout_s=5) as rest, pytest.raises(DomoError) as caught:
        rest.ask("GET", "/status")
    return str(caught.value)


OTHER = (
    "the dashboard's is 8080 by default. Is that the address of its dashboard, as it printed it?"
)


def test_the_port_for_silos(server: Coordinator) -> None:
    at = f"http://{server.address}"
    text = f"no coordinator answers at {at}: it speaks no HTTP/1, as the port for silos; {OTHER}"
    assert said(at) == text
    assert said(server.address) == text, "as it is printed, without a scheme"


def test_https_to_a_port_that_does_not_speak_it(server: Coordinator) -> None:
    at = server.url.replace("http://", "https://")
    assert said(at).startswith(
        f"no coordinator answers at {at}: it does not speak https; give http://. Is"
    )


def test_a_port_that_wants_tls(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "ca").sign("c", "127.0.0.1")
    with coordinator(tmp_path / "c", tls={"cert": pair.cert, "key": pair.key}) as it:
        text = "it hangs up: it may want https://, or be the port for silos"
        assert text in said(f"http://{it.address}")
        text = "its certificate is not signed by a CA that is trusted here, or is for another name"
        assert text in said(f"https://{it.address}")


def test_nobody_and_no_such_name() -> None:
    assert ": connection refused. Is that" in said("http://127.0.0.1:1")
    assert ": the name cannot be resolved. Is that" in said("http://no-such-host.invalid:1")


@pytest.fixture
def proxy() -> Iterator[Box]:
    with box("127.0.0.1:1") as it:
        head = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        it.answers(Answer(at_once=head))
        yield it


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_in_the_way_is_named_with_the_cure(
    server: Coordinator, proxy: Box, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for address, fault in ((proxy.address, "answered 407"), ("127.0.0.1:9", "connection refused")):
        monkeypatch.setenv(variable, f"http://user:hunter2@{address}")
        text = said(server.url)
        assert fault in text
        assert f"the variable {variable} sends this through the proxy {address}: to go" in text
        assert "export no_proxy=127.0.0.1" in text
        assert "hunter2" not in text
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # as it was told
    with Rest(server.url) as rest:
        assert rest.ask("GET", "/status")


def test_a_proxy_that_no_library_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", " http://user:hunter2@127.0.0.1:9 ")
    with pytest.raises(DomoError, match="HTTP_PROXY or HTTPS_PROXY cannot be used") as caught:
        Rest("http://127.0.0.1:1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE=/no/such/file: no CAs can be read there"),
        ("SSL_CERT_FILE", __file__, "no CAs can be read there: "),
        ("NO_PROXY", "http://x:y:z", "or NO_PROXY: Invalid port: 'y:z'; mend the variable"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", "cannot be used: it is a SOCKS proxy"),
    ],
)
def test_a_variable_that_no_client_can_be_made_with(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, text: str
) -> None:
    """For REST, and for webhooks, which went silent over it."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=re.escape(text)):
        Rest("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=re.escape(text)):
        Hook(WebhookConfig(url="https://example.org/hook"))
