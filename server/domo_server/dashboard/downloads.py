"""Answers that browsers keep as files."""

import os
from collections.abc import Awaitable, Callable
from typing import IO

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from domo.api.schema import RunDetail
from domo.names import plain
from domo_server.dashboard.access.gate import requires
from domo_server.dashboard.errors import ApiError, no_model
from domo_server.dashboard.openapi_examples import errors, other
from domo_server.dashboard.strict import WhichModel
from domo_server.view.interfaces import ReadModel

_MODEL_TRIES = 3


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


def model_route(
    router: APIRouter, read: ReadModel, detail: Callable[[str], Awaitable[RunDetail]]
) -> None:
    """Add the download of a run's model."""

    @router.get(
        "/runs/{run_id:path}/model",
        response_class=FileResponse,
        responses=other(
            "application/octet-stream", "(binary)", "`<run_id>-x<r>.safetensors`, or `-best-x<r>`."
        )
        | errors(403, 404, 422, 503),
        dependencies=[requires("auditor")],
        tags=["runs"],
    )
    async def model(run_id: str, which: WhichModel = "newest") -> FileResponse:
        """The newest committed model x_r of a run, or the best, complete, as safetensors.

        Weights can give away what they were trained on, as numbers about them do not: whoever may
        only look at a run gets none.
        """

        def index(run: RunDetail) -> int | None:
            return run.rounds_done if which == "newest" else run.best_index

        for _ in range(_MODEL_TRIES):
            before = await detail(run_id)
            path = await read.model_file(run_id, which)
            if path is None:
                raise no_model(run_id, which)
            try:
                file = await run_in_threadpool(path.open, "rb", 0)
            except FileNotFoundError:  # a newer checkpoint took its place
                continue
            after = await detail(run_id)
            if index(before) == index(after):  # else the name would tell a wrong round
                name = f"{'' if which == 'newest' else 'best-'}x{index(after)}"
                return OpenFile(file, f"{plain(run_id)}-{name}.safetensors")
            file.close()
        message = "the model changed while it was being opened. Try again in a moment."
        raise ApiError(503, "unavailable", message, {"Retry-After": "1"})
