"""A variable sends a silo to a proxy: it is named, with the cure, wherever the connection fails."""

import os
from pathlib import Path

import pytest

import domo_client
from domo.errors import CoordinatorUnavailableError
from tests.support.faults.middle import Answer, box
from tests.support.live.coordinator import coordinator

REFUSES = b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [v for v in os.environ if v.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)


def refused(address: str, folder: Path) -> str:
    with pytest.raises(CoordinatorUnavailableError) as caught:
        domo_client.connect(address, "site-a", state_dir=folder / "state", first_connect_s=0.0)
    return str(caught.value)


@pytest.mark.parametrize("variable", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_a_proxy_where_nobody_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, capfd: pytest.CaptureFixture
) -> None:
    with coordinator(tmp_path) as server:
        monkeypatch.setenv(variable, "http://user:hunter2@127.0.0.1:9")
        assert refused(server.address, tmp_path) == (
            f"no coordinator answers at {server.address} (connection refused); the variable "
            f"{variable} sends this through the proxy 127.0.0.1:9: to go past it, export "
            "no_proxy=127.0.0.1"
        )
        monkeypatch.setenv("no_proxy", "127.0.0.1")  # as it was told
        domo_client.connect(server.address, "site-a", state_dir=tmp_path / "state").close()
    assert "hunter2" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("status", [403, 407, 502])
def test_a_proxy_that_lets_nobody_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with coordinator(tmp_path) as server, box("127.0.0.1:1") as proxy:
        proxy.answers(Answer(at_once=REFUSES % status))
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        text = refused(server.address, tmp_path)
    assert f"(the proxy refuses: HTTP {status}); the variable https_proxy sends this" in text


def test_a_proxy_that_cannot_be_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://no-such-proxy.invalid:3128")
    text = refused("127.0.0.1:1", tmp_path)
    assert "through the proxy no-such-proxy.invalid:3128" in text


def test_a_proxy_that_grpc_does_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The silo dials directly, where its operator thought that it would not."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@127.0.0.1:9")
    with pytest.raises(CoordinatorUnavailableError) as caught:
        domo_client.connect(
            "no-such-host.invalid:1",
            "site-a",
            state_dir=tmp_path / "state",
            first_connect_s=0.0,
            insecure=True,
        )
    text = str(caught.value)
    assert "(the name cannot be resolved); dialled without the proxy of HTTPS_PROXY: grpc" in text
    assert "hunter2" not in text
