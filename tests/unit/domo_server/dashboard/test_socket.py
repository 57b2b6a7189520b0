import asyncio
import socket

from domo_server.startup import bind_dashboard


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
