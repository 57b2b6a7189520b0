import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from domo_server.config import ServerConfig
from domo_server.dashboard_config import DashboardTls
from domo_server.startup import bind_dashboard, dashboard_hosts, dashboard_url

LOCAL = {"localhost", "127.0.0.1", "::1"}


@pytest.mark.parametrize(
    ("dashboard", "url", "at", "more"),
    [
        ("127.0.0.1:0", None, "127.0.0.1", set()),
        ("[::1]:0", None, "[::1]", set()),
        (
            "127.0.1.1:0",
            "https://domo.example.org/",
            "127.0.1.1",
            {"127.0.1.1", "domo.example.org"},
        ),
        ("localhost:0", "http://[", "127.0.0.1", set()),
        ("0.0.0.0:0", "https://domo.example.org", "127.0.0.1", {"0.0.0.0", "domo.example.org"}),
        ("[::]:0", None, "[::1]", {"::"}),
    ],
)
def test_where_the_dashboard_answers(
    dashboard: str, url: str | None, at: str, more: set[str]
) -> None:
    config = ServerConfig(dashboard=dashboard, dashboard_url=url, state_dir=Path("state"))
    with contextlib.closing(bind_dashboard(dashboard)) as sock:
        assert dashboard_url(sock) == f"http://{at}:{sock.getsockname()[1]}"
        hosts = dashboard_hosts(sock, config)
    is_here = "0.0.0.0" not in dashboard and "[::]" not in dashboard
    own = set() if is_here else {socket.gethostname().lower()}
    assert hosts == (tuple(sorted(LOCAL | more | own)), is_here)


def test_where_browsers_look_at_a_certificate_any_name_is_answered() -> None:
    tls = DashboardTls(cert=Path("page.pem"), key=Path("page.key"))
    with contextlib.closing(bind_dashboard("0.0.0.0:0")) as sock:
        config = ServerConfig(dashboard="0.0.0.0:0", dashboard_tls=tls, state_dir=Path("state"))
        assert dashboard_hosts(sock, config) is None
    with contextlib.closing(bind_dashboard("127.0.0.1:0")) as sock:
        assert dashboard_hosts(sock, config) is not None


def test_an_answer_on_a_kept_connection_does_not_wait_for_the_callers_acknowledgement() -> None:
    async def accepted() -> object:
        taken = asyncio.get_running_loop().create_future()

        def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            taken.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with bind_dashboard("127.0.0.1:0") as sock:
            async with await asyncio.start_server(answer, sock=sock):
                _, writer = await asyncio.open_connection(*sock.getsockname())
                found = await taken
                writer.close()
                await writer.wait_closed()
                return found

    assert asyncio.run(accepted())
