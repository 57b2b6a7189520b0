"""What a coordinator says when it has started: commands that work as they are."""

from pathlib import Path

import pytest

from domo.api.client import DASHBOARD
from domo_server.cli import _banner
from domo_server.config import ServerConfig, TlsConfig, default_state
from domo_server.startup import Started

PEM = Path("x.pem")


@pytest.mark.parametrize(
    ("listen", "tls", "command"),
    [
        ("127.0.0.1:50051", None, "--server 127.0.0.1:50051 --name NAME --data DIR"),
        ("10.0.0.5:50051", None, "--server 10.0.0.5:50051 --name NAME --data DIR --insecure"),
        ("0.0.0.0:50051", (PEM, None), "--server HOST:50051 --name NAME --data DIR --tls-ca CA"),
        (
            "site.example:50051",
            (PEM, PEM),
            "--server site.example:50051 --name NAME --data DIR --tls-ca CA --tls-cert CERT "
            "--tls-key KEY",
        ),
    ],
)
def test_the_command_of_a_silo(
    listen: str,
    tls: tuple[Path, Path | None] | None,
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = None if tls is None else TlsConfig(cert=PEM, key=PEM, client_ca=tls[1])
    settings = ServerConfig(state_dir=Path("state"), insecure=True, tls=files)
    url = "http://127.0.0.1:8081"
    _banner(settings, Started(listen, url, lambda: f"{url}/login?code=c", ["1-domo"]), link=True)
    said = capsys.readouterr().out.splitlines()
    where = ", on this machine," if listen.startswith("127.") else ","
    assert said[-2] == f"next: start the silos{where} each with: domo-client {command}"
    assert said[-1] == f"and watch: domo watch --server {url}"
    assert said[2].endswith(f"{url}/login?code=c")


@pytest.mark.parametrize(
    ("state", "url", "flags"),
    [
        (default_state(), DASHBOARD, ""),
        (default_state(), "http://127.0.0.1:8081", " --server http://127.0.0.1:8081"),
        (Path("/srv/my state"), DASHBOARD, " --token-file '/srv/my state/admin-token'"),
    ],
)
def test_the_submit_command_of_an_idle_coordinator_finds_it_and_its_token(
    state: Path, url: str, flags: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ServerConfig(state_dir=state)
    _banner(settings, Started("127.0.0.1:50051", url, lambda: f"{url}/login?code=c", []), link=True)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"  domo submit federation.toml{flags}"
