import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from domo_server.config import ServerConfig
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
        ("0.0.0.0:0", "https://domo.example.org", "127.0.0.1", None),
        ("[::]:0", None, "[::1]", None),
    ],
)
def test_where_the_dashboard_answers(
    dashboard: str, url: str | None, at: str, more: set[str] | None
) -> None:
    config = ServerConfig(dashboard=dashboard, dashboard_url=url, state_dir=Path("state"))
    with contextlib.closing(bind_dashboard(dashboard)) as sock:
        assert dashboard_url(sock) == f"http://{at}:{sock.getsockname()[1]}"
        hosts = dashboard_hosts(sock, config)
    assert hosts == (None if more is None else sorted(LOCAL | more))


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
