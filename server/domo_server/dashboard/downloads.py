"""Answers that browsers keep as files."""

import os
from typing import IO

from fastapi import Response
from fastapi.responses import FileResponse
from starlette.types import Receive, Scope, Send


class OpenFile(FileResponse):
    """A file as it was when it was opened, whatever becomes of its name meanwhile.

    Args:
        file: Closed once it is sent.
        name: What it is called at the other end.
    """

    def __init__(self, file: IO[bytes], name: str):
        self._file, handle = file, file.fileno()
        stat = os.fstat(handle)
        kind = "application/octet-stream"
        super().__init__(f"/dev/fd/{handle}", media_type=kind, filename=name, stat_result=stat)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or the parts that are asked for."""
        with self._file:
            await super().__call__(scope, receive, send)


def download(content: str | bytes, media_type: str, name: str) -> Response:
    """An answer that browsers keep as a file."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)
